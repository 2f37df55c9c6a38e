"""Bulk reads by offset: the readable ranges of queues and topics, and the reads."""

from __future__ import annotations

import os
from array import array
from functools import partial
from pathlib import Path

from headrace.bulk.read_plan import FetchRequest
from headrace.core.access.user import is_loopback
from headrace.core.topics.async_engine import EngineReply, Then, collect
from headrace.errors import BrokerError, PreconditionFailed, Unsupported
from headrace.model.selectors.parser import parse
from headrace.model.selectors.syntax_tree import encoded
from headrace.server.bulk_plan import columns_of, lent, log_of, plan_of, source_of
from headrace.server.native import engine_bulk
from headrace.server.native.channel import Channel
from headrace.server.native.session import Handler, Session
from headrace.server.native.topics import answer_with
from headrace.store.api.message_log import SegmentFile
from headrace.wire.native.payloads import Op, Request

MAX_DESTINATIONS = 1000
BOOT_ID = "/proc/sys/kernel/random/boot_id"  # of this machine since it started


# -- bounds -------------------------------------------------------------------------------------


def _bounds(session: Session, channel: Channel, request: Request) -> None:
    wanted = request.maps("destinations")
    if len(wanted) > MAX_DESTINATIONS:
        raise PreconditionFailed(f"at most {MAX_DESTINATIONS} destinations at once")
    time = request.whole("time", 0)
    selector = request.text("selector", "")
    more: dict[str, object] = {"selector": encoded(parse(selector))} if selector else {}

    def stored(then: Then[list[dict[str, object]]]) -> None:
        """Those in the log."""
        try:
            then(EngineReply([_row(session, one, time) for one in asked if one not in elsewhere]))
        except BrokerError as error:
            then(EngineReply(error=error))

    each = {"rid": 0, "time": time, "patience_ms": request.whole("patience_ms", 0)}
    asked = [Request(request.kind, {**one, **each}) for one in wanted]
    found = [(one, engine_bulk.engine_of(session, one)) for one in asked]
    elsewhere = [one for one, engine in found if engine is not None]
    calls = [
        partial(engine_bulk.bounds, engine, one) for one, engine in found if engine is not None
    ]
    # What weaker levels have confirmed is readable with the next sync, not before.
    then: Then[list[dict[str, object]]] = answer_with(
        session, channel, request, lambda rows: {"rows": rows, **more}
    )
    session.broker.storage.when_synced(lambda: collect([stored, *calls], then))


def _row(session: Session, request: Request, time: int) -> dict[str, object]:
    held, lanes = source_of(session, request)
    log, synced = log_of(session), session.broker.storage.synced
    parts = []
    for partition, number in sorted(held.numbers.items()):
        bounds = log.reads.readable_range(number, synced)
        at_time = min(log.reads.first_at(number, time), bounds.end) if time else None
        parts.append(engine_bulk.part_fields(lanes[partition], partition, bounds, at_time))
    epochs = {str(one): [*map(list, log.reads.epochs(held.numbers[one]))] for one in held.numbers}
    known = {"kind": held.kind, "name": held.name, "uuid": held.uuid}
    return {**known, "parts": parts, "epochs": epochs}


# -- fetch --------------------------------------------------------------------------------------


def _fetch(session: Session, channel: Channel, request: Request, is_second: bool = False) -> None:
    engine = engine_bulk.engine_of(session, request)
    if engine is not None:
        engine_bulk.fetch(session, engine, request, columns_of(request))
        return
    plan, segments = plan_of(session, request)
    assert request.ch is not None
    client = session.direct_descriptor() if request.flag("direct") else None
    direct = [] if client is None else [client]
    order = FetchRequest(request.rid, request.ch, plan, request.kind, is_direct=bool(direct))
    again = None if is_second else lambda: _fetch(session, channel, request, is_second=True)
    with lent(segments) as files:
        session.fetch(order, direct + files, again)


def _records(session: Session, channel: Channel, request: Request) -> None:
    """Whole records of one destination, or with ``count`` what the index knows about them.

    The positions come from the index, never from the reader.
    """
    if engine_bulk.engine_of(session, request) is not None:
        raise Unsupported("the topic is in a database: fetch the messages")
    if not request.flag("count"):
        _fetch(session, channel, request)
        return
    plan, _ = plan_of(session, request)
    ranges = [(array("Q", one.low_offsets), array("Q", one.high_offsets)) for one in plan.pieces]
    found = [(lows, highs) for lows, highs in ranges if lows]
    session.respond(
        request,
        next=plan.next,
        messages=plan.messages,
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
    plan, segments = plan_of(session, request)  # checks the permission first
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


HANDLERS: dict[int, Handler] = {
    Op.BOUNDS: _bounds,
    Op.FETCH: _fetch,
    Op.LOCATE: _locate,
    Op.RECORDS: _records,
}
