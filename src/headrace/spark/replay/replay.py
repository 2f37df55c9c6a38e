"""`headrace replay`: a preview of what would be sent, then the sending."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from headrace.bulk.client import BulkConnection
from headrace.spark.archive.layout import table_path
from headrace.spark.archive.sources import ArchiveChoice, retained, within
from headrace.spark.archive.sql_tables import messages
from headrace.spark.backends.broker import connect, translated_errors
from headrace.spark.errors import BadOption, reason_of
from headrace.spark.lake.delta import open_delta
from headrace.spark.replay.request import BLOCK, ReplayRequest, replayed
from headrace.spark.row_mapping import rows_of
from headrace.spark.sink import portions

# Neighbouring offsets, sent in one step. Equal for the same messages whenever they are replayed.
PLACE = ("source_uuid", "partition", "number")
NEEDED = (*PLACE, "offset", "source", "routing_key", "key", "tags", "message_id", "priority",
          "properties", "body")  # fmt: skip
STAGED_DDL = "source_uuid string, partition bigint, number bigint, attempt string, rows bigint"
NUMBER_SQL = f"offset div {BLOCK}"
BLOCKS = 64  # the broker has a file open for each
BYTES = 64 << 20  # on the broker's disk
SECONDS = 600.0  # of sending: the broker forgets after an hour what was not published
SAMPLE = 5
SEEN_BYTES = 200  # of a body: more is not shown
_ORDER = ("kind", "source", *PLACE[:2], "offset")


@dataclass(frozen=True, slots=True)
class Preview:
    count: int
    by_source: list[tuple[str, str, int]]  # kind, name, messages
    columns: list[str]
    sample: list[tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Replay:
    """One replay. Rows come from the lake, or from what the broker still has."""

    spark: SparkSession
    request: ReplayRequest
    url: str
    lake: Path | None = None

    def rows(self) -> DataFrame:
        """The messages that are meant."""
        request = self.request
        found = self._archived(self.lake) if self.lake is not None else self._retained()
        found = within(found, request.since, request.until)
        if request.where is None:
            return found
        try:
            return found.where(F.expr(request.where))
        except (AnalysisException, ParseException) as error:
            raise BadOption(f"--where: {reason_of(error)}") from error

    def _archived(self, lake: Path) -> DataFrame:
        found = messages(self.spark, lake)
        request = self.request
        if request.queues or request.topics:
            found = found.where(
                ((F.col("kind") == "queue") & F.col("source").isin(list(request.queues)))
                | ((F.col("kind") == "topic") & F.col("source").isin(list(request.topics)))
            )
        return found

    def _retained(self) -> DataFrame:
        request = self.request
        if not request.queues and not request.topics:
            raise BadOption("nothing to replay: pass --queue or --topic, or --lake for an archive")
        choice = ArchiveChoice(request.queues, request.topics)
        found = retained(self.spark, self.url, choice, request.since)
        return found.withColumn("text", F.try_validate_utf8(F.col("body").cast("string")))

    def preview(self) -> Preview:
        """Nothing is sent."""
        rows = self.rows()
        counted = rows.groupBy("kind", "source").count().orderBy("kind", "source").collect()
        columns = ["source", "partition", "offset", "timestamp", "routing_key", "key", "body"]
        seen = rows.withColumn("body", F.substring("body", 1, SEEN_BYTES))
        sample = seen.orderBy("timestamp", *_ORDER).select(*columns).limit(SAMPLE).collect()
        by_source = [(row["kind"], row["source"], row["count"]) for row in counted]
        return Preview(sum(one[2] for one in by_source), by_source, columns, [*map(tuple, sample)])

    def send(self, rate: float, report: Callable[[int, int], None]) -> tuple[int, int]:
        """At most ``rate`` messages a second; returns how many were sent now, and before."""
        key = self.request.key(self._origin())
        sent = before = 0
        pause_until = 0.0  # time without sending gives no right to send faster later
        for blocks in self._staged(key, rate):
            with connect(self.url) as connection, translated_errors():
                for block in blocks:
                    _rest(connection, pause_until)
                    if connection.publish_staged(block.query(key), block.number, [block.attempt]):
                        sent += block.rows
                        pause_until = time.monotonic() + block.rows / rate
                    else:
                        before += block.rows
                    report(sent, before)
        return sent, before

    def _staged(self, key: str, rate: float) -> Iterator[Iterator[StagedBlock]]:
        """The blocks in their order, staged by tasks: no body comes to the driver, and no more are
        staged at a time than a slice has."""
        rows = self.rows().withColumn("number", F.expr(NUMBER_SQL))
        slices = sliced(rows, rate).cache()
        last = slices.agg(F.max("slice")).first()
        if last is not None and last[0] is not None:
            stage = StagingTask(self.url, self.request, key)
            staged = placed(rows, slices, last[0] + 1).mapInArrow(stage, STAGED_DDL)
            found = (StagedBlock(**row.asDict()) for row in staged.toLocalIterator())
            # A task has one name for all its blocks.
            for _, blocks in groupby(found, lambda one: one.attempt):
                yield blocks
        slices.unpersist()  # not when it is interrupted: Java may be in the middle of something

    def _origin(self) -> str:
        """An archive has an id; sources that a broker retains differ by uuid."""
        if self.lake is None:
            return "broker"
        return str(open_delta(table_path(self.lake)).metadata().id)


def _rest(connection: BulkConnection, until: float) -> None:
    """A broker that hears nothing for long hangs up."""
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, 1.0))
        connection.stay_alive()


# -- staging ---------------------------------------------------------------------------------------


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
                done = dict(zip(PLACE, place, strict=True), attempt=attempt, rows=count)
                yield pa.RecordBatch.from_pylist([done])


def sliced(rows: DataFrame, rate: float) -> DataFrame:
    """The slice of each block. One holds as much as the limits allow, and its last block."""
    blocks = rows.groupBy("kind", "source", *PLACE).agg(
        F.count("*").alias("rows"), F.sum(F.octet_length("body")).alias("bytes")
    )
    share = F.greatest(
        F.lit(1 / BLOCKS), F.col("bytes") / BYTES, F.col("rows") / F.lit(rate * SECONDS)
    )
    earlier = Window.orderBy("kind", "source", *PLACE).rowsBetween(Window.unboundedPreceding, -1)
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
        .sortWithinPartitions("kind", "source", *PLACE, "offset")
        .select(*NEEDED)
    )
