"""A report from request to result; Spark computes the figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from headrace.client.errors import HeadraceError
from headrace.spark.archive.sources import ArchiveChoice, retained, within
from headrace.spark.archive.sql_tables import messages
from headrace.spark.backends.broker import connect
from headrace.spark.errors import SparkError
from headrace.spark.reports.model import (
    Chart,
    Report,
    ReportTable,
    lines_of,
    seconds_of,
    window_for,
)
from headrace.wire.native.payloads import Op

EVENTS = "$events"
_EVENT = (
    "destination STRING, uuid STRING, kind STRING, time BIGINT, "
    "ranges ARRAY<STRUCT<first: BIGINT, last: BIGINT, consumer: STRING>>"
)
_MESSAGE_COLUMNS = ("kind", "source", "source_uuid", "partition", "offset", "timestamp", "born",
                    "routing_key", "bytes")  # fmt: skip
TOP = 20
_ENDED = ("acknowledged", "dead-lettered", "expired", "dropped")
NO_EVENTS = (
    "There are no events, so nothing is known of waiting, retries and dead letters: the broker "
    "notes them with `headrace serve --events`, from then on."
)
PERCENTILES = (0.5, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class ReportInputs:
    """``messages`` has a row for each message, ``events`` one for each range of offsets."""

    messages: DataFrame
    events: DataFrame


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


# -- figures ---------------------------------------------------------------------------------------


def compute(inputs: ReportInputs, since: datetime, until: datetime, window: str) -> Report:
    has_events = not inputs.events.isEmpty()
    tables, charts = [], []
    volume, volume_lines = _volume(inputs, window)
    tables.append(volume)
    charts.append(volume_lines)
    if has_events:
        tables.append(_outcomes(inputs))
        waits, wait_lines = _waits(inputs, window)
        tables.append(waits)
        charts.append(wait_lines)
        charts.append(_lag(inputs, window))
        tables.append(_consumers(inputs))
    tables.append(_routing_keys(inputs))
    notes = () if has_events else (NO_EVENTS,)
    return Report(since, until, window, tuple(tables), tuple(charts), notes)


def _step(column: str, window: str) -> Column:
    return F.window(column, window)["start"].alias("step")


def _volume(inputs: ReportInputs, window: str) -> tuple[ReportTable, Chart]:
    steps = inputs.messages.groupBy("kind", "source", _step("timestamp", window)).agg(
        F.count("*").alias("messages"), F.sum("bytes").alias("bytes")
    )
    steps = steps.withColumn("rate", F.col("messages") / seconds_of(window)).cache()
    total = steps.groupBy("kind", "source").agg(
        F.sum("messages"), F.sum("bytes"), F.avg("rate"), F.max("rate")
    )
    rows = [tuple(row) for row in total.orderBy("kind", "source").collect()]
    columns = ("kind", "source", "messages", "bytes", "per second", "at most")
    points = [(row["source"], row["step"], float(row["rate"])) for row in steps.collect()]
    return (
        ReportTable(
            "Throughput",
            columns,
            rows,
            f"Per second: mean and maximum of the steps ({window}) with messages.",
        ),
        Chart("Messages in", "messages per second", lines_of(points)),
    )


def _outcomes(inputs: ReportInputs) -> ReportTable:
    kinds = ("acknowledged", "redelivered", "dead-lettered", "expired", "dropped")
    sums = [
        F.sum(F.when(F.col("what") == kind, F.col("count")).otherwise(0)).alias(kind)
        for kind in kinds
    ]
    rows = inputs.events.groupBy("source").agg(*sums).orderBy("source").collect()
    return ReportTable("Outcomes", ("queue", *kinds), [tuple(row) for row in rows],
                 "Messages by what happened to them; redelivered ones are retries.")  # fmt: skip


def _waited(inputs: ReportInputs) -> DataFrame:
    """Acknowledged messages, with the milliseconds they waited and took since they were born."""
    done = inputs.events.where(F.col("what") == "acknowledged").select(
        "source_uuid", "at", F.explode(F.sequence("first", "last")).alias("offset")
    )
    queued = inputs.messages.where(F.col("kind") == "queue")
    joined = queued.join(done, ["source_uuid", "offset"])
    milliseconds = F.unix_millis("at")
    return joined.select(
        "source",
        "at",
        (milliseconds - F.unix_millis("timestamp")).alias("wait"),
        (milliseconds - F.unix_millis("born")).alias("whole"),
    )


def _waits(inputs: ReportInputs, window: str) -> tuple[ReportTable, Chart]:
    waited = _waited(inputs).cache()
    rows = waited.groupBy("source").agg(*_percentiles("wait"), *_percentiles("whole"))
    found = [tuple(row) for row in rows.orderBy("source").collect()]
    columns = ("queue", "wait p50 ms", "wait p95 ms", "wait p99 ms",
               "end to end p50 ms", "end to end p95 ms", "end to end p99 ms")  # fmt: skip
    steps = waited.groupBy("source", _step("at", window)).agg(
        F.percentile_approx("wait", 0.95).alias("p95")
    )
    points = [(row["source"], row["step"], float(row["p95"])) for row in steps.collect()]
    note = (
        "Wait: from storing to the acknowledgement. End to end: from the producer's timestamp. "
        "Events are written every second, so times are rounded up to one."
    )
    return ReportTable("Latency", columns, found, note), Chart(
        "Queue wait, p95", "ms", lines_of(points)
    )


def _percentiles(column: str) -> Iterator[Column]:
    for share in PERCENTILES:
        yield F.percentile_approx(column, share).alias(f"{column}{share}")


def _lag(inputs: ReportInputs, window: str) -> Chart:
    """Messages of the period that were stored and not settled, at the end of each step."""
    came = inputs.messages.where(F.col("kind") == "queue").select(
        "source", _step("timestamp", window), F.lit(1).alias("change")
    )
    went = inputs.events.where(F.col("what").isin(*_ENDED)).select(
        "source", _step("at", window), (-F.col("count")).alias("change")
    )
    steps = came.unionByName(went).groupBy("source", "step").agg(F.sum("change").alias("change"))
    so_far = Over.partitionBy("source").orderBy("step")
    lag = steps.withColumn("lag", F.sum("change").over(so_far)).collect()
    points = [(row["source"], row["step"], float(max(row["lag"], 0))) for row in lag]
    return Chart("Messages waiting", "messages", lines_of(points))


def _consumers(inputs: ReportInputs) -> ReportTable:
    acknowledged = inputs.events.where(F.col("what") == "acknowledged")
    rows = acknowledged.groupBy("source", "consumer").agg(F.sum("count").alias("n"))
    top = rows.orderBy(F.desc("n"), "source", "consumer").limit(TOP).collect()
    found = [(row["source"], row["consumer"] or "several or none", row["n"]) for row in top]
    return ReportTable("Consumers", ("queue", "consumer", "acknowledged"), found)


def _routing_keys(inputs: ReportInputs) -> ReportTable:
    keys = inputs.messages.where(F.col("routing_key") != "")
    rows = keys.groupBy("source", "routing_key").agg(
        F.count("*").alias("messages"), F.sum("bytes").alias("bytes")
    )
    top = rows.orderBy(F.desc("messages"), "source", "routing_key").limit(TOP).collect()
    columns = ("source", "routing key", "messages", "bytes")
    return ReportTable("Top routing keys", columns, [tuple(row) for row in top])


def make(
    spark: SparkSession,
    url: str,
    since: datetime,
    until: datetime,
    window: str | None = None,
    lake: Path | None = None,
) -> Report:
    """From the lake, where events are if `$events` was archived, or from what the broker still has:
    most queues keep nothing that was acknowledged."""
    width = window or window_for(until - since)
    seconds_of(width)  # refuses what is none, before anything is read
    rows = messages(spark, lake) if lake else retained(spark, url, ArchiveChoice(), since)
    made = compute(_inputs(within(rows, since, until)), since, until, width)
    groups = group_lag(url)
    return made if groups is None else replace(made, tables=(*made.tables, groups))
