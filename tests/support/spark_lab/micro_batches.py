"""Spark's micro-batches in a few lines: what it notes, what it asks for, where it can be killed.

The same calls in the same order, against the same readers and sinks, without Java: a crash costs
nothing, so there can be hundreds. What Spark notes in its checkpoint are ``offsets`` before a batch
and ``commits`` after it; everything else is forgotten by a crash.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadMaxRows

from headrace.spark.errors import SparkError
from headrace.spark.options import PATIENCE, read_options, write_options
from headrace.spark.reader import StreamReader
from headrace.spark.sink import StagedSink, sink_of

ROWS = 40  # of a batch


class Crash(Exception):
    """The driver is gone."""


@dataclass
class Engine:
    """A query from a source to a topic."""

    reading: dict[str, str]
    writing: dict[str, str]
    chance: random.Random
    query: str = field(default_factory=lambda: f"stream:{uuid.uuid4()}")
    offsets: list[dict[str, Any]] = field(default_factory=list)
    began: dict[str, Any] = field(default_factory=dict)  # where the first batch begins
    commits: int = 0
    risk: float = 0.0  # of a crash at each point
    crashes: int = 0
    errors: list[str] = field(default_factory=list)  # what ended it without a crash of ours
    meanwhile: Callable[[], None] = lambda: None  # what else happens in the world

    def run(self, batches: int) -> bool:
        """Until there is nothing to do (True), so many batches are done, or it crashes."""
        tasks = str(self.chance.randrange(3, 40))  # another number of tasks in each life
        options = read_options({**self.reading, "rowsPerTask": tasks})
        reader = StreamReader(replace(options, is_stream=True))
        sink = sink_of(replace(write_options(self.writing), patience=PATIENCE))
        try:
            for _ in range(batches):
                if not self._batch(reader, sink):
                    return True
        except Crash:
            self.crashes += 1
        except SparkError as error:  # what was staged is gone when the broker was killed
            self.errors.append(str(error))
        return False

    def _point(self) -> None:
        self.meanwhile()
        if self.chance.random() < self.risk:
            raise Crash

    def _batch(self, reader: StreamReader, sink: StagedSink) -> bool:
        number = self.commits
        start = self.offsets[number - 1] if number else reader.initialOffset()
        self._point()
        if len(self.offsets) == number:
            end = reader.latestOffset(start, ReadMaxRows(ROWS))
            if end["sources"] == start["sources"]:
                return False
            self._point()
            self.began = self.began or start
            self.offsets.append(end)
            if number > 1:
                reader.commit(self.offsets[number - 2])
        self._point()
        end = self.offsets[number]
        attempts = [
            self._task(sink, number, lambda task=task: reader.read(task))  # type: ignore[misc]
            for task in reader.partitions(start, end)
        ]
        self._point()
        sink.publish(self.query, number, attempts)
        self._point()
        self.commits += 1
        self._point()
        return True

    def _task(
        self, sink: StagedSink, number: int, read: Callable[[], Iterator[pa.RecordBatch]]
    ) -> str:
        """An executor may die with its rows half staged: the task is done again."""
        while True:
            attempt = uuid.uuid4().hex[:12]
            rows = [batch.select(["body"]) for batch in read()]
            if self.chance.random() < self.risk:
                sink.stage(self.query, number, attempt, (one.slice(0, 2) for one in rows))
                continue
            sink.stage(self.query, number, attempt, iter(rows))
            self._point()
            return attempt
