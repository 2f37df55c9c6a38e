"""Avro bodies, read by fastavro: the pip package of Spark comes without Avro."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headrace.spark.errors import BadOption

FRAME = 5  # bytes that confluent clients put in front: 0 and the number of the schema

_PLAIN: Mapping[str, DataType] = {
    "string": StringType(),
    "bytes": BinaryType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
    "fixed": BinaryType(),
    "enum": StringType(),
}
_LOGICAL: Mapping[str, DataType] = {
    "date": DateType(),
    "timestamp-millis": TimestampType(),
    "timestamp-micros": TimestampType(),
    "uuid": StringType(),
}


def avro_type(schema: str) -> StructType:
    """The columns of an Avro record; BadOption for any other schema."""
    try:
        value = json.loads(schema)
    except ValueError as error:
        raise BadOption(f"schema: an Avro schema is JSON: {error}") from None
    _parsed(schema)
    found = _type_of(value)
    if not isinstance(found, StructType):
        raise BadOption("schema: the Avro schema must be a record")
    return found


def _type_of(schema: Any) -> DataType:  # noqa: ANN401 - JSON
    if isinstance(schema, list):
        kinds = [one for one in schema if one != "null"]
        if len(kinds) != 1:
            raise BadOption("schema: of unions, only null and one other type can be columns")
        return _type_of(kinds[0])
    if isinstance(schema, str):
        return _plain(schema)
    kind, logical = schema.get("type"), schema.get("logicalType")
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if logical == "decimal":
        return DecimalType(schema["precision"], schema.get("scale", 0))
    if kind == "record":
        return StructType([StructField(f["name"], _type_of(f["type"])) for f in schema["fields"]])
    if kind == "array":
        return ArrayType(_type_of(schema["items"]))
    if kind == "map":
        return MapType(StringType(), _type_of(schema["values"]))
    return _plain(kind) if isinstance(kind, str) else _type_of(kind)


def _plain(name: str) -> DataType:
    found = _PLAIN.get(name)
    if found is None:
        raise BadOption(f"schema: the Avro type '{name}' cannot be a column")
    return found


def _parsed(schema: str) -> Any:  # noqa: ANN401 - fastavro's own
    try:
        import fastavro
    except ImportError:
        raise BadOption(
            "decode: avro needs the package fastavro: pip install 'headrace[spark]'"
        ) from None
    try:
        return fastavro.parse_schema(json.loads(schema))
    except (ValueError, KeyError, fastavro.schema.SchemaParseException) as error:
        raise BadOption(f"schema: not an Avro schema: {error}") from None


def avro_reader(schema: str, framing: str) -> Callable[[bytes], tuple[Any, str | None]]:
    """A function from a body to (record, None) or (None, reason)."""
    parsed: list[Any] = []  # parsed once in each worker

    def read(body: bytes | None) -> tuple[Any, str | None]:
        import fastavro

        if not parsed:
            parsed.append(_parsed(schema))
        data = bytes(body or b"")
        if framing == "confluent":
            if len(data) < FRAME or data[0] != 0:
                return None, "not framed: it does not begin with a zero byte"
            data = data[FRAME:]
        stream = io.BytesIO(data)
        try:
            value = fastavro.schemaless_reader(stream, parsed[0], None)
        except Exception as error:
            return None, f"not Avro of this schema: {type(error).__name__}: {error}"
        if stream.read(1):
            return None, f"not Avro of this schema: {len(data) - stream.tell() + 1} bytes too many"
        return value, None

    return read
