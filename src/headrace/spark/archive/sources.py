"""Which queues and topics are archived, how far they can be read now, and what is in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.bulk.client import BulkConnection, ReadableSource
from headrace.spark.backends.broker import connect, translated_errors
from headrace.spark.errors import BadOption
from headrace.spark.options import chosen, ddl

AT_ONCE = 500  # destinations of one question


@dataclass(frozen=True, slots=True)
class ArchiveChoice:
    """Names or patterns such as `orders.*`; both empty means everything."""

    queues: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()

    @property
    def is_all(self) -> bool:
        return not self.queues and not self.topics


def archive_sources(connection: BulkConnection, choice: ArchiveChoice) -> list[ReadableSource]:
    """The chosen sources that exist; BadOption when a name or pattern matches none."""
    with translated_errors():
        wanted = [{"queue": name} for name in _queues(connection, choice)]
        wanted += [{"topic": name} for name in _topics(connection, choice)]
        return [
            found
            for start in range(0, len(wanted), AT_ONCE)
            for found in connection.sources(wanted[start : start + AT_ONCE])
        ]


def _queues(connection: BulkConnection, choice: ArchiveChoice) -> list[str]:
    rows = connection.rows("queues")
    stored = [str(row["name"]) for row in rows if row["durable"] and not row["exclusive"]]
    if choice.is_all:
        return stored
    return _chosen("queue", stored, choice.queues, "durable queue")


def _topics(connection: BulkConnection, choice: ArchiveChoice) -> list[str]:
    names = [str(row["name"]) for row in connection.rows("topics") if row["engine"] != "memory"]
    if choice.is_all:
        return names
    return _chosen("topic", names, choice.topics, "stored topic")


def _chosen(kind: str, names: Sequence[str], patterns: Sequence[str], what: str) -> list[str]:
    found: dict[str, None] = {}
    for pattern in patterns:
        fitting = [name for name in names if fnmatchcase(name, pattern)]
        if not fitting:
            raise BadOption(f"--{kind} {pattern}: no {what} matches")
        found.update(dict.fromkeys(fitting))
    return list(found)


def retained(spark: SparkSession, url: str, choice: ArchiveChoice, since: datetime) -> DataFrame:
    """What a broker still has of the chosen sources and stored at ``since`` or later, with the
    columns `kind` and `source_uuid`."""
    with connect(url) as connection:
        known = archive_sources(connection, choice)
    frames = []
    for kind in ("queue", "topic"):
        uuids = {one.name: one.uuid for one in known if one.kind == kind}
        if uuids:
            reader = spark.read.format("headrace").option("url", url).option(kind, ",".join(uuids))
            reader = reader.option("startingTimestamp", str(int(since.timestamp() * 1000)))
            uuid_of = F.create_map(*(F.lit(one) for pair in uuids.items() for one in pair))
            rows = reader.load().withColumn("kind", F.lit(kind))
            frames.append(rows.withColumn("source_uuid", uuid_of[F.col("source")]))
    if not frames:
        return spark.createDataFrame([], f"{ddl(chosen(''))}, kind string, source_uuid string")
    return reduce(DataFrame.unionByName, frames)


def within(rows: DataFrame, since: datetime, until: datetime) -> DataFrame:
    """The messages that were stored in the period."""
    stored = F.col("timestamp")
    return rows.where((stored >= F.lit(since)) & (stored < F.lit(until)))
