"""`headrace fsck`: check every byte of a data directory; repair it on request."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import click

from headrace.cli.support.output import progress_bar
from headrace.store.tools.findings import Findings, RepairAction, describe_ranges
from headrace.store.tools.fsck import check
from headrace.store.tools.offline import locked
from headrace.store.tools.repair import repair

_DAMAGED = 1


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--repair",
    "wanted",
    is_flag=True,
    help="Move damaged bytes to DIR/lost+found and make the rest consistent.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def fsck(directory: Path, wanted: bool, as_json: bool) -> int:
    """Check the data directory DIR of a broker that is not running.

    Reads every record and compares every checksum. Nothing is changed without --repair. The exit
    code is 0 when nothing is damaged (any more), otherwise 1.
    """
    # Recovery reports to the log of the broker; here everything is printed at the end.
    logging.getLogger("headrace.store").addHandler(logging.NullHandler())
    done: list[str] = []
    with locked(directory, create=wanted, strict=False):
        findings = _check(directory)
        if wanted:
            with progress_bar("repairing"):
                done = repair(directory, findings)
        after = _check(directory) if done else findings
    if as_json:
        click.echo(json.dumps({**findings.as_json(), "repair": done, "sound": after.is_sound}))
    else:
        _print(findings)
        for line in done:
            click.echo(f"repair: {line}")
        _sum_up(findings, after, repaired=bool(done))
    return 0 if after.is_sound else _DAMAGED


def _check(directory: Path) -> Findings:
    with progress_bar("checking", "segments") as progress:
        return check(directory, progress)


def _print(findings: Findings) -> None:
    queues = "not readable" if findings.queues is None else f"{len(findings.queues)} queues"
    end = "clean stop" if findings.is_clean_end else "no clean stop"
    click.echo(f"declared    {queues}")
    click.echo(f"checkpoint  {findings.position} ({end})")
    if findings.segments:
        click.echo(f"{'segment':>20} {'bytes':>11} {'used':>11} {'messages':>9} "
                   f"{'alive':>9} {'bytes alive':>12}  index")  # fmt: skip
    for one in findings.segments:
        click.echo(f"{one.base:>20} {one.size:>11,} {one.used:>11,} {one.messages:>9,} "
                   f"{one.live:>9,} {one.live_bytes:>12,}  {one.index}")  # fmt: skip
    for note in findings.notes:
        click.echo(f"note: {note}")
    for number, count in findings.orphans.items():
        why = "is not declared; --repair declares a queue for them"
        why = why if number in findings.kept else "no longer exists"
        click.echo(f"note: {count} messages of queue number {number}, which {why}")
    for place in findings.places:
        where = f"{place.size} bytes at {place.offset}" if place.size else "the file"
        click.echo(f"damage: {place.file}, {where}: {place.what}")
        for line in describe_ranges(place.lost, findings):
            click.echo(f"  lost: {line}")


def _sum_up(findings: Findings, after: Findings, *, repaired: bool) -> None:
    live = sum(segment.live for segment in after.segments)
    lost = sum(place.messages for place in findings.places)
    if findings.is_sound:
        click.echo(f"sound: {live:,} messages alive in {len(after.segments)} segments")
        return
    count = len(findings.places)
    summary = f"{count} damaged place{'s' * (count != 1)}, {lost:,} messages known to be lost"
    if all(place.remedy is RepairAction.NONE for place in findings.places):
        click.echo(f"{summary}; this cannot be repaired: restore a backup")
    elif not repaired:
        click.echo(f"{summary}; repair with --repair")
    elif after.is_sound:
        click.echo(f"{summary}; repaired, {live:,} messages alive")
    else:
        click.echo(f"{summary}; {len(after.places)} could not be repaired")
