"""Rows to be written as messages: which columns there may be, and what becomes of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.types import BinaryType, MapType, StringType, StructType

from headrace.spark.errors import BadOption
from headrace.spark.options import WRITABLE, WriteOptions

PRIORITIES = ("low", "middle", "high")
# AMQP counts: none and 4 to 5 are middle.
_AMQP_PRIORITIES = {"low": 1, "high": 8}
_NAMED = frozenset(
    {"content_type", "content_encoding", "correlation_id", "reply_to", "expiration", "type",
     "app_id"}
)  # fmt: skip
_NO_BODY = (
    "column 'body' is missing, which becomes the body of the message: "
    "selectExpr('to_json(struct(*)) AS body') makes one"
)


def check_schema(schema: StructType, options: WriteOptions) -> None:
    """BadOption when the rows cannot become messages."""
    fields = {field.name: field.dataType for field in schema.fields}
    hint = "" if "body" in fields else f" {_NO_BODY}"
    for name, kind in fields.items():
        if name not in WRITABLE:
            there = ", ".join(WRITABLE)
            raise BadOption(f"column '{name}' cannot be written; expected some of {there}.{hint}")
        if name == "properties":
            texts = isinstance(kind, MapType) and isinstance(kind.keyType, StringType)
            if not texts or not isinstance(kind.valueType, StringType):  # type: ignore[attr-defined]
                raise BadOption("column 'properties' must be map<string,string>")
        elif name == "body":
            if not isinstance(kind, BinaryType | StringType):
                raise BadOption("column 'body' must be binary or string; to_json() makes one")
        elif not isinstance(kind, StringType):
            raise BadOption(f"column '{name}' must be a string")
    if hint:
        raise BadOption(_NO_BODY)
    if options.topic is not None and "routing_key" in fields:
        raise BadOption("topics have no routing keys: name the column 'key' or 'tags'")


def rows_of(batch: pa.RecordBatch) -> Iterator[dict[str, object]]:
    """The rows as dictionaries, with bodies as bytes and absent values left out."""
    names = batch.schema.names
    columns = [batch.column(number).to_pylist() for number in range(len(names))]
    for values in zip(*columns, strict=True):
        row = {name: value for name, value in zip(names, values, strict=True) if value is not None}
        body = row.get("body")
        if body is None:
            raise BadOption(
                "column 'body' is null in a row, so nothing of the batch was written: filter such "
                "rows, or use coalesce(body, '') for empty messages"
            )
        row["body"] = body.encode() if isinstance(body, str) else body
        priority = row.get("priority", "middle")
        if priority not in PRIORITIES:
            raise BadOption(f"column 'priority' has {priority!r}; expected low, middle or high")
        if "properties" in row:
            row["properties"] = dict(row["properties"])
        yield row


def as_publish(exchange: str, row: Mapping[str, object]) -> dict[str, object]:
    """A row as a message for an exchange."""
    properties: dict[str, object] = {"delivery_mode": 2}
    headers: dict[str, object] = {}
    given = row.get("properties", {})
    assert isinstance(given, Mapping)
    for name, value in given.items():
        (properties if name in _NAMED else headers)[name] = value
    for name in ("key", "tags"):
        if name in row:
            headers[f"x-{name}"] = row[name]
    if headers:
        properties["headers"] = headers
    if "message_id" in row:
        properties["message_id"] = row["message_id"]
    if (priority := _AMQP_PRIORITIES.get(str(row.get("priority")))) is not None:
        properties["priority"] = priority
    return {
        "exchange": exchange,
        "key": row.get("routing_key", ""),
        "properties": properties,
        "body": row["body"],
    }


def as_append(row: Mapping[str, object]) -> dict[str, object]:
    """A row as a message for a topic."""
    properties = row.get("properties", {})
    assert isinstance(properties, Mapping)
    message = {name: row[name] for name in ("key", "tags", "message_id", "body") if name in row}
    return {**message, "priority": row.get("priority", "middle"), "properties": properties}
