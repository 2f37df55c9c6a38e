"""`headrace bench client`, `rocketmq` and `topics`: two ways to do the same, and their ratio."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

import click

from headrace.bench.compare.ratio import RatioResult
from headrace.cli.support.output import DONE, FAILED, Column, print_markdown, show
from headrace.errors import CommandFailed

_MEMORY = "/dev/shm"

Command = TypeVar("Command", bound=Callable[..., object])
Case = TypeVar("Case")


def file_option(flag: str, metavar: str, text: str) -> Callable[[Command], Command]:
    """A file to write; `--json` is given as ``json_file``."""
    kind = click.Path(dir_okay=False, writable=True)
    return click.option(flag, f"{flag[2:]}_file", metavar=metavar, type=kind, help=text)


def directory_option(
    text: str, default: str | None = tempfile.gettempdir()
) -> Callable[[Command], Command]:
    """--dir, for the data of brokers."""
    kind = click.Path(exists=True, file_okay=False, writable=True)
    return click.option("--dir", "directory", metavar="DIR", default=default, type=kind, help=text)


def case_options(command: Command) -> Command:
    """--case, --seconds, --json, --markdown and --list."""
    for option in (
        click.option("--list", "list_only", is_flag=True, help="Show the cases and stop."),
        click.option("--markdown", "as_markdown", is_flag=True, help="Print a Markdown table."),
        file_option("--json", "FILE", "Write the figures."),
        click.option(
            "--seconds",
            default=3.0,
            type=click.FloatRange(0.2),
            show_default=True,
            help="Length of one measurement.",
        ),
        click.option(
            "--case", "chosen", multiple=True, metavar="NAME", help="One case; repeatable. [all]"
        ),
    ):
        command = option(command)
    return command


def choose(chosen: Sequence[str], cases: Mapping[str, object]) -> tuple[str, ...]:
    """The chosen cases, or all."""
    if unknown := [name for name in chosen if name not in cases]:
        raise click.UsageError(f"unknown case {unknown[0]!r}; available: {', '.join(cases)}")
    return tuple(chosen) or tuple(cases)


def list_cases(names: Iterable[str], cases: Mapping[str, object]) -> int:
    for name in names:
        measure = getattr(cases[name], "func", cases[name])  # of a partial
        click.echo(f"{name:16} {(measure.__doc__ or '').splitlines()[0]}")
    return DONE


def announced(names: Iterable[str], cases: Mapping[str, Case]) -> Iterable[Case]:
    """The cases one by one, each named on standard error before it is measured."""
    for name in names:
        click.echo(f"{name} ...", err=True)
        yield cases[name]


def judge(
    results: Sequence[RatioResult],
    json_file: str | None,
    first: Column,
    second: Column,
    about: Column,
    *,
    digits: int | None = None,
    with_unit: bool = True,
    as_markdown: bool,
) -> int:
    """Show and write the figures; FAILED when a ratio misses its target.

    Figures are rounded to ``digits``, milliseconds to 2.
    """
    unit = [Column("unit", "unit")] if with_unit else []
    ratio = Column("ratio", "ratio", is_number=True)
    columns = [Column("case", "case"), first, second, *unit, ratio, Column("wanted", "wanted")]
    columns.append(about)
    rows = []
    for one in results:
        precision = 2 if one.unit == "ms" else digits
        figures = {
            "case": one.case,
            first.field: round(one.first, precision),
            second.field: round(one.second, precision),
            "unit": one.unit,
            "ratio": round(one.ratio, 2),
            "wanted": one.wanted,
            "about": one.about,
        }
        rows.append({column.field: figures[column.field] for column in columns})
    if as_markdown:
        print_markdown(columns, rows)
    else:
        show(columns, rows, as_json=False, nothing="nothing was measured")
    if json_file:
        Path(json_file).write_text(json.dumps(rows, indent=1) + "\n")
    return DONE if all(one.is_good for one in results) else FAILED


@click.command("client")
@case_options
@directory_option("Data directory of the broker. [the system's temporary directory]")
def bench_client(
    chosen: tuple[str, ...],
    seconds: float,
    directory: str,
    json_file: str | None,
    list_only: bool,
    as_markdown: bool,
) -> int:
    """Measure the native client beside pika on one broker.

    Messages have 100 bytes, are persistent and confirmed. Exit code 1 when a ratio misses its
    target.
    """
    if find_spec("pika") is None:
        raise CommandFailed("pika is not installed; the comparison needs it: pip install pika")
    from headrace.bench.brokers import HeadraceBroker
    from headrace.bench.compare.client import CASES
    from headrace.bench.compare.ratio import MeasureSetup

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
    return judge(results, json_file, first, second, about, with_unit=False, as_markdown=as_markdown)


@click.command("rocketmq")
@case_options
@click.option(
    "--peer",
    metavar="PYTHON",
    help="Interpreter with the PyPI package rocketmq==0.4.4; without it those cases are skipped.",
)
@directory_option(
    "Data directory of the broker. [in memory where possible, so that neither side waits for a "
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
    as_markdown: bool,
) -> int:
    """Measure what RocketMQ clients cost and reach, and print ratios.

    Exit code 1 when a ratio misses its target.
    """
    from headrace.bench.brokers import HeadraceBroker
    from headrace.bench.compare.ratio import MeasureSetup
    from headrace.bench.compare.rocketmq import CASES, NEEDS_PEER

    names = choose(chosen, CASES)
    if list_only:
        return list_cases(names, CASES)
    if peer is None and (left_out := [name for name in names if name in NEEDS_PEER]):
        click.echo(f"without --peer: {', '.join(left_out)} skipped", err=True)
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
    about = Column("about", "first / second")
    return judge(results, json_file, first, second, about, digits=1, as_markdown=as_markdown)


@click.command("topics")
@case_options
def bench_topics(
    chosen: tuple[str, ...],
    seconds: float,
    json_file: str | None,
    list_only: bool,
    as_markdown: bool,
) -> int:
    """Measure topics in a private MariaDB and print ratios.

    Needs mariadbd on this machine. Exit code 1 when a ratio misses its target.
    """
    from headrace.bench.compare.topics import CASES, DATABASE
    from headrace.testing.mariadb import run_mariadb

    names = choose(chosen, CASES)
    if list_only:
        return list_cases(names, CASES)
    results = []
    with run_mariadb() as server:
        server.create_database(DATABASE)
        for measure in announced(names, CASES):
            found = measure(server, seconds)
            results += found if isinstance(found, list) else [found]
    first = Column("ours", "first", is_number=True)
    second = Column("other", "second", is_number=True)
    about = Column("about", "first / second")
    return judge(results, json_file, first, second, about, as_markdown=as_markdown)
