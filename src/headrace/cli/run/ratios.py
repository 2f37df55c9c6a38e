"""What `headrace bench client`, `rocketmq` and `topics` have in common: cases, options, a table."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import click

from headrace.bench.compare.ratio import RatioResult
from headrace.cli.main import DONE, FAILED
from headrace.cli.support.output import Column, show

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
    """--case, --seconds, --json and --list."""
    for option in (
        click.option("--list", "list_only", is_flag=True, help="Show the cases and stop."),
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
    """The names given, or all."""
    if unknown := [name for name in chosen if name not in cases]:
        raise click.UsageError(f"no case {unknown[0]!r}; there are {', '.join(cases)}")
    return tuple(chosen) or tuple(cases)


def list_cases(names: Iterable[str], cases: Mapping[str, object]) -> int:
    for name in names:
        click.echo(f"{name:16} {(cases[name].__doc__ or '').splitlines()[0]}")
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
) -> int:
    """Show and write the figures; FAILED when a ratio is not what is wanted.

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
    show(columns, rows, as_json=False, nothing="nothing was measured")
    if json_file:
        Path(json_file).write_text(json.dumps(rows, indent=1) + "\n")
    return DONE if all(one.is_good for one in results) else FAILED
