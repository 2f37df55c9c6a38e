"""Bulk reads of the log, whatever the protocol: what a user may read, and where it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple, Protocol

from headrace.bulk.columns import COLUMNS
from headrace.bulk.read_plan import ReadPlan
from headrace.core.broker import Broker
from headrace.core.spark_support.pins import PinTarget
from headrace.core.vhost import Vhost
from headrace.errors import DataLost, NotFound, PreconditionFailed, SourceChanged, StoreError
from headrace.model.log_epochs import end_of_epoch
from headrace.model.permissions import READ
from headrace.model.topics.partitions import partition_of
from headrace.store.api.message_log import MessageLog, SegmentFile
from headrace.wire.native.payloads import Request


class BulkReader(Protocol):
    """Who reads: a user in a vhost."""

    @property
    def broker(self) -> Broker: ...

    @property
    def open_vhost(self) -> Vhost: ...

    def check(self, action: str, kind: str, name: str) -> None:
        """Raise AccessRefused unless the user may do this."""


class BulkSource(NamedTuple):
    """Something whose messages have offsets."""

    held: PinTarget
    lanes: Mapping[int, str]  # by partition


def source_of(reader: BulkReader, request: Request) -> BulkSource:
    """The queue or topic of a request, if the user may read it and its messages are stored."""
    vhost = reader.open_vhost
    if "topic" in request.fields:
        name = request.name("topic")
        reader.check(READ, "topic", f"topic.{name}")
        topic = vhost.topics.log.get(name)
        numbers = topic.numbers_by_partition_id()
        lanes = {one: partition_of(one, topic.queues).priority.label for one in numbers}
        return BulkSource(PinTarget("topic", name, topic.uuid, numbers), lanes)
    name = request.name("queue")
    reader.check(READ, "queue", name)
    queue = vhost.queues.get(name)
    if queue is None:
        raise NotFound(f"no queue '{name}' in vhost '{vhost.name}'")
    if queue.number is None:
        raise PreconditionFailed(
            f"queue '{name}' is not durable: its messages are not stored and have no offsets"
        )
    return BulkSource(PinTarget("queue", name, queue.uuid, {0: queue.number}), {0: "middle"})


def log_of(reader: BulkReader) -> MessageLog:
    log = reader.broker.storage.log
    if log is None:
        raise PreconditionFailed("this broker has no storage")
    return log


def check_uuid(held: PinTarget, uuid: str) -> None:
    if uuid != held.uuid:
        raise SourceChanged(
            f"{held.kind} '{held.name}' was deleted and created again: these are not the messages "
            "you mean"
        )


def check_seen(
    reader: BulkReader, held: PinTarget, partition: int, offset: int, epoch: int | None
) -> None:
    """DataLost when a reader has seen more than this log has of the reader's epoch.

    A reader that names no epoch is only known to be wrong when it is behind the last message.
    """
    log, number = log_of(reader), held.numbers[partition]
    end = None if epoch is None else end_of_epoch(log.reads.epochs(number), epoch)
    if end is None:
        end = log.reads.readable_range(number, reader.broker.storage.synced).end
    if offset > end:
        raise DataLost(
            f"{held.kind} '{held.name}' partition {partition}: you have seen messages up to "
            f"offset {offset - 1}, and of these the log has only those before {end}: it was "
            "restored from a backup, or has lost messages"
        )


def columns_of(request: Request) -> tuple[str, ...]:
    columns = tuple(request.texts("columns")) or tuple(COLUMNS)
    unknown = [name for name in columns if name not in COLUMNS]
    if unknown:
        raise PreconditionFailed(
            f"unknown column '{unknown[0]}'; expected some of {', '.join(COLUMNS)}"
        )
    return columns


def plan_of(reader: BulkReader, request: Request) -> tuple[ReadPlan, list[SegmentFile]]:
    """What the request wants to read, as far as one answer goes."""
    columns = columns_of(request)
    start, end, partition = (request.whole(name, 0) for name in ("start", "end", "partition"))
    held, lanes = source_of(reader, request)
    check_uuid(held, request.text("uuid", held.uuid))
    number = held.numbers.get(partition)
    if number is None:
        raise NotFound(f"{held.kind} '{held.name}' has no partition {partition}")
    log, synced = log_of(reader), reader.broker.storage.synced
    if request.flag("complete"):
        _check_complete(held, partition, start, log.reads.readable_range(number, synced).complete)
    epoch = request.whole("epoch") if "epoch" in request.fields else None
    check_seen(reader, held, partition, start if epoch is None else end, epoch)
    found = log.reads.locate(number, start, end, synced)
    plan = ReadPlan(
        kind=held.kind,
        number=number,
        source=held.name,
        partition=partition,
        lane=lanes[partition],
        columns=columns,
        next=found.next_offset,
        pieces=tuple(one.map(bytes) for one in found.columns),
    )
    return plan, found.files


def _check_complete(held: PinTarget, partition: int, start: int, complete: int) -> None:
    if start < complete:
        raise DataLost(
            f"{held.kind} '{held.name}' partition {partition}: messages from offset {start} to "
            f"{complete - 1} were removed, at least some of them"
        )


@contextmanager
def lent(segments: Sequence[SegmentFile]) -> Iterator[list[int]]:
    """Descriptors of the segments."""
    with ExitStack() as files:
        try:
            found = [files.enter_context(one.descriptor()) for one in segments]
        except OSError as error:
            raise StoreError(f"the messages cannot be read now: {error}") from error
        yield found
