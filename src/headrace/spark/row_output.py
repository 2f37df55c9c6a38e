"""Rows on the terminal: a table for people, JSON lines for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal

WIDEST = 60


def show_rows(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    title: str | None = None,
    more: bool = False,
    as_json: bool | None = None,
) -> None:
    """As a table on a terminal, else as JSON lines, unless ``as_json`` decides."""
    if as_json is None:
        as_json = not sys.stdout.isatty()
    if as_json:
        for row in rows:
            record = dict(zip(columns, map(plain, row), strict=True))
            sys.stdout.write(json.dumps(record, ensure_ascii=False, default=str) + "\n")
        sys.stdout.flush()
        return
    draw(columns, rows, title=title, note="and more" if more else None)


def draw(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    title: str | None = None,
    note: str | None = None,
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    found = [list(row) for row in rows]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    for number, name in enumerate(columns):
        numeric = any(_is_number(row[number]) for row in found)
        side = "right" if numeric else "left"
        table.add_column(name, justify=side, overflow="fold")  # type: ignore[arg-type]
    for row in found:
        table.add_row(*(Text(cell(value)) for value in row))
    console = Console(highlight=False)
    console.print(table)
    if note is not None:
        console.print(note, style="dim")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def cell(value: object) -> str:
    """A value on one line, harmless to the terminal."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3f}".rstrip("0").rstrip(".") if abs(value) < 1e15 else repr(value)
    made = plain(value)
    text = made if isinstance(made, str) else json.dumps(made, ensure_ascii=False, default=str)
    text = "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"


def plain(value: object) -> object:
    """A value of Spark as one of JSON."""
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "backslashreplace")
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if hasattr(value, "asDict"):
        return {name: plain(one) for name, one in value.asDict().items()}
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return value
