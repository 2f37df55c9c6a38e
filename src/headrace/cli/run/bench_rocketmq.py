"""`headrace bench rocketmq`: RocketMQ clients beside the native protocol and the client of PyPI."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import click

from headrace.cli.run.ratios import (
    announced,
    case_options,
    choose,
    directory_option,
    judge,
    list_cases,
)
from headrace.cli.support.output import Column

_MEMORY = "/dev/shm"


@click.command("rocketmq")
@case_options
@click.option(
    "--peer",
    metavar="PYTHON",
    help="Interpreter with the PyPI package rocketmq==0.4.4; without it those cases are left out.",
)
@directory_option(
    "Where the broker keeps its data. [in memory, if there is a place: both sides then wait for no "
    "disk]",
    default=None,
)
def bench_rocketmq(
    chosen: tuple[str, ...],
    seconds: float,
    peer: str | None,
    directory: str | None,
    json_file: str | None,
    list_only: bool,
) -> int:
    """Measure what RocketMQ clients cost and reach, and print ratios.

    Exit code 1 when a ratio is not what is wanted.
    """
    from headrace.bench.brokers import HeadraceBroker
    from headrace.bench.compare.rocketmq import CASES, NEEDS_PEER, MeasureSetup

    names = choose(chosen, CASES)
    if list_only:
        return list_cases(names, CASES)
    if peer is None and (left_out := [name for name in names if name in NEEDS_PEER]):
        click.echo(f"without --peer: {', '.join(left_out)} left out", err=True)
        names = tuple(name for name in names if name not in NEEDS_PEER)
    place = directory or (_MEMORY if os.access(_MEMORY, os.W_OK) else tempfile.gettempdir())
    broker = HeadraceBroker(Path(place), sys.executable, pin=False)
    results = []
    broker.start()
    try:
        for measure in announced(names, CASES):
            results.append(measure(MeasureSetup(broker, seconds, peer)))
    finally:
        broker.stop()
    first = Column("first", "first", is_number=True)
    second = Column("second", "second", is_number=True)
    return judge(results, json_file, first, second, Column("about", "first / second"), digits=1)
