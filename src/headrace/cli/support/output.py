"""Lists on stdout: a table on a terminal, tab-separated when piped, JSON on request."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import click

from headrace.cli.main import DONE
from headrace.cli.support.escaping import escaped, json_safe

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Column:
    """One column: which field of a row, and how it is headed."""

    field: str
    title: str
    is_number: bool = False
    empty: str = ""
    """What stands for an empty value on a terminal."""


def show(columns: Sequence[Column], rows: Iterable[Row], *, as_json: bool, nothing: str) -> int:
    """Print rows, or ``nothing`` on a terminal when there are none. Returns the exit code."""
    found = list(rows)
    if as_json:
        print_json(found)
    elif not sys.stdout.isatty():
        for row in found:
            click.echo("\t".join(cell(row.get(column.field)) for column in columns))
    elif not found:
        click.echo(nothing)
    else:
        _draw(columns, found)
    return DONE


def tell(text: str, fields: Mapping[str, object], *, as_json: bool) -> int:
    """Print what was done: a sentence, or the fields as JSON. Returns the exit code."""
    if as_json:
        print_json(fields)
    else:
        click.echo(text)
    return DONE


def print_json(value: object) -> None:
    click.echo(json_safe(json.dumps(value, ensure_ascii=False, default=str)))


def counted(number: int, noun: str) -> str:
    """`1 message`, `2,000 messages`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def cell(value: object) -> str:
    """A value in a list; an empty one stays empty."""
    if value is None or value == {}:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return " ".join(f"{escaped(str(key))}={cell(one)}" for key, one in value.items())
    if isinstance(value, (list, tuple)):
        return " ".join(cell(one) for one in value)
    return escaped(str(value))


def _draw(columns: Sequence[Column], rows: Sequence[Row]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        side = "right" if column.is_number else "left"
        table.add_column(column.title, justify=side, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        # As Text: what looks like markup in a name is none.
        table.add_row(*(Text(_drawn(row.get(column.field)) or column.empty) for column in columns))
    Console(highlight=False).print(table)


def _drawn(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return cell(value)
