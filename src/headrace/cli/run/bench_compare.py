"""`headrace bench client`, `rocketmq` and `topics`: two ways to do the same, and their ratio."""

from __future__ import annotations

import functools
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

import click

from headrace.bench.brokers import HeadraceBroker
from headrace.bench.compare.ratio import MeasureSetup, RatioResult
from headrace.cli.support.options import Command, number_option, repeatable
from headrace.cli.support.output import DONE, FAILED, Column, print_markdown, show
from headrace.errors import CommandFailed

_MEMORY = "/dev/shm"

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


@dataclass(frozen=True, slots=True)
class RatioRun:
    """What `case_options` were given."""

    chosen: tuple[str, ...]
    seconds: float
    json_file: str | None
    list_only: bool
    as_markdown: bool

    def names(self, cases: Mapping[str, object]) -> tuple[str, ...]:
        """The chosen cases, or all; none when they were only to be listed."""
        if unknown := [name for name in self.chosen if name not in cases]:
            raise click.UsageError(f"unknown case {unknown[0]!r}; available: {', '.join(cases)}")
        names = self.chosen or tuple(cases)
        if not self.list_only:
            return names
        for name in names:
            measure = getattr(cases[name], "func", cases[name])  # of a partial
            click.echo(f"{name:16} {(measure.__doc__ or '').splitlines()[0]}")
        return ()

    def judge(
        self,
        results: Sequence[RatioResult],
        sides: Mapping[str, str],
        about: str,
        *,
        digits: int | None = None,
        with_unit: bool = True,
    ) -> int:
        """Show and write the figures; FAILED when a ratio misses its target.

        ``sides`` has the fields and the titles of the two figures. They are rounded to ``digits``,
        milliseconds to 2.
        """
        first, second = sides
        columns = [Column("case", "case")]
        columns += [Column(field, title, is_number=True) for field, title in sides.items()]
        columns += [Column("unit", "unit")] if with_unit else []
        columns += [Column("ratio", "ratio", is_number=True), Column("wanted", "wanted")]
        columns.append(Column("about", about))
        rows = []
        for one in results:
            precision = 2 if one.unit == "ms" else digits
            figures = {
                "case": one.case,
                first: round(one.first, precision),
                second: round(one.second, precision),
                "unit": one.unit,
                "ratio": round(one.ratio, 2),
                "wanted": one.wanted,
                "about": one.about,
            }
            rows.append({column.field: figures[column.field] for column in columns})
        if self.as_markdown:
            print_markdown(columns, rows)
        else:
            show(columns, rows, nothing="nothing was measured")
        if self.json_file:
            Path(self.json_file).write_text(json.dumps(rows, indent=1) + "\n")
        return DONE if all(one.is_good for one in results) else FAILED


def case_options(function: Callable[..., int]) -> Callable[..., int]:
    """--case, --seconds, --json, --markdown and --list, as a `RatioRun`."""

    @repeatable("--case", "chosen", "NAME", "One case; repeatable. [all]")
    @number_option("--seconds", 3.0, 0.2, "Length of one measurement.")
    @file_option("--json", "FILE", "Write the figures.")
    @click.option("--markdown", "as_markdown", is_flag=True, help="Print a Markdown table.")
    @click.option("--list", "list_only", is_flag=True, help="Show the cases and stop.")
    @functools.wraps(function)
    def command(
        chosen: tuple[str, ...],
        seconds: float,
        json_file: str | None,
        list_only: bool,
        as_markdown: bool,
        **rest: object,
    ) -> int:
        return function(RatioRun(chosen, seconds, json_file, list_only, as_markdown), **rest)

    return command


def _announced(names: Iterable[str], cases: Mapping[str, Case]) -> Iterator[Case]:
    """The cases one by one, each named on standard error before it is measured."""
    for name in names:
        click.echo(f"{name} ...", err=True)
        yield cases[name]


def _on_one_broker(
    names: Iterable[str],
    cases: Mapping[str, Callable[[MeasureSetup], RatioResult]],
    directory: str,
    seconds: float,
    peer: str | None = None,
) -> list[RatioResult]:
    with HeadraceBroker(Path(directory), sys.executable, pin=False) as broker:
        setup = MeasureSetup(broker, seconds, peer)
        return [measure(setup) for measure in _announced(names, cases)]


@click.command("client")
@case_options
@directory_option("Data directory of the broker. [the system's temporary directory]")
def bench_client(given: RatioRun, directory: str) -> int:
    """Measure the native client beside pika on one broker.

    Messages have 100 bytes, are persistent and confirmed. Exit code 1 when a ratio misses its
    target.
    """
    if find_spec("pika") is None:
        raise CommandFailed("pika is not installed; the comparison needs it: pip install pika")
    from headrace.bench.compare.client import CASES

    if not (names := given.names(CASES)):
        return DONE
    results = _on_one_broker(names, CASES, directory, given.seconds)
    sides = {"ours": "ours/s", "pika": "pika/s"}
    return given.judge(results, sides, "ours / pika", with_unit=False)


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
def bench_rocketmq(given: RatioRun, peer: str | None, directory: str | None) -> int:
    """Measure what RocketMQ clients cost and reach, and print ratios.

    Exit code 1 when a ratio misses its target.
    """
    from headrace.bench.compare.rocketmq import CASES, NEEDS_PEER

    if not (names := given.names(CASES)):
        return DONE
    if peer is None and (left_out := [name for name in names if name in NEEDS_PEER]):
        click.echo(f"without --peer: {', '.join(left_out)} skipped", err=True)
        names = tuple(name for name in names if name not in NEEDS_PEER)
    place = directory or (_MEMORY if os.access(_MEMORY, os.W_OK) else tempfile.gettempdir())
    results = _on_one_broker(names, CASES, place, given.seconds, peer)
    sides = {"first": "first", "second": "second"}
    return given.judge(results, sides, "first / second", digits=1)


@click.command("topics")
@case_options
def bench_topics(given: RatioRun) -> int:
    """Measure topics in a private MariaDB and print ratios.

    Needs mariadbd on this machine. Exit code 1 when a ratio misses its target.
    """
    from headrace.bench.compare.topics import CASES, DATABASE
    from headrace.testing.mariadb import run_mariadb

    if not (names := given.names(CASES)):
        return DONE
    results = []
    with run_mariadb() as server:
        server.create_database(DATABASE)
        for measure in _announced(names, CASES):
            results += measure(server, given.seconds)
    return given.judge(results, {"ours": "first", "other": "second"}, "first / second")
