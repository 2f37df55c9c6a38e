"""What an archive looks like: one table `messages`, and its columns. Pure."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from headrace.bulk.decode.schema import COLUMNS

TABLE = "messages"
PARTITION_BY = ("vhost", "source", "date")
# (source_uuid, partition, offset) is unique: a queue that is made again has another uuid.
SCHEMA = pa.schema(
    [
        ("vhost", pa.string()),
        ("kind", pa.string()),
        ("source_uuid", pa.string()),
        *COLUMNS.items(),
        ("date", pa.date32()),
    ]
)


def table_path(lake: Path | str) -> str:
    return str(Path(lake).resolve() / TABLE)


def as_rows(batch: pa.RecordBatch, vhost: str, kind: str, uuid: str) -> pa.RecordBatch:
    """Messages as rows of the table."""
    columns = {name: batch.column(name) for name in batch.schema.names}
    for name, text in (("vhost", vhost), ("kind", kind), ("source_uuid", uuid)):
        columns[name] = pa.repeat(pa.scalar(text), batch.num_rows)
    columns["date"] = pc.cast(columns["timestamp"].cast(COLUMNS["timestamp"]), pa.date32())
    return pa.RecordBatch.from_arrays(
        [columns[field.name].cast(field.type) for field in SCHEMA], schema=SCHEMA
    )
