"""Arrow types of the columns of a bulk read."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headrace.bulk import columns as spark_columns

PROPERTIES = pa.map_(pa.string(), pa.string())
_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "map<string,string>": PROPERTIES,
    "binary": pa.binary(),
}
COLUMNS: dict[str, pa.DataType] = {
    name: _TYPES[kind] for name, kind in spark_columns.COLUMNS.items()
}


def schema_of(columns: Sequence[str]) -> pa.Schema:
    return pa.schema([(name, COLUMNS[name]) for name in columns])
