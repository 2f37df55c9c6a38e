"""Writing from foreachBatch: each batch of a query once, however often Spark repeats it.

Spark lets sinks written in Python take appended rows only; an aggregation in update or complete
mode comes this way.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame

from headrace.spark.errors import BadOption, SinkRefused
from headrace.spark.options import DEFAULT_URL, PATIENCE, WriteOptions, write_options
from headrace.spark.row_mapping import check_schema
from headrace.spark.sink import sink_of
from headrace.spark.writer import QUERY_PROPERTY


class BatchSink(Protocol):
    def check(self, frame: DataFrame) -> None:
        """SinkRefused or BadOption when rows of this shape cannot be taken."""

    def write(self, frame: DataFrame, query: str, batch: int) -> None:
        """All rows, in one step; nothing if that batch of that query is stored already."""


def batches_into(
    *, url: str = DEFAULT_URL, topic: str | None = None, exchange: str | None = None
) -> Callable[[DataFrame, int], None]:
    """For foreachBatch: rows become messages of a topic, or for an exchange.

    A batch is known by its number, its destination, and the id of its query, which is in the
    checkpoint: a query that begins with a new checkpoint is another one.
    """
    given = {"url": url, "topic": topic, "exchange": exchange}
    settings = {name: value for name, value in given.items() if value is not None}
    write_options(settings)  # refuses now what the first batch would
    return into(MessageSink(settings))


def into(sink: BatchSink) -> Callable[[DataFrame, int], None]:
    def write(frame: DataFrame, batch: int) -> None:
        query = frame.sparkSession.sparkContext.getLocalProperty(QUERY_PROPERTY)
        if not query:
            raise SinkRefused("Spark did not name its query, so a repeated batch would be doubled")
        sink.write(frame, query, batch)

    return write


def need(frame: DataFrame, names: tuple[str, ...], kind: str) -> None:
    """BadOption when a column is missing that a sink of this kind has to have."""
    for name in names:
        if name not in frame.columns:
            raise BadOption(f"{kind}: no column '{name}' in {', '.join(frame.columns)}")


@dataclass(frozen=True, slots=True)
class MessageSink:
    """An exchange or a topic."""

    settings: dict[str, str]

    def check(self, frame: DataFrame) -> None:
        check_schema(frame.schema, write_options(self.settings))

    def write(self, frame: DataFrame, query: str, batch: int) -> None:
        self.check(frame)
        sink = sink_of(_patient(self.settings))
        name = f"stream:{query}:{self._destination()}"
        stage = _Stage(self.settings, name, batch)
        done = frame.mapInArrow(stage, "attempt string, rows bigint").collect()
        sink.publish(name, batch, [row["attempt"] for row in done if row["rows"]])

    def _destination(self) -> str:
        """One function may write a batch to several; short, whatever their names are."""
        place = [self.settings.get(name) for name in ("topic", "exchange")]
        return hashlib.sha256(json.dumps(place).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class _Stage:
    """What tasks do for a MessageSink."""

    settings: dict[str, str]
    query: str
    batch: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        attempt = uuid.uuid4().hex
        sink = sink_of(_patient(self.settings))
        count = sink.stage(self.query, self.batch, attempt, batches)
        yield pa.RecordBatch.from_pylist([{"attempt": attempt, "rows": count}])


def _patient(settings: dict[str, str]) -> WriteOptions:
    """A broker that starts again is waited for, as streams do."""
    return replace(write_options(settings), patience=PATIENCE)
