"""`headrace replay`: a preview of what would be sent, then the sending."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.bulk.client import BulkConnection
from headrace.spark.archive.layout import table_path
from headrace.spark.archive.sources import ArchiveChoice, archive_sources
from headrace.spark.archive.sql_tables import messages
from headrace.spark.backends.broker import connect, translated_errors
from headrace.spark.errors import BadOption, reason_of
from headrace.spark.lake.spark_tables import open_delta
from headrace.spark.replay.request import ReplayRequest
from headrace.spark.replay.staging import (
    NUMBER_SQL,
    STAGED_DDL,
    StagedBlock,
    StagingTask,
    placed,
    sliced,
)

SAMPLE = 5
SEEN_BYTES = 200  # of a body: more is not shown
_ORDER = ("kind", "source", "source_uuid", "partition", "offset")


@dataclass(frozen=True, slots=True)
class Preview:
    """What a replay would send."""

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
        stored = F.col("timestamp")
        found = found.where((stored >= F.lit(request.since)) & (stored < F.lit(request.until)))
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
        with connect(self.url) as connection:
            known = archive_sources(connection, ArchiveChoice(request.queues, request.topics))
        frames = []
        for kind in ("queue", "topic"):
            uuids = {one.name: one.uuid for one in known if one.kind == kind}
            if uuids:
                frames.append(self._of_kind(kind, uuids))
        found = frames[0]
        for other in frames[1:]:
            found = found.unionByName(other)
        return found.withColumn("text", F.try_validate_utf8(F.col("body").cast("string")))

    def _of_kind(self, kind: str, uuids: dict[str, str]) -> DataFrame:
        since = int(self.request.since.timestamp() * 1000)
        reader = self.spark.read.format("headrace").option("url", self.url)
        rows = reader.option(kind, ",".join(uuids)).option("startingTimestamp", str(since)).load()
        pairs = [F.lit(one) for pair in uuids.items() for one in pair]
        return rows.withColumn("kind", F.lit(kind)).withColumn(
            "source_uuid", F.create_map(*pairs)[F.col("source")]
        )

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
