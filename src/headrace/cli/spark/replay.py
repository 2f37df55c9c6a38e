"""`headrace replay`: publish stored messages again, to an exchange."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.cli.support.broker_options import broker_options
from headrace.cli.support.options import number_option
from headrace.cli.support.output import (
    DONE,
    FAILED,
    counted,
    json_option,
    print_json,
    print_result,
    progress_bar,
    wants_json,
)
from headrace.cli.support.spark_session import SessionSettings, open_session, spark_options, url_of
from headrace.client.settings import Settings
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace.spark.replay.replay import Preview, Replay


@click.command(short_help="Publish stored messages again.")
@click.option("--lake", metavar="DIR", type=click.Path(path_type=Path, file_okay=False),
              help="Read from the archive in DIR. [the messages the broker still has]")  # fmt: skip
@click.option(
    "-q", "--queue", "queues", multiple=True, metavar="NAME", help="Messages of this queue."
)
@click.option(
    "-t", "--topic", "topics", multiple=True, metavar="NAME", help="Messages of this topic."
)
@click.option(
    "--from", "since", required=True, metavar="TIME", help="Stored at this time or later."
)
@click.option("--to", "until", metavar="TIME", help="Stored before. [now]")
@click.option("--where", metavar="SQL", help="Only messages that match this SQL condition.")
@click.option("--into", required=True, metavar="EXCHANGE", help="'' is the default exchange.")
@click.option("--routing-key", metavar="KEY", help="Routing key. [the original one]")
@number_option("--rate", 1000.0, 0.1, "Maximum number of messages per second.")
@click.option("-y", "--yes", is_flag=True, help="Publish without asking for confirmation.")
@json_option
@spark_options
@broker_options
def replay(
    address: Settings,
    lake: Path | None,
    queues: tuple[str, ...],
    topics: tuple[str, ...],
    since: str,
    until: str | None,
    where: str | None,
    into: str,
    routing_key: str | None,
    rate: float,
    yes: bool,
    session: SessionSettings,
) -> int:
    """Show which messages would be published to the exchange, and publish them after confirmation.

    Each has the header x-replay-of. The same command with the same --to publishes each message
    once, however often it is repeated; an interrupted run continues where it stopped.
    """
    from headrace.spark.replay.replay import Replay
    from headrace.spark.replay.request import ReplayRequest, moment

    now = datetime.now(UTC).replace(microsecond=0)
    end = moment(until, "--to") if until is not None else now
    begin = moment(since, "--from")
    if end > datetime.now(UTC):
        raise ConfigError(
            "--to must not be in the future: repeating the command would publish other messages"
        )
    if begin >= end:
        raise ConfigError("--from must be before --to")
    if lake is None and not queues and not topics:
        raise ConfigError("missing source: pass --queue, --topic, or --lake for the archive")
    request = ReplayRequest(queues, topics, begin, end, where, into, routing_key)
    needed = address if lake is None else None
    with open_session("replay", session, broker=needed) as spark:
        job = Replay(spark, request, url_of(address), lake)
        preview = job.preview()
        if not wants_json():
            _show(preview, request.until)
        if not preview.count or not _agreed(preview, into, yes=yes):
            if wants_json():
                print_json({"found": preview.count, "sent": 0, "sent_before": 0})
            return DONE if not sys.stdin.isatty() or not preview.count else FAILED
        if until is None:  # the same command would mean other messages later
            again = f"--to {end.isoformat()}"
            click.echo(f"if it is interrupted, {again} continues where it stopped", err=True)
        sent, before = _send(job, rate, preview.count)
    earlier = f"; {before:,} were sent before" if before else ""
    text = f"sent {counted(sent, 'message')} into exchange {into or '(default)'}{earlier}"
    figures = {"found": preview.count, "sent": sent, "sent_before": before}
    return print_result(text, figures)


def _show(preview: Preview, until: datetime) -> None:
    from headrace.spark.row_output import draw

    if not preview.count:
        click.echo("no message matches")
        return
    draw(["kind", "source", "messages"], preview.by_source)
    draw(preview.columns, preview.sample, title="the first of them")
    click.echo(f"{counted(preview.count, 'message')}, stored before {until.isoformat()}")


def _agreed(preview: Preview, into: str, *, yes: bool) -> bool:
    if yes:
        return True
    if wants_json() or not sys.stdin.isatty():
        click.echo("dry run, nothing was published: pass --yes to publish", err=True)
        return False
    question = f"Send {counted(preview.count, 'message')} into exchange {into or '(default)'}?"
    return click.confirm(question, err=True)


def _send(job: Replay, rate: float, total: int) -> tuple[int, int]:
    done = 0

    def report(sent: int, before: int) -> None:
        nonlocal done
        done = sent + before
        progress(done, total)

    try:
        with progress_bar("replaying", "messages") as progress:
            return job.send(rate, report)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted after {done:,} of {counted(total, 'message')}: the same command with "
            f"--to {job.request.until.isoformat()} continues from there"
        ) from None
