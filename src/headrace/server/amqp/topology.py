"""exchange.* and queue.*: declarations, deletions, bindings, with the permissions each needs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from headrace.core.exchange import DIRECT_TO_QUEUE
from headrace.core.reply_to import PREFIX, PSEUDO_QUEUE
from headrace.core.vhost import Vhost
from headrace.errors import NotFound
from headrace.server.amqp.channel import Channel
from headrace.server.amqp.session import Session
from headrace.wire.amqp import methods as m
from headrace.wire.amqp.method_codec import Method

Handler = Callable[["Session", Channel, Any], None]
_LINE_ENDS = re.compile("[\r\n]")


def _on_one_line(handler: Handler, *names: str) -> Handler:
    """The handler, given these names without line feeds and carriage returns, as RabbitMQ does.

    Publishing, getting, consuming and purging take names as they come, there as here.
    """

    def handle(session: Session, channel: Channel, method: Any) -> None:  # noqa: ANN401
        given = {name: getattr(method, name) for name in names}
        if any("\n" in value or "\r" in value for value in given.values()):
            tidy = {name: _LINE_ENDS.sub("", value) for name, value in given.items()}
            method = replace(method, **tidy)
        handler(session, channel, method)

    return handle


def _answer(session: Session, channel: Channel, method: Any, answer: Method) -> None:  # noqa: ANN401
    if not method.nowait:
        session.send(channel.number, answer)


# -- exchanges ----------------------------------------------------------------------------------


def _exchange_declare(session: Session, channel: Channel, method: m.ExchangeDeclare) -> None:
    vhost = session.open_vhost
    vhost.not_default(method.exchange)
    if method.passive:
        vhost.get_exchange(method.exchange)
    else:
        session.check("configure", "exchange", method.exchange)
        session.user.check_links(vhost.name, "exchange", method.exchange, method.arguments)
        if method.arguments.get(DIRECT_TO_QUEUE) is True:
            session.check("write", "exchange", "")  # it reaches every queue, as the default one
        vhost.declare_exchange(
            method.exchange,
            method.type,
            durable=method.durable,
            auto_delete=method.auto_delete,
            internal=method.internal,
            arguments=method.arguments,
        )
    _answer(session, channel, method, m.ExchangeDeclareOk())


def _exchange_delete(session: Session, channel: Channel, method: m.ExchangeDelete) -> None:
    session.open_vhost.not_default(method.exchange)
    session.check("configure", "exchange", method.exchange)
    session.open_vhost.delete_exchange(method.exchange, if_unused=method.if_unused)
    _answer(session, channel, method, m.ExchangeDeleteOk())


def _exchange_binding(session: Session, method: m.ExchangeBind | m.ExchangeUnbind) -> Vhost:
    """Check what binding and unbinding need; the vhost."""
    vhost = session.open_vhost
    vhost.not_default(method.destination)
    vhost.not_default(method.source)
    session.check("write", "exchange", method.destination)
    session.check("read", "exchange", method.source)
    session.check_key("read", vhost.exchanges.get(method.source), method.routing_key)
    return vhost


def _exchange_bind(session: Session, channel: Channel, method: m.ExchangeBind) -> None:
    vhost = _exchange_binding(session, method)
    session.user.check_forwarding(vhost.name, method.destination)
    target = vhost.get_exchange(method.destination)
    vhost.bind(method.source, target, method.routing_key, method.arguments)
    if not method.nowait:
        answer = partial(session.send, channel.number, m.ExchangeBindOk())
        session.answer_binding(method.source, answer)


def _exchange_unbind(session: Session, channel: Channel, method: m.ExchangeUnbind) -> None:
    vhost = _exchange_binding(session, method)
    target = vhost.exchanges.get(method.destination)
    if target is not None:
        vhost.unbind(method.source, target, method.routing_key, method.arguments)
    _answer(session, channel, method, m.ExchangeUnbindOk())


# -- queues -------------------------------------------------------------------------------------


def _queue_declare(session: Session, channel: Channel, method: m.QueueDeclare) -> None:
    vhost = session.open_vhost
    name = method.queue
    if _is_reply_name(session, name):
        _answer(session, channel, method, m.QueueDeclareOk(name, 0, 1))
        return
    if method.passive:
        queue = vhost.get_queue_for(channel.queue_name(name), session)
        queue.touch()
        queue.dispatch()
    else:
        is_generated = not name
        if is_generated:
            name = vhost.new_queue_name()
        session.check("configure", "queue", name)
        session.user.check_links(vhost.name, "queue", name, method.arguments)
        queue = vhost.declare_queue(
            name,
            durable=method.durable,
            auto_delete=method.auto_delete,
            owner=session if method.exclusive else None,
            connection=session,
            arguments=method.arguments,
            is_generated=is_generated,
        )
    channel.last_queue = queue.name
    counts = queue.backlog.count, len(queue.consumers)
    _answer(session, channel, method, m.QueueDeclareOk(queue.name, *counts))


def _is_reply_name(session: Session, name: str) -> bool:
    if name == PSEUDO_QUEUE:
        return True
    if not name.startswith(PREFIX):
        return False
    if session.open_vhost.replies.find(name) is None:
        raise NotFound(f"no queue '{name}' in vhost '{session.open_vhost.name}'")
    return True


def _queue_binding(
    session: Session, channel: Channel, method: m.QueueBind | m.QueueUnbind
) -> tuple[Vhost, str, str]:
    """Check what binding and unbinding need; the vhost, the queue's name and the key."""
    vhost = session.open_vhost
    name = channel.queue_name(method.queue)
    vhost.not_default(method.exchange)
    session.check("write", "queue", name)
    session.check("read", "exchange", method.exchange)
    # Both names left out: the queue declared last, by its own name.
    key = method.routing_key if method.queue or method.routing_key else name
    session.check_key("read", vhost.exchanges.get(method.exchange), key)
    return vhost, name, key


def _queue_bind(session: Session, channel: Channel, method: m.QueueBind) -> None:
    vhost, name, key = _queue_binding(session, channel, method)
    queue = vhost.get_queue_for(name, session)
    vhost.bind(method.exchange, queue, key, method.arguments)
    if not method.nowait:
        session.answer_binding(
            method.exchange, partial(session.send, channel.number, m.QueueBindOk())
        )


def _queue_unbind(session: Session, channel: Channel, method: m.QueueUnbind) -> None:
    vhost, name, key = _queue_binding(session, channel, method)
    if name in vhost.queues:
        queue = vhost.get_queue_for(name, session)
        vhost.unbind(method.exchange, queue, key, method.arguments)
    session.send(channel.number, m.QueueUnbindOk())


def _queue_purge(session: Session, channel: Channel, method: m.QueuePurge) -> None:
    name = channel.queue_name(method.queue)
    session.check("read", "queue", name)
    count = session.open_vhost.get_queue_for(name, session).purge()
    session.position = session.broker.storage.position()
    _answer(session, channel, method, m.QueuePurgeOk(message_count=count))


def _queue_delete(session: Session, channel: Channel, method: m.QueueDelete) -> None:
    name = channel.queue_name(method.queue)
    session.check("configure", "queue", name)
    with session.answer_first():
        count = session.open_vhost.delete_queue(
            name, session, if_unused=method.if_unused, if_empty=method.if_empty
        )
        _answer(session, channel, method, m.QueueDeleteOk(message_count=count))


HANDLERS: dict[int, Handler] = {
    m.ExchangeDeclare.wire_id: _on_one_line(_exchange_declare, "exchange"),
    m.ExchangeDelete.wire_id: _on_one_line(_exchange_delete, "exchange"),
    m.ExchangeBind.wire_id: _on_one_line(_exchange_bind, "source", "destination"),
    m.ExchangeUnbind.wire_id: _on_one_line(_exchange_unbind, "source", "destination"),
    m.QueueDeclare.wire_id: _on_one_line(_queue_declare, "queue"),
    m.QueueBind.wire_id: _on_one_line(_queue_bind, "queue", "exchange"),
    m.QueueUnbind.wire_id: _on_one_line(_queue_unbind, "queue", "exchange"),
    m.QueuePurge.wire_id: _queue_purge,
    m.QueueDelete.wire_id: _on_one_line(_queue_delete, "queue"),
}
