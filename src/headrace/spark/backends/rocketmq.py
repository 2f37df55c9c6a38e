"""Topics of a RocketMQ cluster as a source: Apache's, or a broker of ours at its RocketMQ ports.

Every broker counts its queues from 0, so a topic is one source per broker, ``topic@broker``, and a
queue is a partition. A queue never changes below its end, so a range that is read again has the
same rows. RocketMQ has no pins: its brokers drop what is too old, read or not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TypeVar
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from headrace.bulk.client import ReadableSource
from headrace.bulk.decode.schema import COLUMNS, schema_of
from headrace.model.readable_range import ReadableRange
from headrace.rocketmq import (
    ConfigurationError,
    MessageExt,
    MessageQueue,
    MessagesGoneError,
    QueueReader,
    RemotingError,
    RocketMQError,
)
from headrace.rocketmq.queue_reader import GROUP
from headrace.spark.backends.base import AGAIN_SECONDS, retried
from headrace.spark.errors import BadOption, DataLost, SparkError
from headrace.spark.offsets import StreamOffset
from headrace.spark.options import ReadOptions
from headrace.spark.selection import selection
from headrace.spark.task_plan import TaskRange

T = TypeVar("T")
ROWS = 8192  # of one Arrow batch, about
DEFAULT_PORT = 9876
PRIORITY = "middle"  # RocketMQ has one
_OWN_COLUMNS = ("TAGS", "KEYS", "UNIQ_KEY")


class RocketMqBackend:
    """Topics by the names that the name servers know."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def sources(
        self, time_ms: int | None = None, *, complete: bool = False
    ) -> dict[str, ReadableSource]:
        def found(reader: QueueReader) -> dict[str, ReadableSource]:
            topics = self._options.names
            return {one.name: one for name in topics for one in _sources(reader, name, time_ms)}

        return _with_retries(self._options, found)

    def pin(self, position: StreamOffset) -> None:
        """There are no pins; the offsets of a ``group`` are committed, so brokers show its lag."""
        if self._options.group is None:
            return
        offsets = {
            _queue(name, partition): at
            for name, one in position.sources.items()
            for partition, at in one.next.items()
        }

        def commit(reader: QueueReader) -> None:
            for topic in self._options.names:
                reader.queues(topic)
            reader.commit(offsets)

        _with_retries(self._options, commit)

    def batches(self, part: TaskRange, uuid: str) -> Iterator[pa.RecordBatch]:
        choose, patience = selection(self._options), self._options.patience
        start, deadline = part.start, time.monotonic() + patience
        while start < part.end:
            try:
                for rows in self._rows(part, start):
                    yield choose.apply(_batch(rows, choose.needed, part))
                    start, deadline = rows[-1].queue_offset + 1, time.monotonic() + patience
                return
            except MessagesGoneError as error:
                if self._options.fail_on_data_loss:
                    raise DataLost(str(error)) from None
                start = error.first
            except RocketMQError as error:
                if not isinstance(error, RemotingError) or time.monotonic() > deadline:
                    raise SparkError(str(error)) from None
                time.sleep(AGAIN_SECONDS)

    def _rows(self, part: TaskRange, start: int) -> Iterator[list[MessageExt]]:
        """Messages in groups that are worth a batch."""
        queue = _queue(part.source, part.partition)
        with _reader(self._options) as reader:
            if queue not in reader.queues(queue.topic):
                raise SparkError(f"{queue} does not exist: it was deleted, or never created")
            rows: list[MessageExt] = []
            for found in reader.read(queue, start, part.end):
                rows += found
                if len(rows) >= ROWS:
                    yield rows
                    rows = []
            if rows:
                yield rows


def _queue(source: str, partition: int) -> MessageQueue:
    topic, _, broker = source.rpartition("@")
    return MessageQueue(topic, broker, partition)


# -- connections -----------------------------------------------------------------------------------


def servers_of(url: str) -> tuple[str, str, str]:
    """Name servers, access key and secret of rocketmq://[key:secret@]host[:port][,host...]."""
    netloc = urlsplit(url).netloc
    login, _, hosts = netloc.rpartition("@")
    key, _, secret = login.partition(":")
    addresses = [_with_port(host) for host in hosts.replace(";", ",").split(",") if host]
    if not addresses:
        raise BadOption("url: rocketmq://host:9876 names no name server")
    return ";".join(addresses), unquote(key), unquote(secret)


def _with_port(host: str) -> str:
    has_port = ":" in host.rpartition("]")[2]
    return host if has_port else f"{host}:{DEFAULT_PORT}"


def _reader(options: ReadOptions) -> QueueReader:
    servers, key, secret = servers_of(options.url)
    group = options.group or GROUP
    try:
        return QueueReader(
            servers,
            group=group,
            access_key=key,
            secret_key=secret,
            tls=options.url.startswith("rocketmqs:"),
        )
    except ConfigurationError as error:
        raise BadOption(f"url or group: {error}") from None


def _with_retries(options: ReadOptions, work: Callable[[QueueReader], T]) -> T:
    """Run ``work`` with a reader; a stream retries while brokers are unreachable."""

    def attempt() -> T:
        with _reader(options) as reader:
            return work(reader)

    try:
        return retried(options.patience, attempt, RemotingError)
    except RocketMQError as error:
        raise SparkError(str(error)) from None


# -- what there is ---------------------------------------------------------------------------------


def _sources(reader: QueueReader, topic: str, time_ms: int | None) -> Iterator[ReadableSource]:
    for broker, queues in groupby(reader.queues(topic), key=lambda queue: queue.broker_name):
        ranges, at_time = {}, {}
        for queue in queues:
            first = reader.min_offset(queue)
            ranges[queue.queue_id] = ReadableRange(first, reader.max_offset(queue), first)
            if time_ms is not None:
                at_time[queue.queue_id] = reader.offset_by_time(queue, time_ms)
        priorities = dict.fromkeys(ranges, PRIORITY)
        # RocketMQ topics have no id: a topic that was created again shows by its lower end.
        yield ReadableSource("topic", f"{topic}@{broker}", "", ranges, priorities, at_time)


# -- rows ------------------------------------------------------------------------------------------


def _batch(rows: Sequence[MessageExt], columns: Sequence[str], part: TaskRange) -> pa.RecordBatch:
    made = [_column(name, rows, part).cast(COLUMNS[name]) for name in columns]
    return pa.RecordBatch.from_arrays(made, schema=schema_of(columns))


def _column(name: str, rows: Sequence[MessageExt], part: TaskRange) -> pa.Array:
    kind = COLUMNS[name]
    if name in ("source", "priority"):
        return pa.repeat(pa.scalar(part.source if name == "source" else PRIORITY), len(rows))
    value = _VALUES.get(name)
    if value is None:
        return pa.nulls(len(rows), kind)
    if name in ("timestamp", "born"):
        kind = pa.timestamp("ms", tz="UTC")
    return pa.array([value(one) for one in rows], kind)


def _properties(message: MessageExt) -> list[tuple[str, str]]:
    return [one for one in message.properties.items() if one[0] not in _OWN_COLUMNS]


_VALUES: dict[str, Callable[[MessageExt], object]] = {
    "partition": lambda one: one.queue_id,
    "offset": lambda one: one.queue_offset,
    "timestamp": lambda one: one.store_timestamp,
    "born": lambda one: one.born_timestamp,
    "key": lambda one: one.properties.get("KEYS"),
    "tags": lambda one: one.properties.get("TAGS"),
    "message_id": lambda one: one.msg_id,
    "properties": _properties,
    "body": lambda one: one.body,
}
