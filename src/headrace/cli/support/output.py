"""Lists on stdout: a table on a terminal, tab-separated when piped, JSON on request."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.table import Table

DONE, FAILED, USAGE = 0, 1, 2  # exit codes
_JSON = "headrace.json"  # among what click keeps for a command line

Row = Mapping[str, object]


def _note(context: click.Context, option: click.Parameter, chosen: bool) -> None:
    context.meta[_JSON] = chosen


json_option = click.option(
    "--json", is_flag=True, expose_value=False, callback=_note, help="Print JSON."
)
"""`show` and `print_result` follow it."""


def wants_json() -> bool:
    """Whether the command line has the --json of `json_option`."""
    return bool(click.get_current_context().meta.get(_JSON))


@dataclass(frozen=True, slots=True)
class Column:
    """One column: which field of a row, and how it is headed."""

    field: str
    title: str
    is_number: bool = False
    empty: str = ""
    """Placeholder for an empty value on a terminal."""


def show(columns: Sequence[Column], rows: Iterable[Row], *, nothing: str) -> int:
    """Print rows, or ``nothing`` on a terminal for an empty list. Returns the exit code."""
    found = list(rows)
    if wants_json():
        print_json(found)
    elif not sys.stdout.isatty():
        for row in found:
            click.echo("\t".join(cell(row.get(column.field)) for column in columns))
    elif not found:
        click.echo(nothing)
    else:
        from rich.console import Console

        Console(highlight=False).print(table(columns, found))
    return DONE


def print_result(text: str, fields: Mapping[str, object]) -> int:
    """Print what was done: a sentence, or the fields as JSON. Returns the exit code."""
    if wants_json():
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


def table(columns: Sequence[Column], rows: Iterable[Row]) -> Table:
    """A table for a terminal."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        side = "right" if column.is_number else "left"
        made.add_column(column.title, justify=side, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        # As Text: what looks like markup in a name, such as [/red], is none.
        made.add_row(*(Text(_drawn(row.get(column.field)) or column.empty) for column in columns))
    return made


def print_markdown(columns: Sequence[Column], rows: Iterable[Row]) -> None:
    """A table for a page of documentation."""
    lines = [[column.title for column in columns], ["---"] * len(columns)]
    lines += [[_drawn(row.get(column.field)) for column in columns] for row in rows]
    for line in lines:
        click.echo(f"| {' | '.join(line)} |")


def _drawn(value: object) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:,}"
    return cell(value)


@contextmanager
def progress_bar(
    what: str, unit: str = "", *, wanted: bool = True
) -> Iterator[Callable[[int, int | None], None]]:
    """Yields a function that takes the work done and the total (None: unknown).

    Without a unit only the time is shown.
    """
    if not wanted or not sys.stderr.isatty():
        yield lambda done, total: None
        return

    from rich import progress
    from rich.console import Console

    columns: list[progress.ProgressColumn] = [progress.TextColumn(what), progress.BarColumn()]
    if unit:
        columns += [progress.MofNCompleteColumn(), progress.TextColumn(unit)]
    columns.append(progress.TimeElapsedColumn())
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(what, total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)


# Control characters, line and paragraph separators, marks that turn the direction of writing, what
# has no width, and halves of surrogate pairs, which no encoding takes.
_UNSAFE = "\x00-\x1f\x7f-\x9f\xad\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff"
_TO_ESCAPE = re.compile(rf"[\\{_UNSAFE}]")
_IN_JSON = re.compile(r"[\x7f-\x9f\xad\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
_SHORT = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}


def escaped(text: str) -> str:
    """The text on one line, harmless and unambiguous."""
    return _TO_ESCAPE.sub(_escape, text)


def escaped_body(body: bytes) -> str:
    """The same for bytes: UTF-8 as text, everything else as `\\xff`."""
    if b"\\" not in body:
        text = body.decode("utf-8", "backslashreplace")
        return _TO_ESCAPE.sub(_escape_but_backslash, text)
    doubled = body.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")
    return _TO_ESCAPE.sub(_escape_but_backslash, doubled)


def json_safe(document: str) -> str:
    """A JSON text without the characters that JSON itself leaves as they are."""
    if document.isascii() and "\x7f" not in document:
        return document  # as most are; looking is cheap
    return _IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", document)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character in _SHORT:
        return _SHORT[character]
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def _escape_but_backslash(match: re.Match[str]) -> str:
    return match[0] if match[0] == "\\" else _escape(match)
