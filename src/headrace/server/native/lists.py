"""Lists of what is in the vhost, page by page; everybody sees what they may use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from headrace.core.queues.queue import Queue
from headrace.core.spark_support.pins import lag_of
from headrace.core.vhost import Vhost
from headrace.errors import PreconditionFailed
from headrace.model.permissions import CONFIGURE, READ, WRITE
from headrace.server.native.channel import Channel
from headrace.server.native.topic_lists import list_groups, list_topics
from headrace.server.native.topics import EXCHANGE_PREFIX
from headrace.wire.native.payloads import Op, Request

if TYPE_CHECKING:
    from headrace.server.native.session import Handler, Session

PAGE = 1000
Row = tuple[str, dict[str, object]]  # the name that decides who may see it, the row


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
                "consumers": len(queue.dealer),
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
        for consumer in queue.dealer:
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
        lag = lag_of(vhost, pin)
        yield (
            pin.name if pin.kind == "queue" else EXCHANGE_PREFIX + pin.name,
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
    "pins": _pins,
}


def _list(session: Session, channel: Channel, request: Request) -> None:
    kind = request.text("kind")
    if kind == "topics":
        list_topics(session, channel, request, _show)
        return
    if kind == "groups":
        list_groups(session, channel, request, _show)
        return
    rows_of = _KINDS.get(kind)
    if rows_of is None:
        raise PreconditionFailed(f"kind must be one of {', '.join(_KINDS)}, topics, groups")
    _show(session, request, rows_of(session.open_vhost))


def _show(session: Session, request: Request, found: Iterable[Row]) -> None:
    """One page of what the user may see."""
    page = request.whole("page", 0)
    allowed = session.user.permissions[session.open_vhost.name]
    rows = [
        row
        for name, row in found
        if any(allowed.allows(action, name) for action in (CONFIGURE, WRITE, READ))
    ]
    end = (page + 1) * PAGE
    session.respond(request, rows=rows[page * PAGE : end], more=len(rows) > end)


HANDLERS: dict[int, Handler] = {Op.LIST: _list}
