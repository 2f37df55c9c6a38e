"""`headrace fsck`, `compact`, `backup` and `restore`: what is done to a data directory."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import click

from headrace.cli.support.output import DONE, FAILED, counted, progress_bar
from headrace.store.tools import backup as copies
from headrace.store.tools.compact import compact as compact_directory
from headrace.store.tools.findings import Findings, RepairAction, describe_ranges
from headrace.store.tools.fsck import check
from headrace.store.tools.offline import locked
from headrace.store.tools.repair import repair

_directory = click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))


def _silence() -> None:
    """Recovery reports to the log of the broker; commands print everything at the end."""
    logging.getLogger("headrace.store").addHandler(logging.NullHandler())


# -- fsck ------------------------------------------------------------------------------------------


@click.command()
@_directory
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
    _silence()
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
    return DONE if after.is_sound else FAILED


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


# -- compact, backup, restore ----------------------------------------------------------------------


@click.command()
@_directory
@click.option("--json", "as_json", is_flag=True, help="Print the sizes as JSON.")
def compact(directory: Path, as_json: bool) -> int:
    """Compact the log of a stopped broker.

    DIR is its data directory. A running broker compacts mostly dead segments by itself. This
    command rewrites every segment that has dead messages.
    """
    _silence()
    with locked(directory, create=True), progress_bar("compacting", "segments") as progress:
        before, after = compact_directory(directory, progress)
    if as_json:
        click.echo(json.dumps({"before": before.as_json(), "after": after.as_json()}))
        return DONE
    for label, space in (("before", before), ("after", after)):
        click.echo(
            f"{label:<7} {space.bytes:>15,} bytes in {space.segments} segments, "
            f"{space.messages:,} messages alive"
        )
    return DONE


@click.command()
@_directory
@click.argument("target", metavar="TARGET", type=click.Path(path_type=Path))
def backup(directory: Path, target: Path) -> int:
    """Copy the data directory DIR to the new directory TARGET.

    The broker may be running. Everything that was confirmed before the start and is not
    acknowledged is in the copy. TARGET appears when it is complete; `headrace restore` restores it.
    """
    with progress_bar("copying", "files") as progress:
        copied = copies.backup(directory, target, progress)
    return _copied(copied, target)


@click.command()
@click.argument("source", metavar="BACKUP", type=click.Path(path_type=Path))
@_directory
def restore(source: Path, directory: Path) -> int:
    """Copy BACKUP to DIR, which must be empty or absent.

    The backup is checked first, as `headrace fsck` does.
    """
    _silence()
    with progress_bar("copying", "files") as progress:
        copied = copies.restore(source, directory, progress)
    return _copied(copied, directory)


def _copied(copied: copies.CopySummary, target: Path) -> int:
    click.echo(f"copied {counted(copied.segments, 'segment')}, {copied.bytes:,} bytes, to {target}")
    return DONE
