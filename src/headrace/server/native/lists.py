"""Lists of the resources of a vhost, page by page; a user sees what it has permissions for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial

from headrace.core.exchange import destination_type
from headrace.core.topics.async_engine import EngineReply, Then, collect
from headrace.core.topics.exchange_bridge import topic_exchange_name
from headrace.core.vhost import Vhost
from headrace.errors import EngineUnavailable, NoSuchTopic, PreconditionFailed
from headrace.model.permissions import CONFIGURE, READ, WRITE
from headrace.server.native.channel import Channel
from headrace.server.native.engine_bulk import list_pins
from headrace.server.native.session import Handler, Session
from headrace.server.native.topic_fields import group_fields, topic_fields
from headrace.server.native.topics import answer_with, limit_of
from headrace.store.topics.types import GroupInfo, TopicInfo
from headrace.wire.native.payloads import Op, Request

PAGE = 1000
Row = tuple[str, dict[str, object]]  # the name whose permissions decide, the row
_GONE = (NoSuchTopic, EngineUnavailable)  # deleted since listed, or its database is unreachable


def _queues(vhost: Vhost) -> Iterator[Row]:
    for name, queue in sorted(vhost.queues.items()):
        row = {
            "name": name,
            "durable": queue.durable,
            "exclusive": queue.owner is not None,
            "auto_delete": queue.auto_delete,
            "arguments": queue.arguments,
            "messages": queue.backlog.count,
            "messages_unacknowledged": queue.unacked,
            "consumers": len(queue.consumers),
        }
        yield name, row


def _exchanges(vhost: Vhost) -> Iterator[Row]:
    for name, exchange in sorted(vhost.exchanges.items()):
        yield name, exchange.declaration()


def _bindings(vhost: Vhost) -> Iterator[Row]:
    for source, exchange in sorted(vhost.exchanges.items()):
        for binding in exchange.bindings:
            row: dict[str, object] = {
                "source": source,
                "destination": binding.target.name,
                "destination_type": destination_type(binding.target),
                "key": binding.key,
                "arguments": binding.arguments,
            }
            yield source, row


def _consumers(vhost: Vhost) -> Iterator[Row]:
    for name, queue in sorted(vhost.queues.items()):
        for consumer in queue.consumers:
            row = {
                "queue": name,
                "consumer_tag": consumer.tag,
                "prefetch": consumer.prefetch,
                "ack_required": not consumer.no_ack,
            }
            yield name, row


def _pins(vhost: Vhost) -> Iterator[Row]:
    for pin in sorted(vhost.pins, key=lambda pin: (pin.query, pin.kind, pin.name)):
        row = asdict(pin)
        del row["vhost"]
        row["messages"] = sum(one.messages for one in vhost.pins.lag_of(pin))
        yield (pin.name if pin.kind == "queue" else topic_exchange_name(pin.name)), row


_KINDS: dict[str, Callable[[Vhost], Iterator[Row]]] = {
    "queues": _queues,
    "exchanges": _exchanges,
    "bindings": _bindings,
    "consumers": _consumers,
}


def _list_topics(session: Session, channel: Channel, request: Request) -> None:
    def page(found: list[TopicInfo]) -> dict[str, object]:
        rows = [
            (topic_exchange_name(info.name), topic_fields(info, limit_of(session, info.engine)))
            for info in sorted(found, key=lambda info: info.name)
        ]
        return _allowed(session, request, rows)

    session.open_vhost.topics.infos(answer_with(session, channel, request, page))


def _list_groups(session: Session, channel: Channel, request: Request) -> None:
    """Of one topic, or of all."""
    topics = session.open_vhost.topics
    wanted = request.text("topic", "")
    names = [wanted] if wanted else topics.names()

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

    then = answer_with(session, channel, request, partial(_allowed, session, request))
    collect([partial(rows_of, name) for name in names], then)


def _list_pins(session: Session, channel: Channel, request: Request) -> None:
    def page(found: list[Row]) -> dict[str, object]:
        return _allowed(session, request, [*_pins(session.open_vhost), *found])

    respond = answer_with(session, channel, request, page)
    list_pins(session, lambda answer: respond(
        EngineReply([]) if isinstance(answer.error, _GONE) else answer))  # fmt: skip


_LATER: dict[str, Handler] = {"topics": _list_topics, "groups": _list_groups, "pins": _list_pins}


def _list(session: Session, channel: Channel, request: Request) -> None:
    kind = request.text("kind")
    if kind in _LATER:
        _LATER[kind](session, channel, request)
    elif kind in _KINDS:
        page = _allowed(session, request, _KINDS[kind](session.open_vhost))
        session.respond(request, **page)
    elif kind == "vhosts":
        known = session.broker.vhosts
        names = [{"name": one} for one in sorted(session.user.permissions) if one in known]
        session.respond(request, **_page(request, names))
    else:
        kinds = ", ".join([*_KINDS, *_LATER])
        raise PreconditionFailed(f"kind must be one of {kinds}, vhosts")


def _allowed(session: Session, request: Request, found: Iterable[Row]) -> dict[str, object]:
    """One page of the rows that the user may see."""
    allowed = session.user.permissions[session.open_vhost.name]
    rows = [
        row
        for name, row in found
        if any(allowed.allows(action, name) for action in (CONFIGURE, WRITE, READ))
    ]
    return _page(request, rows)


def _page(request: Request, rows: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """One page of all rows, or of those with the name in the request."""
    page = request.whole("page", 0)
    if "name" in request.fields:
        wanted = request.text("name")
        rows = [row for row in rows if row.get("name") == wanted]
    end = (page + 1) * PAGE
    return {"rows": rows[page * PAGE : end], "more": len(rows) > end}


HANDLERS: dict[int, Handler] = {Op.LIST: _list}
