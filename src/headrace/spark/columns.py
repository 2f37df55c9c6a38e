"""The columns of the source and of the sink, and their types in Spark."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headrace.spark.errors import BadOption

COLUMNS: dict[str, str] = {
    "source": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "born": "timestamp",
    "priority": "string",
    "exchange": "string",
    "routing_key": "string",
    "key": "string",
    "tags": "string",
    "message_id": "string",
    "properties": "map<string,string>",
    "body": "binary",
}
ARROW = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
    "binary": pa.binary(),
}
WRITABLE = ("body", "routing_key", "key", "tags", "priority", "message_id", "properties")


def chosen(text: str) -> tuple[str, ...]:
    """The columns named in the option ``columns``; all of them when it is empty."""
    names = tuple(part.strip() for part in text.split(",") if part.strip()) or tuple(COLUMNS)
    for name in names:
        if name not in COLUMNS:
            raise BadOption(f"columns: there is no '{name}'; there are {', '.join(COLUMNS)}")
    if len(set(names)) != len(names):
        raise BadOption("columns: a column is named twice")
    return names


def ddl(names: Sequence[str]) -> str:
    """The schema as Spark reads it."""
    return ", ".join(f"`{name}` {COLUMNS[name]}" for name in names)
