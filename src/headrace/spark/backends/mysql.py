"""Topics in MySQL as a source and a sink: ranges of ids below the stable id, by connectorx.

A priority is a partition: middle 0, high 1, low 2. Nothing below the stable id ever changes, so a
range that is read again has the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import pyarrow as pa

from headrace.bulk.client import ReadableSource
from headrace.bulk.columns import selected
from headrace.bulk.decode.sql_rows import batch_of
from headrace.bulk.read_plan import ROWS_PER_QUERY, SqlPlan
from headrace.errors import BrokerError, EngineUnavailable, SourceChanged
from headrace.spark import errors
from headrace.spark.backends.base import GAP_SECONDS, retried
from headrace.spark.errors import SparkError
from headrace.spark.offsets import SourceOffset, StreamOffset
from headrace.spark.options import ReadOptions, WriteOptions
from headrace.spark.row_mapping import rows_of
from headrace.spark.selection import selection
from headrace.spark.task_plan import TaskRange
from headrace.topics.topic_tables import Entry, Priority, TopicTables

T = TypeVar("T")


@contextmanager
def translated_errors() -> Iterator[None]:
    """Errors of the engine as SparkError."""
    try:
        yield
    except SourceChanged as error:
        raise errors.SourceChanged(str(error)) from None
    except BrokerError as error:
        raise SparkError(str(error)) from None


def _retried(patience: float, work: Callable[[], T]) -> T:
    with translated_errors():
        return retried(patience, work, EngineUnavailable)


class MySqlBackend:
    """Topics of a database, without a broker."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def _do(self, work: Callable[[TopicTables], T]) -> T:
        with TopicTables(self._options.url) as tables:
            return _retried(self._options.patience, lambda: work(tables))

    def sources(
        self, time_ms: int | None = None, *, complete: bool = False
    ) -> dict[str, ReadableSource]:
        names, patience = self._options.names, GAP_SECONDS if complete else 0.0
        return self._do(
            lambda tables: {one: _source(tables, one, time_ms, patience) for one in names}
        )

    def pin(self, position: StreamOffset) -> None:
        def work(tables: TopicTables) -> None:
            for name, one in position.sources.items():
                start = {Priority(partition): at for partition, at in one.next.items()}
                tables.pin(name, position.query, start)

        self._do(work)

    def pinned(self, query: str) -> StreamOffset | None:
        def work(tables: TopicTables) -> dict[str, SourceOffset]:
            known = {name: tables.pinned(name, query) for name in self._options.names}
            return {
                name: SourceOffset(
                    tables.look(name).uuid,
                    {int(priority): at for priority, at in ids.items()},
                )
                for name, ids in known.items()
                if ids
            }

        sources = self._do(work)
        return StreamOffset(query, sources) if sources else None

    def unpin(self, query: str) -> None:
        def work(tables: TopicTables) -> None:
            for name in self._options.names:
                tables.pins.unpin(name, query)

        self._do(work)

    def batches(self, part: TaskRange, uuid: str) -> Iterator[pa.RecordBatch]:
        choose = selection(self._options)
        priority = Priority(part.partition)
        names = selected(choose.needed)
        with TopicTables(self._options.url) as tables:
            for start in range(part.start, part.end, ROWS_PER_QUERY):
                end = min(start + ROWS_PER_QUERY, part.end)
                query = tables.bulk.query(part.source, priority, start, end, names)
                plan = SqlPlan(
                    part.source, part.partition, priority.label, choose.needed, end, uuid,
                    query.url, query.rows, query.uuid,
                )  # fmt: skip
                found = _retried(self._options.patience, partial(batch_of, plan))
                if found.num_rows:
                    yield choose.apply(found)


def _source(tables: TopicTables, name: str, time_ms: int | None, patience: float) -> ReadableSource:
    found = tables.look(name, time_ms, patience)
    return ReadableSource(
        "topic",
        name,
        found.uuid,
        {int(one): its for one, its in found.ranges.items()},
        {int(one): one.label for one in found.ranges},
        {int(one): at for one, at in found.at_time.items()},
        gap=found.gap,
    )


class MySqlTopicSink:
    """A topic of a database. Batches are staged in a table, published in one transaction."""

    def __init__(self, options: WriteOptions) -> None:
        assert options.topic is not None, "the options are checked"
        self._url = options.url
        self._patience = options.patience
        self._topic = options.topic

    def stage(self, query: str, batch: int, attempt: str, batches: Iterator[pa.RecordBatch]) -> int:
        entries = (_entry(row) for one in batches for row in rows_of(one))
        with translated_errors(), TopicTables(self._url) as tables:
            return tables.stage(self._topic, query, batch, attempt, entries)

    def publish(self, query: str, batch: int, attempts: Sequence[str]) -> None:
        with TopicTables(self._url) as tables:
            _retried(self._patience, lambda: tables.publish(self._topic, query, batch, attempts))

    def discard(self, query: str, batch: int) -> None:
        with translated_errors(), TopicTables(self._url) as tables:
            tables.discard(query, batch)


def _entry(row: Mapping[str, object]) -> Entry:
    properties = row.get("properties", {})
    body, priority = row["body"], Priority[str(row.get("priority", "middle")).upper()]
    assert isinstance(properties, Mapping)
    assert isinstance(body, bytes)
    texts = {name: str(row[name]) for name in ("key", "tags", "message_id") if name in row}
    return Entry(body=body, priority=priority, properties=dict(properties), **texts)  # type: ignore[arg-type]
