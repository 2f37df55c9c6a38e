"""Bulk reads by offset: the readable ranges of queues and topics, and the reads."""

from __future__ import annotations

import os
from array import array
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from headrace.bulk.columns import COLUMNS
from headrace.bulk.read_plan import FetchRequest, ReadPlan
from headrace.core.access.user import is_loopback
from headrace.core.spark_support.pins import PinTarget
from headrace.core.topics.async_engine import EngineReply, Then, collect
from headrace.errors import (
    BrokerError,
    DataLost,
    NotFound,
    PreconditionFailed,
    SourceChanged,
    StoreError,
    Unsupported,
)
from headrace.model.epochs import end_of_epoch
from headrace.model.permissions import READ
from headrace.model.topics.partitions import partition_of
from headrace.server.native import engine_bulk
from headrace.server.native.channel import Channel
from headrace.server.native.session import Handler, Session
from headrace.store.api.message_log import MessageLog, SegmentFile
from headrace.wire.native.payloads import Op, Request

MAX_DESTINATIONS = 1000
BOOT_ID = "/proc/sys/kernel/random/boot_id"  # of this machine since it started


class _BulkSource(NamedTuple):
    """Something whose messages have offsets."""

    held: PinTarget
    lanes: Mapping[int, str]  # by partition


def source_of(session: Session, request: Request) -> _BulkSource:
    """The queue or topic of a request, if the user may read it and its messages are stored."""
    vhost = session.open_vhost
    if "topic" in request.fields:
        name = request.name("topic")
        session.check(READ, "topic", f"topic.{name}")
        topic = vhost.topics.log.get(name)
        numbers = topic.numbers_by_partition_id()
        lanes = {one: partition_of(one, topic.queues).priority.label for one in numbers}
        return _BulkSource(PinTarget("topic", name, topic.uuid, numbers), lanes)
    name = request.name("queue")
    session.check(READ, "queue", name)
    queue = vhost.queues.get(name)
    if queue is None:
        raise NotFound(f"no queue '{name}' in vhost '{vhost.name}'")
    if queue.number is None:
        raise PreconditionFailed(
            f"queue '{name}' is not durable: its messages are not stored and have no offsets"
        )
    return _BulkSource(PinTarget("queue", name, queue.uuid, {0: queue.number}), {0: "middle"})


def _log(session: Session) -> MessageLog:
    log = session.broker.storage.log
    if log is None:
        raise PreconditionFailed("this broker has no storage")
    return log


def check_uuid(held: PinTarget, uuid: str) -> None:
    if uuid != held.uuid:
        raise SourceChanged(
            f"{held.kind} '{held.name}' was deleted and created again: these are not the messages "
            "you mean"
        )


# -- bounds -------------------------------------------------------------------------------------


def _bounds(session: Session, channel: Channel, request: Request) -> None:
    wanted = request.maps("destinations")
    if len(wanted) > MAX_DESTINATIONS:
        raise PreconditionFailed(f"at most {MAX_DESTINATIONS} destinations at once")
    time = request.whole("time", 0)

    def stored(then: Then[list[dict[str, object]]]) -> None:
        """Those in the log."""
        try:
            then(EngineReply([_row(session, one, time) for one in asked if one not in elsewhere]))
        except BrokerError as error:
            then(EngineReply(error=error))

    def done(answer: EngineReply[list[dict[str, object]]]) -> None:
        if session.closed or channel.closing:
            return
        if answer.error is not None:
            session.refuse(request, answer.error)
        else:
            session.respond(request, rows=answer.value)

    more = {"rid": 0, "time": time, "patience_ms": request.whole("patience_ms", 0)}
    asked = [Request(request.kind, {**one, **more}) for one in wanted]
    found = [(one, engine_bulk.engine_of(session, one)) for one in asked]
    elsewhere = [one for one, engine in found if engine is not None]
    calls = [
        partial(engine_bulk.bounds, engine, one) for one, engine in found if engine is not None
    ]
    # What weaker levels have confirmed is readable with the next sync, not before.
    session.broker.storage.when_synced(lambda: collect([stored, *calls], done))


def _row(session: Session, request: Request, time: int) -> dict[str, object]:
    held, lanes = source_of(session, request)
    log, synced = _log(session), session.broker.storage.synced
    parts = []
    for partition, number in sorted(held.numbers.items()):
        bounds = log.reads.readable_range(number, synced)
        at_time = min(log.reads.first_at(number, time), bounds.end) if time else None
        parts.append(
            [
                lanes[partition],
                partition,
                bounds.first,
                bounds.complete,
                bounds.end,
                bounds.first_time,
                bounds.last_time,
                at_time,
            ]
        )
    epochs = {str(one): [*map(list, log.reads.epochs(held.numbers[one]))] for one in held.numbers}
    return {
        "kind": held.kind,
        "name": held.name,
        "uuid": held.uuid,
        "parts": parts,
        "epochs": epochs,
    }


def check_seen(
    session: Session, held: PinTarget, partition: int, offset: int, epoch: int | None
) -> None:
    """DataLost when a reader has seen more than this log has of the reader's epoch.

    A reader that names no epoch is only known to be wrong when it is behind the last message.
    """
    log, number = _log(session), held.numbers[partition]
    end = None if epoch is None else end_of_epoch(log.reads.epochs(number), epoch)
    if end is None:
        end = log.reads.readable_range(number, session.broker.storage.synced).end
    if offset > end:
        raise DataLost(
            f"{held.kind} '{held.name}' partition {partition}: you have seen messages up to "
            f"offset {offset - 1}, and of these the log has only those before {end}: it was "
            "restored from a backup, or has lost messages"
        )


# -- fetch --------------------------------------------------------------------------------------


def _fetch(session: Session, channel: Channel, request: Request, is_second: bool = False) -> None:
    engine = engine_bulk.engine_of(session, request)
    if engine is not None:
        engine_bulk.fetch(session, engine, request, _columns(request))
        return
    plan, segments = _plan(session, request)
    assert request.ch is not None
    order = FetchRequest(request.rid, request.ch, plan, request.kind)
    again = None if is_second else lambda: _fetch(session, channel, request, is_second=True)
    with ExitStack() as lent:
        try:
            files = [lent.enter_context(one.descriptor()) for one in segments]
        except OSError as error:
            raise StoreError(f"the messages cannot be read now: {error}") from error
        session.fetch(order, files, again)


def _records(session: Session, channel: Channel, request: Request) -> None:
    """Whole records of one destination, or with ``count`` what the index knows about them.

    The positions come from the index, never from the reader.
    """
    if engine_bulk.engine_of(session, request) is not None:
        raise Unsupported("the topic is in a database: fetch the messages")
    if not request.flag("count"):
        _fetch(session, channel, request)
        return
    plan, _ = _plan(session, request)
    ranges = [(array("Q", one.low_offsets), array("Q", one.high_offsets)) for one in plan.pieces]
    found = [(lows, highs) for lows, highs in ranges if lows]
    session.respond(
        request,
        next=plan.next,
        messages=sum(sum(highs) - sum(lows) for lows, highs in found),
        first=found[0][0][0] if found else 0,
        last=found[-1][1][-1] - 1 if found else 0,
    )


def _locate(session: Session, channel: Channel, request: Request) -> None:
    """The same for a reader on this machine that may open our files: it needs no help then.

    It gets names only; file permissions decide whether it may read them.
    """
    if not is_loopback(session.transport.peer_host):
        raise Unsupported("files are named only to readers on the broker's own machine")
    if engine_bulk.engine_of(session, request) is not None:
        raise Unsupported("the topic is in a database: fetch the messages")
    plan, segments = _plan(session, request)  # checks the permission first
    if not request.flag("seeds"):
        raise Unsupported("this reader does not know the sums of the files: fetch the messages")
    try:
        files = [_file(one) for one in segments]
        boot = Path(BOOT_ID).read_text().strip()
    except OSError as error:
        raise Unsupported(f"the files cannot be named here: {error}") from None
    session.respond(request, job=plan.encode(), files=files, boot=boot)


def _file(file: SegmentFile) -> list[object]:
    """Path, device and inode of a file, which identify it."""
    with file.descriptor() as fd:
        known = os.fstat(fd)
        return [os.readlink(f"/proc/self/fd/{fd}"), known.st_dev, known.st_ino]


def _columns(request: Request) -> tuple[str, ...]:
    columns = tuple(request.texts("columns")) or tuple(COLUMNS)
    unknown = [name for name in columns if name not in COLUMNS]
    if unknown:
        raise PreconditionFailed(
            f"unknown column '{unknown[0]}'; expected some of {', '.join(COLUMNS)}"
        )
    return columns


def _plan(session: Session, request: Request) -> tuple[ReadPlan, list[SegmentFile]]:
    """What the request wants to read, as far as one answer goes."""
    columns = _columns(request)
    start, end, partition = (request.whole(name, 0) for name in ("start", "end", "partition"))
    held, lanes = source_of(session, request)
    check_uuid(held, request.text("uuid", held.uuid))
    number = held.numbers.get(partition)
    if number is None:
        raise NotFound(f"{held.kind} '{held.name}' has no partition {partition}")
    log, synced = _log(session), session.broker.storage.synced
    if request.flag("complete"):
        _check_complete(held, partition, start, log.reads.readable_range(number, synced).complete)
    epoch = request.whole("epoch") if "epoch" in request.fields else None
    check_seen(session, held, partition, start if epoch is None else end, epoch)
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


HANDLERS: dict[int, Handler] = {
    Op.BOUNDS: _bounds,
    Op.FETCH: _fetch,
    Op.LOCATE: _locate,
    Op.RECORDS: _records,
}
