"""Lists of the resources of a vhost, page by page; a user sees what it has permissions for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from headrace.core.queues.queue import Queue
from headrace.core.topics.async_engine import EngineReply, Then, collect
from headrace.core.topics.exchange_bridge import topic_exchange_name
from headrace.core.vhost import Vhost
from headrace.errors import EngineUnavailable, NoSuchTopic, PreconditionFailed
from headrace.model.permissions import CONFIGURE, READ, WRITE
from headrace.server.native.channel import Channel
from headrace.server.native.engine_bulk import list_pins
from headrace.server.native.session import Handler, Session
from headrace.server.native.topic_fields import group_fields, topic_fields
from headrace.server.native.topics import limit_of
from headrace.store.topics.types import GroupInfo, TopicInfo
from headrace.wire.native.payloads import Op, Request

PAGE = 1000
Row = tuple[str, dict[str, object]]  # the name whose permissions decide, the row
_GONE = (NoSuchTopic, EngineUnavailable)  # deleted since listed, or its database is unreachable


def _queues(vhost: Vhost) -> Iterator[Row]:
    for name, queue in sorted(vhost.queues.items()):
        yield (
            name,
            {
                "name": name,
                "durable": queue.durable,
                "exclusive": queue.owner is not None,
                "auto_delete": queue.auto_delete,
                "arguments": queue.arguments,
                "messages": queue.backlog.count,
                "messages_unacknowledged": queue.unacked,
                "consumers": len(queue.consumers),
            },
        )


def _exchanges(vhost: Vhost) -> Iterator[Row]:
    for name, exchange in sorted(vhost.exchanges.items()):
        yield (
            name,
            {
                "name": name,
                "type": exchange.kind,
                "durable": exchange.durable,
                "auto_delete": exchange.auto_delete,
                "internal": exchange.internal,
                "arguments": exchange.arguments,
            },
        )


def _bindings(vhost: Vhost) -> Iterator[Row]:
    for source, exchange in sorted(vhost.exchanges.items()):
        for binding in exchange.bindings:
            to_queue = isinstance(binding.target, Queue)
            yield (
                source,
                {
                    "source": source,
                    "destination": binding.target.name,
                    "destination_type": "queue" if to_queue else "exchange",
                    "key": binding.key,
                    "arguments": binding.arguments,
                },
            )


def _consumers(vhost: Vhost) -> Iterator[Row]:
    for name, queue in sorted(vhost.queues.items()):
        for consumer in queue.consumers:
            yield (
                name,
                {
                    "queue": name,
                    "consumer_tag": consumer.tag,
                    "prefetch": consumer.prefetch,
                    "ack_required": not consumer.no_ack,
                },
            )


def _pins(vhost: Vhost) -> Iterator[Row]:
    for pin in sorted(vhost.pins, key=lambda pin: (pin.query, pin.kind, pin.name)):
        lag = vhost.pins.lag_of(pin)
        yield (
            pin.name if pin.kind == "queue" else topic_exchange_name(pin.name),
            {
                "query": pin.query,
                "kind": pin.kind,
                "name": pin.name,
                "uuid": pin.uuid,
                "positions": dict(pin.positions),
                "max_bytes": pin.max_bytes,
                "updated_at": pin.updated_at,
                "lost": pin.lost,
                "messages": sum(one.messages for one in lag),
            },
        )


_KINDS: dict[str, Callable[[Vhost], Iterator[Row]]] = {
    "queues": _queues,
    "exchanges": _exchanges,
    "bindings": _bindings,
    "consumers": _consumers,
}


def _list_topics(session: Session, channel: Channel, request: Request) -> None:
    def then(answer: EngineReply[list[TopicInfo]]) -> None:
        if session.closed or channel.closing:
            return
        if answer.error is not None:
            session.refuse(request, answer.error)
            return
        found = sorted(answer.value or (), key=lambda info: info.name)
        _show(
            session,
            request,
            [
                (topic_exchange_name(info.name), topic_fields(info, limit_of(session, info.engine)))
                for info in found
            ],
        )

    session.open_vhost.topics.infos(then)


def _list_groups(session: Session, channel: Channel, request: Request) -> None:
    """Of one topic, or of all."""
    topics = session.open_vhost.topics
    wanted = request.text("topic", "")
    names = [wanted] if wanted else topics.names()

    def then(answer: EngineReply[list[Row]]) -> None:
        if session.closed or channel.closing:
            return
        if answer.error is not None:
            session.refuse(request, answer.error)
        else:
            _show(session, request, answer.value or ())

    def rows_of(name: str, then: Then[list[Row]]) -> None:
        def found(answer: EngineReply[list[GroupInfo]]) -> None:
            rows = [
                (topic_exchange_name(name), group_fields(name, one)) for one in answer.value or ()
            ]
            is_one_of_many = not wanted and isinstance(answer.error, _GONE)
            then(EngineReply(rows, None if is_one_of_many else answer.error))

        try:
            topics.engine_of(name).submit(lambda engine: engine.groups(name), found)
        except _GONE as error:
            found(EngineReply(error=error))

    collect([partial(rows_of, name) for name in names], then)


def _list_pins(session: Session, channel: Channel, request: Request) -> None:
    def then(answer: EngineReply[list[Row]]) -> None:
        if session.closed or channel.closing:
            return
        if answer.error is not None and not isinstance(answer.error, _GONE):
            session.refuse(request, answer.error)
        else:
            _show(session, request, [*_pins(session.open_vhost), *(answer.value or ())])

    list_pins(session, then)


def _list(session: Session, channel: Channel, request: Request) -> None:
    kind = request.text("kind")
    if kind == "topics":
        _list_topics(session, channel, request)
        return
    if kind == "groups":
        _list_groups(session, channel, request)
        return
    if kind == "pins":
        _list_pins(session, channel, request)
        return
    if kind == "vhosts":
        known = session.broker.vhosts
        _page(
            session,
            request,
            [{"name": one} for one in sorted(session.user.permissions) if one in known],
        )
        return
    rows_of = _KINDS.get(kind)
    if rows_of is None:
        kinds = ", ".join(_KINDS)
        raise PreconditionFailed(f"kind must be one of {kinds}, topics, groups, pins, vhosts")
    _show(session, request, rows_of(session.open_vhost))


def _show(session: Session, request: Request, found: Iterable[Row]) -> None:
    """Respond with one page of the rows that the user may see."""
    allowed = session.user.permissions[session.open_vhost.name]
    rows = [
        row
        for name, row in found
        if any(allowed.allows(action, name) for action in (CONFIGURE, WRITE, READ))
    ]
    _page(session, request, rows)


def _page(session: Session, request: Request, rows: list[dict[str, object]]) -> None:
    """One page of all rows, or of those with the name in the request."""
    page = request.whole("page", 0)
    if "name" in request.fields:
        wanted = request.text("name")
        rows = [row for row in rows if row.get("name") == wanted]
    end = (page + 1) * PAGE
    session.respond(request, rows=rows[page * PAGE : end], more=len(rows) > end)


HANDLERS: dict[int, Handler] = {Op.LIST: _list}
