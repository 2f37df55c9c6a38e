"""Bulk reads and pins of topics in engines besides the log: ranges of ids of a database."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from headrace.bulk.columns import selected
from headrace.bulk.read_plan import ROWS_PER_QUERY, FetchRequest, SqlPlan
from headrace.core.topics.async_engine import AsyncTopicEngine, EngineReply, Then, collect
from headrace.core.topics.exchange_bridge import topic_exchange_name
from headrace.errors import AccessRefused, BrokerError, NotFound, PreconditionFailed, SourceChanged
from headrace.model.permissions import READ
from headrace.model.readable_range import ReadableRange
from headrace.model.topics.message_priority import Priority
from headrace.server.native.session import Session
from headrace.store.topics.engine import BulkEngine, TopicEngine
from headrace.store.topics.types import RangeQuery
from headrace.wire.native.payloads import Request

T = TypeVar("T")
Row = tuple[str, dict[str, object]]  # the name whose permissions decide, the row
MAX_PATIENCE_MS = 30_000


def engine_of(session: Session, request: Request) -> AsyncTopicEngine | None:
    """The engine that has the topic of a request; None for queues and topics of the log."""
    if "topic" not in request.fields:
        return None
    name, topics = request.name("topic"), session.open_vhost.topics
    session.check(READ, "topic", topic_exchange_name(name))
    return None if name in topics.log.by_name else topics.engine_of(name)


def _bulk(engine: TopicEngine) -> BulkEngine:
    if not isinstance(engine, BulkEngine):
        raise PreconditionFailed(
            f"topics of engine '{engine.name}' cannot be read by offset: it is not a database"
        )
    return engine


def part_fields(lane: str, partition: int, its: ReadableRange, at_time: int | None) -> list[object]:
    """What can be read of one partition, in the order of the protocol."""
    times = (its.first_time, its.last_time, at_time)
    return [lane, partition, its.first, its.complete, its.end, *times]


def bounds(engine: AsyncTopicEngine, request: Request, then: Then[list[dict[str, object]]]) -> None:
    """The row of a topic, as of one in the log."""
    name, time = request.name("topic"), request.whole("time", 0) or None
    patience = min(request.whole("patience_ms", 0), MAX_PATIENCE_MS) / 1000

    def call(one: TopicEngine) -> list[dict[str, object]]:
        found = _bulk(one).bulk.ranges(name, time, patience)
        parts = [
            part_fields(priority.label, int(priority), its, found.at_time.get(priority))
            for priority, its in found.ranges.items()
        ]
        row = {"kind": "topic", "name": name, "uuid": found.uuid, "parts": parts, "epochs": {}}
        return [{**row, "gap": found.gap}]

    engine.submit(call, then)


def fetch(
    session: Session, engine: AsyncTopicEngine, request: Request, columns: Sequence[str]
) -> None:
    """Select a range in the fetch process."""
    name, uuid = request.name("topic"), request.text("uuid")
    start, end = request.whole("start", 0), request.whole("end", 0)
    partition = request.whole("partition", 0)
    if partition not in [*Priority]:
        raise NotFound(f"topic '{name}' has no partition {partition}")
    priority = Priority(partition)
    end = min(end, start + ROWS_PER_QUERY)

    def call(one: TopicEngine) -> RangeQuery:
        return _bulk(one).bulk.query(name, priority, start, end, selected(columns))

    def then(answer: EngineReply[RangeQuery]) -> None:
        if session.closed:
            return
        if answer.value is None:
            session.refuse(request, answer.error or NotFound(name))
            return
        query = answer.value
        plan = SqlPlan(
            name, partition, priority.label, columns, end, uuid, query.url, query.rows, query.uuid
        )
        assert request.ch is not None
        try:
            session.fetch(FetchRequest(request.rid, request.ch, plan), [], None)
        except BrokerError as error:
            session.refuse(request, error)

    engine.submit(call, then)


# -- pins ---------------------------------------------------------------------------------------


def pin(
    engine: AsyncTopicEngine, query: str, request: Request, offsets: Mapping[int, int]
) -> Callable[[Then[list[None]]], None]:
    """The call that pins a topic from these offsets on."""
    name, uuid = request.name("topic"), request.text("uuid")
    before = {Priority(partition): at - 1 for partition, at in offsets.items()}

    def call(one: TopicEngine) -> list[None]:
        if one.uuids().get(name) != uuid:
            raise SourceChanged(
                f"topic '{name}' was deleted and created again: these are not the messages you mean"
            )
        _bulk(one).pins.pin(name, query, before, before)
        return []

    return partial(engine.submit, call)


def list_pins(session: Session, then: Then[list[Row]]) -> None:
    """The pins in all engines."""

    def call(one: TopicEngine) -> list[Row]:
        if not isinstance(one, BulkEngine):
            return []
        rows: list[Row] = []
        uuids = one.uuids()
        for found in one.pins.pins():
            ends = one.bulk.ranges(found.topic, None, 0.0).ranges
            behind = (ends[lane].end - 1 - at for lane, at in found.positions.items())
            row = {
                "query": found.query,
                "kind": "topic",
                "name": found.topic,
                "uuid": uuids.get(found.topic, ""),
                "positions": {str(int(lane)): at + 1 for lane, at in found.positions.items()},
                "max_bytes": 0,
                "updated_at": found.updated_at,
                "lost": False,
                "messages": sum(max(0, count) for count in behind),
            }
            rows.append((topic_exchange_name(found.topic), row))
        return rows

    _collect(session, call, then)


def unpin(session: Session, query: str, then: Then[list[str]]) -> None:
    """Remove the pins of a query in all engines; the topics that had one."""
    allowed = session.user.permissions[session.open_vhost.name]

    def call(one: TopicEngine) -> list[str]:
        if not isinstance(one, BulkEngine):
            return []
        names = [found.topic for found in one.pins.pins() if found.query == query]
        refused = [name for name in names if not allowed.allows(READ, topic_exchange_name(name))]
        if refused:
            raise AccessRefused(f"read access to topic '{refused[0]}' refused")
        for name in names:
            one.pins.unpin(name, query)
        return names

    _collect(session, call, then)


def _collect(session: Session, call: Callable[[TopicEngine], list[T]], then: Then[list[T]]) -> None:
    """Make the call on each engine, one after the other."""
    engines = session.open_vhost.topics.engines.values()
    collect([partial(engine.submit, call) for engine in engines], then)
