"""Bodies to columns; records that cannot be decoded get a reason."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    FractionalType,
    IntegralType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from headrace.spark.errors import BadOption, reason_of
from headrace.spark.pipelines.avro import avro_reader, avro_type
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
        bad.select(*_kept(bad), F.lit("the body is not UTF-8").alias("reason")),
    )


def _json(raw: DataFrame, decode: Decode) -> DecodedRows:
    schema = schema_of(decode)
    with_corrupt = StructType([*_nullable(schema).fields, StructField(_CORRUPT, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    parsed = F.from_json(_text_of(raw), with_corrupt, options)
    rows = raw.withColumn("_record", parsed)
    record = F.col("_record")
    fits = record.isNotNull() & record[_CORRUPT].isNull()
    for field in schema.fields:
        if not field.nullable:
            fits = fits & record[field.name].isNotNull()
    explain = _explaining(why_not(schema.json()))
    bad = rows.where(~F.coalesce(fits, F.lit(False))).drop("_record")
    good = rows.where(fits)
    return DecodedRows(
        good.select(*(record[name].alias(name) for name in schema.names), _message(raw)),
        bad.select(*_kept(bad), explain(bad["body"]).alias("reason")),
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
        bad.select(*_kept(raw), record["reason"].alias("reason")),
    )


def _message(raw: DataFrame) -> Column:
    return F.struct(*(raw[name] for name in raw.columns if name != "body")).alias(MESSAGE)


def _kept(raw: DataFrame) -> list[Column]:
    return [raw[name] for name in raw.columns]


def _nullable(schema: StructType) -> StructType:
    return StructType([StructField(one.name, one.dataType) for one in schema.fields])


def _explaining(function: Callable[[bytes], str]) -> Callable[[Column], Column]:
    # Spark looks into type hints, and warns of those it does not know: a lambda has none.
    return F.udf(lambda body: function(body), StringType())


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
