"""Staging of a replay: slices of blocks, staged by tasks."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from headrace.spark.backends.broker import connect, translated_errors
from headrace.spark.replay.request import BLOCK, ReplayRequest, replayed
from headrace.spark.row_mapping import rows_of
from headrace.spark.sink import portions

# Neighbouring offsets, sent in one step. Equal for the same messages whenever they are replayed.
PLACE = ("source_uuid", "partition", "number")
NEEDED = (*PLACE, "offset", "source", "routing_key", "key", "tags", "message_id", "priority",
          "properties", "body")  # fmt: skip
STAGED_DDL = "source_uuid string, partition int, number bigint, attempt string, rows bigint"
NUMBER_SQL = f"offset div {BLOCK}"


@dataclass(frozen=True, slots=True)
class StagedBlock:
    """A block that waits for its publication."""

    source_uuid: str
    partition: int
    number: int
    attempt: str
    rows: int

    def query(self, key: str) -> str:
        return query_of(key, self.source_uuid, self.partition)


def query_of(key: str, source_uuid: object, partition: object) -> str:
    return f"replay-{key}-{source_uuid}-{partition}"


@dataclass(frozen=True, slots=True)
class StagingTask:
    """Takes rows in the order of their places. It travels to executors."""

    url: str
    request: ReplayRequest
    key: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # The broker still has what a killed task has staged: under its name it would be sent too.
        attempt = uuid.uuid4().hex
        rows = (row for batch in batches for row in rows_of(batch))
        with connect(self.url) as connection, translated_errors():
            for place, block in groupby(rows, lambda row: tuple(row[name] for name in PLACE)):
                source_uuid, partition, number = place
                query, count = query_of(self.key, source_uuid, partition), 0
                for messages in portions(replayed(row, self.request) for row in block):
                    connection.stage(query, number, attempt, messages)
                    count += len(messages)
                yield _described(place, attempt, count)


def _described(place: tuple[object, ...], attempt: str, count: int) -> pa.RecordBatch:
    row: Mapping[str, object] = dict(zip(PLACE, place, strict=True))
    schema = pa.schema([("source_uuid", pa.string()), ("partition", pa.int32()),
                        ("number", pa.int64()), ("attempt", pa.string()),
                        ("rows", pa.int64())])  # fmt: skip
    return pa.RecordBatch.from_pylist([{**row, "attempt": attempt, "rows": count}], schema)


BLOCKS = 64  # the broker has a file open for each
BYTES = 64 << 20  # on the broker's disk
SECONDS = 600.0  # of sending: the broker forgets after an hour what was not published
_ORDER = ("kind", "source", *PLACE)


def sliced(rows: DataFrame, rate: float) -> DataFrame:
    """The slice of each block. One holds as much as the limits allow, and its last block."""
    blocks = rows.groupBy(*_ORDER).agg(
        F.count("*").alias("rows"), F.sum(F.octet_length("body")).alias("bytes")
    )
    share = F.greatest(
        F.lit(1 / BLOCKS), F.col("bytes") / BYTES, F.col("rows") / F.lit(rate * SECONDS)
    )
    earlier = Window.orderBy(*_ORDER).rowsBetween(Window.unboundedPreceding, -1)
    before = F.coalesce(F.sum(share).over(earlier), F.lit(0.0))
    return blocks.select(*PLACE, F.floor(before).cast("int").alias("slice"))


def placed(rows: DataFrame, slices: DataFrame, count: int) -> DataFrame:
    """The rows, each slice a partition, in the order of their offsets.

    A block that appeared after the slices were made would be sent behind later ones, and the
    broker takes no block that comes behind a later one: it is an error.
    """
    unknown = F.raise_error(F.lit("messages came into the period meanwhile: repeat the replay"))
    known = F.coalesce(F.col("slice"), unknown.cast("int"))
    joined = rows.select("kind", *NEEDED).join(slices, [*PLACE], "left").withColumn("slice", known)
    return (
        joined.repartitionById(count, "slice")
        .sortWithinPartitions(*_ORDER, "offset")
        .select(*NEEDED)
    )
