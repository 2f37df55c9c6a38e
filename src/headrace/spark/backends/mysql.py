"""Topics in MySQL as a source and a sink: ranges of ids below the stable id, by connectorx.

A priority is a partition: middle 0, high 1, low 2. Nothing below the stable id ever changes, so a
range that is read again has the same rows.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import numpy as np
import pyarrow as pa

from headrace.bulk.client import ReadableSource
from headrace.bulk.decode.schema import COLUMNS, PROPERTIES, schema_of
from headrace.errors import BrokerError, EngineUnavailable
from headrace.model.readable_range import ReadableRange
from headrace.spark.errors import SourceChanged, SparkError
from headrace.spark.offsets import SourceOffset, StreamOffset
from headrace.spark.options import ReadOptions, WriteOptions
from headrace.spark.row_mapping import rows_of
from headrace.spark.selection import selection
from headrace.spark.task_plan import TaskRange
from headrace.topics.topic_tables import Entry, Priority, TopicTables

T = TypeVar("T")

AGAIN_SECONDS = 0.5
ROWS_PER_QUERY = 50_000  # read at once: bounds the memory of a task
# What has to be selected for each column that is no constant.
_NEEDS = {
    "offset": ("offset",),
    "timestamp": ("timestamp",),
    "key": ("key",),
    "body": ("body",),
    "born": ("props",),
    "tags": ("props",),
    "message_id": ("props",),
    "properties": ("token", "source_ip", "props"),
}


@contextmanager
def translated_errors() -> Iterator[None]:
    """Errors of the engine as SparkError."""
    try:
        yield
    except BrokerError as error:
        raise SparkError(str(error)) from None


def with_retries(patience: float, work: Callable[[], T]) -> T:
    """Run ``work``, and retry for ``patience`` seconds while the server is unreachable: it must be
    safe to repeat."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return work()
        except EngineUnavailable as error:
            if time.monotonic() > deadline:
                raise SparkError(str(error)) from None
            time.sleep(AGAIN_SECONDS)
        except BrokerError as error:
            raise SparkError(str(error)) from None


class MySqlBackend:
    """Topics of a database, without a broker."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def _do(self, work: Callable[[TopicTables], T]) -> T:
        with TopicTables(self._options.url) as tables:
            return with_retries(self._options.patience, lambda: work(tables))

    def sources(self, time_ms: int | None = None) -> dict[str, ReadableSource]:
        names = self._options.names
        return self._do(lambda tables: {one: _source(tables, one, time_ms) for one in names})

    def pin(self, position: StreamOffset) -> None:
        def work(tables: TopicTables) -> None:
            for name, one in position.sources.items():
                start = {Priority(partition): at for partition, at in one.next.items()}
                tables.pin(name, position.query, start, start)

        self._do(work)

    def pinned(self, query: str) -> StreamOffset | None:
        def work(tables: TopicTables) -> dict[str, SourceOffset]:
            known = {name: tables.pinned(name, query) for name in self._options.names}
            return {
                name: SourceOffset(
                    tables.look(name)[0], {int(priority): at for priority, at in ids.items()}
                )
                for name, ids in known.items()
                if ids
            }

        sources = self._do(work)
        return StreamOffset(query, sources) if sources else None

    def unpin(self, query: str) -> None:
        def work(tables: TopicTables) -> None:
            for name in self._options.names:
                tables.unpin(name, query)

        self._do(work)

    def batches(self, part: TaskRange, uuid: str) -> Iterator[pa.RecordBatch]:
        choose = selection(self._options)
        priority = Priority(part.partition)
        names = _selected(choose.needed)
        with TopicTables(self._options.url) as tables:
            url = tables.connector_url()

            def read(query: str) -> pa.Table:
                found = _read(url, query)
                if tables.uuid(part.source) != uuid:
                    raise SourceChanged(
                        f"topic '{part.source}' was deleted and made again while it was read: "
                        "these are not the messages of the checkpoint"
                    )
                return found

            for start in range(part.start, part.end, ROWS_PER_QUERY):
                end = min(start + ROWS_PER_QUERY, part.end)
                query = tables.select(part.source, priority, start, end, names)
                found = with_retries(self._options.patience, partial(read, query))
                if found.num_rows:
                    yield choose.apply(_batch(found, choose.needed, part.source, priority))


def _source(tables: TopicTables, name: str, time_ms: int | None) -> ReadableSource:
    uuid, priorities = tables.look(name, time_ms)
    return ReadableSource(
        "topic",
        name,
        uuid,
        {int(one.priority): ReadableRange(one.first, one.end, one.first) for one in priorities},
        {int(one.priority): one.priority.label for one in priorities},
        {int(one.priority): one.at_time for one in priorities if one.at_time is not None},
    )


def _selected(columns: Sequence[str]) -> list[str]:
    found = [name for column in columns for name in _NEEDS.get(column, ())]
    return list(dict.fromkeys(found)) or ["offset"]


def _read(url: str, query: str) -> pa.Table:
    import connectorx

    try:
        return connectorx.read_sql(url, query, return_type="arrow", protocol="binary")
    except RuntimeError as error:
        # It does not say whether the server is gone; who waits for that tries again.
        raise EngineUnavailable(f"the database cannot be read: {str(error)[:500]}") from None


def _batch(
    found: pa.Table, columns: Sequence[str], source: str, priority: Priority
) -> pa.RecordBatch:
    """Rows as the database gives them, in the columns of the source."""
    n = found.num_rows
    props = _PropertyDecoder(found) if "props" in found.column_names else None
    made = []
    for name in columns:
        kind = COLUMNS[name]
        if name == "source":
            column = pa.repeat(pa.scalar(source), n)
        elif name == "partition":
            column = pa.array(np.full(n, int(priority), np.int32))
        elif name == "priority":
            column = pa.repeat(pa.scalar(priority.label), n)
        elif name in ("offset", "timestamp", "key", "body"):
            column = _joined(found, name)
        elif name in ("born", "tags", "message_id", "properties"):
            assert props is not None
            column = props.column(name, kind)
        else:
            column = pa.nulls(n, kind)
        made.append(column if column.type == kind else column.cast(kind))
    return pa.RecordBatch.from_arrays(made, schema=schema_of(columns))


def _joined(found: pa.Table, name: str) -> pa.Array:
    column = found.column(name).combine_chunks()
    return pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column


class _PropertyDecoder:
    """What is kept as JSON, decoded once per distinct text."""

    def __init__(self, found: pa.Table) -> None:
        self._found = found
        encoded = _joined(found, "props").dictionary_encode()
        self._which = encoded.indices
        self._values = [json.loads(one) if one else {} for one in encoded.dictionary.to_pylist()]

    def column(self, name: str, kind: pa.DataType) -> pa.Array:
        if name == "properties":
            return self._maps()
        values = [one.get(name) for one in self._values]
        if name == "born":
            values = [None if one is None else one * 1000 for one in values]
            return pa.array(values, pa.int64()).take(self._which).cast(COLUMNS["timestamp"])
        return pa.array(values, kind).take(self._which)

    def _maps(self) -> pa.Array:
        """With the token and the address of the producer, where they are known."""
        tokens = _joined(self._found, "token").dictionary_encode()
        addresses = _joined(self._found, "source_ip").dictionary_encode()
        combined = pa.StructArray.from_arrays(
            [self._which, tokens.indices, addresses.indices], names=["p", "t", "a"]
        )
        keys = _packed(combined)
        unique = keys.unique()
        token_texts, address_texts = tokens.dictionary.to_pylist(), addresses.dictionary.to_pylist()
        made = []
        for key in unique.to_pylist():
            p, t, a = (int(part) - 1 for part in key.split(","))
            own: dict[str, str] = {}
            if t >= 0 and token_texts[t]:
                own["token"] = token_texts[t]
            if a >= 0:
                own["source_ip"] = address_texts[a]
            given: Mapping[str, str] = self._values[p].get("properties", {}) if p >= 0 else {}
            named = {f"header.{k}" if k in own else k: v for k, v in given.items()}
            made.append(list({**own, **named}.items()))
        return pa.array(made, PROPERTIES).take(pa.compute.index_in(keys, unique))


def _packed(combined: pa.StructArray) -> pa.Array:
    """Three small numbers as one text, counted from 1; 0 stands for null."""
    columns = [
        pa.compute.add(pa.compute.fill_null(combined.field(name), -1), 1).cast(pa.string())
        for name in ("p", "t", "a")
    ]
    return pa.compute.binary_join_element_wise(*columns, ",")


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
            with_retries(
                self._patience, lambda: tables.publish(self._topic, query, batch, attempts)
            )

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
