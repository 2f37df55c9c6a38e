"""Bodies to columns; records that cannot be decoded get a reason."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    FractionalType,
    IntegerType,
    IntegralType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headrace.spark.errors import BadOption, reason_of
from headrace.spark.pipelines.model import Decode

MESSAGE = "_message"
_CORRUPT = "_corrupt_record"


@dataclass(frozen=True, slots=True)
class DecodedRows:
    """The rows that could be read, and the messages that could not, with their reason."""

    good: DataFrame
    bad: DataFrame | None


def decoded(raw: DataFrame, decode: Decode) -> DecodedRows:
    """Of the rows of the data source."""
    return _DECODERS[decode.format](raw, decode)


def schema_of(decode: Decode) -> StructType:
    """The columns of a json or avro body; BadOption when they cannot be read. Needs a session."""
    assert decode.schema is not None, "checked when the file was read"
    if decode.format == "avro":
        return avro_type(decode.schema)
    try:
        found = DataType.fromDDL(decode.schema)
    except Exception as error:
        raise BadOption(f"schema: {reason_of(error)}") from None
    if not isinstance(found, StructType):
        raise BadOption("schema: it names columns, e.g. 'id BIGINT, name STRING'")
    for field in found.fields:
        if field.name in (MESSAGE, _CORRUPT):
            raise BadOption(f"schema: a column cannot be named {field.name}")
    return found


def _raw(raw: DataFrame, decode: Decode) -> DecodedRows:
    return DecodedRows(raw, None)


def _text_of(raw: DataFrame) -> Column:
    """The body as text; null when it is not UTF-8."""
    return F.try_validate_utf8(raw["body"].cast("string"))


def _text(raw: DataFrame, decode: Decode) -> DecodedRows:
    rows = raw.select(_text_of(raw).alias("text"), _message(raw))
    bad = raw.where(_text_of(raw).isNull())
    return DecodedRows(
        rows.where(F.col("text").isNotNull()),
        bad.withColumn("reason", F.lit("the body is not UTF-8")),
    )


def _json(raw: DataFrame, decode: Decode) -> DecodedRows:
    schema = schema_of(decode)
    nullable = [StructField(one.name, one.dataType) for one in schema.fields]
    with_corrupt = StructType([*nullable, StructField(_CORRUPT, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    parsed = F.from_json(_text_of(raw), with_corrupt, options)
    rows = raw.withColumn("_record", parsed)
    record = F.col("_record")
    fits = record.isNotNull() & record[_CORRUPT].isNull()
    for field in schema.fields:
        if not field.nullable:
            fits = fits & record[field.name].isNotNull()
    reason = why_not(schema.json())
    # Spark looks into type hints, and warns of those it does not know: a lambda has none.
    explain = F.udf(lambda body: reason(body), StringType())
    bad = rows.where(~F.coalesce(fits, F.lit(False))).drop("_record")
    good = rows.where(fits)
    return DecodedRows(
        good.select(*(record[name].alias(name) for name in schema.names), _message(raw)),
        bad.withColumn("reason", explain(bad["body"])),
    )


def _avro(raw: DataFrame, decode: Decode) -> DecodedRows:
    schema = schema_of(decode)
    assert decode.schema is not None
    shape = StructType([StructField("value", schema), StructField("reason", StringType())])
    function = avro_reader(decode.schema, decode.framing)
    read = F.udf(lambda body: function(body), shape, useArrow=True)
    rows = raw.withColumn("_record", read(raw["body"]))
    record = F.col("_record")
    good = rows.where(record["reason"].isNull())
    bad = rows.where(record["reason"].isNotNull())
    value = record["value"]
    return DecodedRows(
        good.select(*(value[name].alias(name) for name in schema.names), _message(raw)),
        bad.withColumn("reason", record["reason"]).drop("_record"),
    )


def _message(raw: DataFrame) -> Column:
    return F.struct(*(raw[name] for name in raw.columns if name != "body")).alias(MESSAGE)


_DECODERS: dict[str, Callable[[DataFrame, Decode], DecodedRows]] = {
    "raw": _raw,
    "text": _text,
    "json": _json,
    "avro": _avro,
}


LONGEST = 80
_NO_FIT = "it does not fit the schema"


def why_not(schema: str) -> Callable[[bytes], str]:
    """A function from a body to the reason; ``schema`` is a StructType as JSON."""

    def reason(body: bytes | None) -> str:
        try:
            text = bytes(body or b"").decode("utf-8")
        except UnicodeDecodeError as error:
            return f"the body is not UTF-8: byte {error.start}"
        if not text.strip():
            return "the body is empty"
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            return f"not JSON: {error}"
        if not isinstance(value, dict):
            return f"not an object but {_shown(value)}"
        wanted = StructType.fromJson(json.loads(schema))
        return _missing(value, wanted) or _misfit("", value, wanted) or _NO_FIT

    return reason


def _missing(value: Mapping[str, object], wanted: StructType) -> str:
    for field in wanted.fields:
        if not field.nullable and value.get(field.name) is None:
            return f"field '{field.name}' is missing"
    return ""


def _misfit(where: str, value: object, wanted: DataType) -> str:
    """The first value that is of another type than the schema says."""
    if value is None:
        return ""
    if isinstance(wanted, StructType) and isinstance(value, dict):
        inner = (
            _misfit(f"{where}.{field.name}".lstrip("."), value.get(field.name), field.dataType)
            for field in wanted.fields
        )
        return next((one for one in inner if one), "")
    if isinstance(wanted, ArrayType) and isinstance(value, list):
        parts = (_misfit(f"{where}[{i}]", one, wanted.elementType) for i, one in enumerate(value))
        return next((one for one in parts if one), "")
    if isinstance(wanted, MapType) and isinstance(value, dict):
        items = (_misfit(f"{where}.{key}", one, wanted.valueType) for key, one in value.items())
        return next((one for one in items if one), "")
    if _fits(value, wanted):
        return ""
    return f"field '{where}': {_shown(value)} is no {wanted.simpleString()}"


def _fits(value: object, wanted: DataType) -> bool:
    if isinstance(wanted, StringType):
        return True
    if isinstance(wanted, BooleanType):
        return isinstance(value, bool)
    if isinstance(wanted, IntegralType):
        return isinstance(value, int) and not isinstance(value, bool)
    if isinstance(wanted, FractionalType):
        return isinstance(value, int | float) and not isinstance(value, bool)
    # Of times and the like only Spark knows whether it could read them: assume it could not.
    return False


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else text[:LONGEST] + "..."


# -- Avro, read by fastavro: the pip package of Spark comes without it -----------------------------

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
