"""What `headrace bench client`, `rocketmq` and `topics` have in common: cases, options, a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click

from headrace.cli.main import DONE, FAILED
from headrace.cli.tables import Column, show

Command = TypeVar("Command", bound=Callable[..., object])
Case = TypeVar("Case")


class Judged(Protocol):
    @property
    def is_good(self) -> bool: ...


def case_options(command: Command) -> Command:
    """--case, --seconds, --json and --list."""
    for option in (
        click.option("--list", "list_only", is_flag=True, help="Show the cases and stop."),
        click.option(
            "--json",
            "json_file",
            metavar="FILE",
            type=click.Path(dir_okay=False, writable=True),
            help="Write the figures.",
        ),
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
    columns: Sequence[Column],
    rows: Sequence[Mapping[str, Any]],
    results: Iterable[Judged],
    json_file: str | None,
) -> int:
    """Show and write the figures; FAILED when a ratio is not what is wanted."""
    show(columns, rows, as_json=False, nothing="nothing was measured")
    if json_file:
        Path(json_file).write_text(json.dumps(rows, indent=1) + "\n")
    return DONE if all(one.is_good for one in results) else FAILED
