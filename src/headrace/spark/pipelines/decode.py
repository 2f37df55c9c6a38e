"""Bodies to columns. What does not decode is kept apart, with the reason.

The fields of a decoded record become columns; the message they came in is the struct `_message`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, StructField, StructType

from headrace.spark.errors import BadOption
from headrace.spark.pipelines.avro import avro_reader, avro_type
from headrace.spark.pipelines.explain import why_not
from headrace.spark.pipelines.model import Decode
from headrace.spark.reasons import reason_of

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
