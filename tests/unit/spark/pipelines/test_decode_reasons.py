"""Bad records say why they are bad; errors of Spark become one line."""

from __future__ import annotations

import pytest
from pyspark.sql.types import ArrayType, DoubleType, LongType, StringType, StructType

from headrace.spark.errors import reason_in
from headrace.spark.pipelines.decode import avro_reader, avro_type, why_not
from headrace.spark.pipelines.progress import QueryFigures

SCHEMA = (
    StructType()
    .add("id", LongType(), nullable=False)
    .add("price", DoubleType())
    .add("lines", ArrayType(StructType().add("count", LongType())))
    .add("name", StringType())
)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "the body is empty"),
        (b"a\xff", "the body is not UTF-8: byte 1"),
        (b"[1]", "not an object but [1]"),
        (b"{", "not JSON: Expecting property name"),
        (b'{"price": 2}', "field 'id' is missing"),
        (b'{"id": "x"}', "field 'id': \"x\" is no bigint"),
        (b'{"id": 1, "price": true}', "field 'price': true is no double"),
        (b'{"id": 1, "lines": [{"count": 1}, {"count": 1.5}]}', "field 'lines[1].count': 1.5"),
        (b'{"id": 1, "lines": 5}', "field 'lines': 5 is no array"),
        (b'{"id": 1}', "it does not fit the schema"),
    ],
)
def test_a_bad_body_has_a_reason(body: bytes, reason: str) -> None:
    assert why_not(SCHEMA.json())(body).startswith(reason)


AVRO = '{"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": ["null", {"type": "array", "items": "string"}]}]}'  # noqa: E501


def test_avro_is_read_with_its_schema() -> None:
    assert avro_type(AVRO).simpleString() == "struct<a:bigint,b:array<string>>"
    read = avro_reader(AVRO, "plain")
    assert read(bytes([6, 0])) == ({"a": 3, "b": None}, None)
    framed = avro_reader(AVRO, "confluent")
    assert framed(bytes([0, 0, 0, 0, 1, 6, 0])) == ({"a": 3, "b": None}, None)
    assert framed(bytes([6, 0])) == (None, "not framed: it does not begin with a zero byte")
    value, reason = read(bytes([6, 0, 9]))
    assert value is None
    assert reason == "not Avro of this schema: 1 bytes too many"
    assert read(b"\x06")[1] is not None


def test_the_reason_is_found_among_stack_traces() -> None:
    ours = "py4j.Error\nTraceback (most recent call last):\n  File x\nheadrace.spark.errors.DataLost: gone\n\tat java"  # noqa: E501
    assert reason_in(ours) == "gone"
    python = (
        "Proxy: Traceback (most recent call last):\n  File x\nZeroDivisionError: division by zero\n"
    )
    assert reason_in(python) == "ZeroDivisionError: division by zero"
    assert reason_in("[TABLE_NOT_FOUND] The table t is gone. SQLSTATE: 42P01; line 1 pos 14") == (
        "The table t is gone."
    )
    assert reason_in("") == ""


def test_figures_count_each_batch_once() -> None:
    figures = QueryFigures("out")
    offsets = {
        side: {"version": 1, "query": "q", "sources": {"s": {"uuid": "u", "next": {"0": at}}}}
        for side, at in (("endOffset", 10), ("latestOffset", 25))
    }
    report = {"batchId": 0, "numInputRows": 10, "sources": [offsets]}
    assert figures.take(report)
    assert not figures.take(report)
    assert (figures.rows, figures.batch, figures.lag) == (10, 0, 15)
