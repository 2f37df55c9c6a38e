"""Lists of what is in the vhost, page by page; everybody sees what they may use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from headrace.core.queue import Queue
from headrace.core.vhost import Vhost
from headrace.errors import PreconditionFailed, Unsupported
from headrace.model.permissions import CONFIGURE, READ, WRITE
from headrace.server.native.channel import Channel
from headrace.wire.native.messages import Op, Request

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
        for binding in exchange.bindings.values():
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


_KINDS: dict[str, Callable[[Vhost], Iterator[Row]]] = {
    "queues": _queues,
    "exchanges": _exchanges,
    "bindings": _bindings,
    "consumers": _consumers,
}


def _list(session: Session, channel: Channel, request: Request) -> None:
    kind, page = request.text("kind"), request.whole("page", 0)
    if kind in ("topics", "groups"):
        raise Unsupported(f"this broker has no {kind}")
    rows_of = _KINDS.get(kind)
    if rows_of is None:
        raise PreconditionFailed(f"kind must be one of {', '.join(_KINDS)}")
    vhost = session.open_vhost
    allowed = session.user.permissions[vhost.name]
    rows = [
        row
        for name, row in rows_of(vhost)
        if any(allowed.allows(action, name) for action in (CONFIGURE, WRITE, READ))
    ]
    end = (page + 1) * PAGE
    session.respond(request, rows=rows[page * PAGE : end], more=len(rows) > end)


HANDLERS: dict[int, Handler] = {Op.LIST: _list}
