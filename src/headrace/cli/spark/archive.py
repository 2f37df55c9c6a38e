"""`headrace archive`: messages of queues and topics to a lake, exactly once."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.cli.support.broker_options import broker_options
from headrace.cli.support.options import flag
from headrace.cli.support.output import (
    DONE,
    counted,
    json_option,
    print_result,
    progress_bar,
    wants_json,
)
from headrace.cli.support.spark_session import (
    SessionSettings,
    lake_option,
    on_signals,
    open_session,
    spark_options,
    url_of,
)
from headrace.client.settings import Settings

if TYPE_CHECKING:
    from headrace.spark.archive.archiver import ArchiveRound


@click.command(short_help="Archive messages to a lake, exactly once.")
@lake_option
@click.option("-q", "--queue", "queues", multiple=True, metavar="NAME", help="Or a pattern, a*.")
@click.option("-t", "--topic", "topics", multiple=True, metavar="NAME", help="Or a pattern, a*.")
@flag("--once", "Archive all messages that exist now, then stop.")
@click.option("--every", metavar="SECONDS", type=click.FloatRange(min=0.1), default=10.0,
              show_default=True, help="Time between two rounds.")  # fmt: skip
@click.option("--pin-bytes", metavar="BYTES", type=click.IntRange(min=1), default=10 << 30,
              help="Maximum size of messages kept for the archive. [10 GiB]")  # fmt: skip
@flag("--skip-lost", "Continue when messages were removed before they were archived.")
@flag("--release", "Remove the pin of this archive: the broker keeps no more messages for it.")
@json_option
@spark_options
@broker_options
def archive(
    address: Settings,
    lake: Path,
    queues: tuple[str, ...],
    topics: tuple[str, ...],
    once: bool,
    every: float,
    pin_bytes: int,
    skip_lost: bool,
    release: bool,
    session: SessionSettings,
) -> int:
    """Write the messages of all durable queues and topics, or of those chosen, to a Delta table.

    From the first run on, the broker keeps acknowledged messages until they are archived, up to
    --pin-bytes. Stop it with Ctrl-C or SIGTERM; the next run continues from there.
    """
    from headrace.spark.archive.archiver import Archiver
    from headrace.spark.archive.sources import ArchiveChoice

    stop = threading.Event()
    on_signals(stop.set)
    with open_session("archive", session, broker=address) as spark:
        archiver = Archiver(spark, lake.resolve(), url_of(address), ArchiveChoice(queues, topics),
                            pin_bytes, skip_lost)  # fmt: skip
        if release:
            archiver.release()
            click.echo("the pin of this archive is removed")
            return DONE
        if not once and sys.stderr.isatty():
            click.echo(f"archiving to {archiver.root}, stop with Ctrl-C", err=True)
        with progress_bar("archiving", "messages", wanted=not wants_json()) as progress:
            written = 0

            def report(done: ArchiveRound) -> None:
                nonlocal written
                written += done.rows
                progress(written, written + done.waiting)

            total = archiver.run(once=once, stop=stop, every=every, report=report)
    text = f"archived {counted(total, 'message')} to {archiver.root}"
    return print_result(text, {"archived": total, "table": archiver.root})
