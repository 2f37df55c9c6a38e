"""Columns of the source that a query reads, and those that a sink can write."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.bulk.columns import COLUMNS
from headrace.spark.errors import BadOption

WRITABLE = ("body", "routing_key", "key", "tags", "priority", "message_id", "properties")


def chosen(text: str) -> tuple[str, ...]:
    """The columns named in the option ``columns``; all of them when it is empty."""
    names = tuple(part.strip() for part in text.split(",") if part.strip()) or tuple(COLUMNS)
    for name in names:
        if name not in COLUMNS:
            raise BadOption(
                f"columns: unknown column '{name}'; expected one of {', '.join(COLUMNS)}"
            )
    if len(set(names)) != len(names):
        raise BadOption("columns: a column is named twice")
    return names


def ddl(names: Sequence[str]) -> str:
    """The schema as Spark reads it."""
    return ", ".join(f"`{name}` {COLUMNS[name]}" for name in names)
