"""Inputs of a report: messages, events, and the lag of consumer groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.bulk.client import ReadableSource
from headrace.client.errors import HeadraceError
from headrace.spark.archive.sources import ArchiveChoice, archive_sources
from headrace.spark.archive.sql_tables import messages
from headrace.spark.backends.broker import connect
from headrace.spark.errors import SparkError
from headrace.spark.reports.model import ReportTable
from headrace.wire.native.payloads import Op

EVENTS = "$events"
_EVENT = (
    "destination STRING, uuid STRING, kind STRING, time BIGINT, "
    "ranges ARRAY<STRUCT<first: BIGINT, last: BIGINT, consumer: STRING>>"
)
_MESSAGE_COLUMNS = ("kind", "source", "source_uuid", "partition", "offset", "timestamp", "born",
                    "routing_key", "bytes")  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReportInputs:
    """``messages`` has a row for each message, ``events`` one for each range of offsets."""

    messages: DataFrame
    events: DataFrame


def from_lake(spark: SparkSession, lake: Path, since: datetime, until: datetime) -> ReportInputs:
    """From an archive; its events are there when `$events` was archived."""
    rows = _within(messages(spark, lake), since, until)
    return _inputs(rows)


def from_broker(spark: SparkSession, url: str, since: datetime, until: datetime) -> ReportInputs:
    """From what the broker still has. Most queues keep nothing that was acknowledged."""
    with connect(url) as connection:
        known = archive_sources(connection, ArchiveChoice())
    frames = [_of_kind(spark, url, kind, known, since) for kind in ("queue", "topic")]
    found = [frame for frame in frames if frame is not None]
    if not found:
        return _inputs(spark.createDataFrame([], f"{_EMPTY}, body BINARY"))
    rows = found[0] if len(found) == 1 else found[0].unionByName(found[1])
    return _inputs(_within(rows, since, until))


_EMPTY = (
    "kind STRING, source STRING, source_uuid STRING, partition INT, offset BIGINT, "
    "timestamp TIMESTAMP, born TIMESTAMP, routing_key STRING"
)


def _of_kind(
    spark: SparkSession, url: str, kind: str, known: list[ReadableSource], since: datetime
) -> DataFrame | None:
    uuids = {one.name: one.uuid for one in known if one.kind == kind}
    if not uuids:
        return None
    reader = spark.read.format("headrace").option("url", url).option(kind, ",".join(uuids))
    rows = reader.option("startingTimestamp", str(int(since.timestamp() * 1000))).load()
    pairs = [F.lit(one) for pair in uuids.items() for one in pair]
    uuid = F.create_map(*pairs)[F.col("source")]
    return rows.withColumn("kind", F.lit(kind)).withColumn("source_uuid", uuid)


def _within(rows: DataFrame, since: datetime, until: datetime) -> DataFrame:
    stored = F.col("timestamp")
    return rows.where((stored >= F.lit(since)) & (stored < F.lit(until)))


def _inputs(rows: DataFrame) -> ReportInputs:
    plain = rows.where(F.col("source") != EVENTS).withColumn("bytes", F.length("body"))
    event = F.from_json(F.col("body").cast("string"), _EVENT)
    noted = rows.where(F.col("source") == EVENTS).select(event.alias("e")).select("e.*")
    events = noted.select(
        F.col("destination").alias("source"),
        F.col("uuid").alias("source_uuid"),
        F.col("kind").alias("what"),
        F.timestamp_millis("time").alias("at"),
        F.inline("ranges"),
    ).withColumn("count", F.col("last") - F.col("first") + 1)
    return ReportInputs(plain.select(*_MESSAGE_COLUMNS).cache(), events.cache())


def group_lag(url: str) -> ReportTable | None:
    """None when no broker answers, or when there are no groups."""
    try:
        with connect(url) as connection:
            rows = connection.call(Op.LIST, kind="groups", page=0)["rows"]
    except (HeadraceError, SparkError):
        return None
    found = sorted((row["topic"], _reader(row), _waiting(row)) for row in rows)
    columns = ("topic", "group", "lag")
    return ReportTable("Groups", columns, found, "As of now.") if found else None


def _reader(row: Mapping[str, Any]) -> str:
    """A reader on its own has a token instead of a group."""
    return str(row["group"]) or f"{row['token']} (alone)"


def _waiting(row: Mapping[str, Any]) -> int:
    """Over all priorities; see the answer to `list groups` in the native protocol."""
    return sum(int(one[3]) for one in row["lag"])
