"""`headrace bench client`: our client beside pika, on the same broker."""

from __future__ import annotations

import sys
from importlib.util import find_spec
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
from headrace.errors import CommandFailed


@click.command("client")
@case_options
@directory_option("Where the broker keeps its data. [the system's temporary directory]")
def bench_client(
    chosen: tuple[str, ...],
    seconds: float,
    directory: str,
    json_file: str | None,
    list_only: bool,
) -> int:
    """Measure our client beside pika on one broker: 100 bytes, persistent, confirmed.

    Exit code 1 when a ratio is not what is wanted.
    """
    if find_spec("pika") is None:
        raise CommandFailed(
            "pika is what it is compared with, and is not installed: pip install pika"
        )
    from headrace.bench.brokers import HeadraceBroker
    from headrace.bench.compare.client import CASES, MeasureSetup

    names = choose(chosen, CASES)
    if list_only:
        return list_cases(names, CASES)
    broker = HeadraceBroker(Path(directory), sys.executable, pin=False)
    results = []
    broker.start()
    try:
        for measure in announced(names, CASES):
            results.append(measure(MeasureSetup(broker, seconds)))
    finally:
        broker.stop()
    first = Column("ours", "ours/s", is_number=True)
    second = Column("pika", "pika/s", is_number=True)
    about = Column("about", "ours / pika")
    return judge(results, json_file, first, second, about, with_unit=False)
