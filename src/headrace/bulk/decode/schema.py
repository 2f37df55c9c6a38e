"""The columns that readers may ask for, the same for queues and topics."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

_MOMENT = pa.timestamp("us", tz="UTC")
PROPERTIES = pa.map_(pa.string(), pa.string())

COLUMNS: dict[str, pa.DataType] = {
    "source": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": _MOMENT,
    "born": _MOMENT,
    "priority": pa.string(),
    "exchange": pa.string(),
    "routing_key": pa.string(),
    "key": pa.string(),
    "tags": pa.string(),
    "message_id": pa.string(),
    "properties": PROPERTIES,
    "body": pa.binary(),
}


def schema_of(columns: Sequence[str]) -> pa.Schema:
    return pa.schema([(name, COLUMNS[name]) for name in columns])
