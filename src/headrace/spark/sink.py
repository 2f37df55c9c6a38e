"""Sinks of a broker: rows are staged, then published in one step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from headrace.bulk.client import BulkConnection
from headrace.client.errors import ConnectionClosed
from headrace.spark.backends.broker import connect, translated_errors
from headrace.spark.options import WriteOptions
from headrace.spark.row_mapping import as_append, as_publish, rows_of

STAGE_ROWS = 4000  # of one request
STAGE_BYTES = 4 << 20


class StagedSink(Protocol):
    def stage(self, query: str, batch: int, attempt: str, batches: Iterator[pa.RecordBatch]) -> int:
        """Stage rows; returns how many."""

    def publish(self, query: str, batch: int, attempts: Sequence[str]) -> None:
        """All rows of these attempts, in one step; nothing if the batch was published before."""

    def discard(self, query: str, batch: int) -> None:
        """Drop what was staged."""


class BrokerSink:
    """An exchange or a topic of a running broker."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def stage(self, query: str, batch: int, attempt: str, batches: Iterator[pa.RecordBatch]) -> int:
        count = 0
        with self._connected() as connection, translated_errors():
            for messages in portions(self._messages(batches)):
                connection.stage(query, batch, attempt, messages, topic=self._options.topic)
                count += len(messages)
        return count

    def publish(self, query: str, batch: int, attempts: Sequence[str]) -> None:
        """Repeated when the connection is lost before the answer: twice does no harm."""
        for is_last in (not self._options.patience, True):
            with self._connected() as connection, translated_errors():
                try:
                    connection.publish_staged(query, batch, attempts)
                    return
                except ConnectionClosed:
                    if is_last:
                        raise

    def discard(self, query: str, batch: int) -> None:
        with self._connected() as connection, translated_errors():
            connection.discard_staged(query, batch)

    def _connected(self) -> BulkConnection:
        return connect(self._options.url, self._options.patience)

    def _messages(self, batches: Iterator[pa.RecordBatch]) -> Iterator[dict[str, object]]:
        exchange = self._options.exchange
        for batch in batches:
            for row in rows_of(batch):
                yield as_append(row) if exchange is None else as_publish(exchange, row)


def portions(messages: Iterable[dict[str, object]]) -> Iterator[list[dict[str, object]]]:
    """Messages in parts that fit into a request."""
    portion: list[dict[str, object]] = []
    size = 0
    for message in messages:
        body = message["body"]
        assert isinstance(body, bytes)
        if portion and (len(portion) >= STAGE_ROWS or size + len(body) > STAGE_BYTES):
            yield portion
            portion, size = [], 0
        portion.append(message)
        size += len(body)
    if portion:
        yield portion


def sink_of(options: WriteOptions) -> StagedSink:
    if options.url.startswith("mysql://"):
        from headrace.spark.backends.mysql import MySqlTopicSink

        return MySqlTopicSink(options)
    return BrokerSink(options)
