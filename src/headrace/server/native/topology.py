"""Declarations, deletions, bindings, with the permissions each needs."""

from __future__ import annotations

from functools import partial

from headrace.core.exchange import DIRECT_TO_QUEUE, Exchange, Target, freeze
from headrace.errors import CommandInvalid, NotFound
from headrace.server.native.channel import Channel
from headrace.server.native.checks import check_binding_key, checked_arguments
from headrace.server.native.session import Handler, Session
from headrace.wire.native.payloads import Op, Request

# -- exchanges ----------------------------------------------------------------------------------


def _exchange_declare(session: Session, channel: Channel, request: Request) -> None:
    vhost = session.open_vhost
    name, kind = request.text("name"), request.text("type", "direct")
    arguments = checked_arguments(request)
    vhost.not_default(name)
    session.check("configure", "exchange", name)
    session.user.check_links(vhost.name, "exchange", name, arguments)
    if kind == "direct":
        arguments.setdefault(DIRECT_TO_QUEUE, True)
    created = name not in vhost.exchanges
    if created and arguments.get(DIRECT_TO_QUEUE) is True:
        session.check("write", "exchange", "")  # it reaches every queue, as the default one does
    vhost.declare_exchange(
        name,
        kind,
        durable=request.flag("durable"),
        auto_delete=request.flag("auto_delete"),
        internal=request.flag("internal"),
        arguments=arguments,
    )
    session.respond(request, created=created)


def _exchange_delete(session: Session, channel: Channel, request: Request) -> None:
    vhost = session.open_vhost
    name = request.text("name")
    vhost.not_default(name)
    session.check("configure", "exchange", name)
    vhost.get_exchange(name)
    vhost.delete_exchange(name, if_unused=request.flag("if_unused"))
    session.respond(request)


# -- queues -------------------------------------------------------------------------------------


def _queue_declare(session: Session, channel: Channel, request: Request) -> None:
    name = request.text("name", "")
    arguments = checked_arguments(request)
    is_generated = not name
    if is_generated:
        name = session.open_vhost.new_queue_name()
    session.check("configure", "queue", name)
    session.user.check_links(session.open_vhost.name, "queue", name, arguments)
    queue = session.open_vhost.declare_queue(
        name,
        durable=request.flag("durable"),
        auto_delete=request.flag("auto_delete"),
        owner=session if request.flag("exclusive") else None,
        connection=session,
        arguments=arguments,
        is_generated=is_generated,
    )
    session.respond(
        request, name=queue.name, messages=queue.backlog.count, consumers=len(queue.consumers)
    )


def _queue_delete(session: Session, channel: Channel, request: Request) -> None:
    name = request.text("name")
    session.check("configure", "queue", name)
    vhost = session.open_vhost
    vhost.get_queue(name)
    count = vhost.delete_queue(
        name, session, if_unused=request.flag("if_unused"), if_empty=request.flag("if_empty")
    )
    session.respond(request, messages=count)


def _purge(session: Session, channel: Channel, request: Request) -> None:
    name = request.text("queue")
    session.check("read", "queue", name)
    count = session.open_vhost.get_queue_for(name, session).purge()
    session.position = session.broker.storage.position()
    session.respond(request, messages=count)


# -- bindings -----------------------------------------------------------------------------------


def _ends(session: Session, request: Request) -> tuple[Exchange, Target]:
    """Both ends of a binding, which the user must be allowed to connect."""
    vhost = session.open_vhost
    queue, exchange = request.text("queue", ""), request.text("exchange", "")
    source = request.text("source")
    if bool(queue) == bool(exchange):
        raise CommandInvalid("a binding leads to either 'queue' or 'exchange'")
    vhost.not_default(source)
    session.check("write", "queue" if queue else "exchange", queue or exchange)
    session.check("read", "exchange", source)
    start = vhost.get_exchange(source)
    if queue:
        return start, vhost.get_queue_for(queue, session)
    return start, vhost.get_exchange(exchange)


def _bind(session: Session, channel: Channel, request: Request) -> None:
    key, arguments = request.name("key", ""), checked_arguments(request)
    source, target = _ends(session, request)
    if source.router.kind == "topic":
        session.check_key("read", source, key)
        check_binding_key(key)
    if isinstance(target, Exchange):
        session.user.check_forwarding(session.open_vhost.name, target.name)
    session.open_vhost.bind(source.name, target, key, arguments)
    session.answer_binding(source.name, partial(session.respond, request))


def _unbind(session: Session, channel: Channel, request: Request) -> None:
    """Without a key all bindings of the pair; with one those with the key, or just one of them."""
    key = request.name("key") if request.fields.get("key") is not None else None
    arguments = None
    if request.fields.get("arguments") is not None:
        arguments = freeze(checked_arguments(request))
    source, target = _ends(session, request)
    gone = [
        binding
        for binding in source.bindings
        if binding.target is target
        and key in (None, binding.key)
        and arguments in (None, freeze(binding.arguments))
    ]
    if not gone:
        raise NotFound(f"no such binding from exchange '{source.name}' to '{target.name}'")
    for binding in gone:
        session.check_key("read", source, binding.key)
    for binding in gone:
        session.open_vhost.unbind(source.name, target, binding.key, binding.arguments)
    session.respond(request)


HANDLERS: dict[int, Handler] = {
    Op.EXCHANGE_DECLARE: _exchange_declare,
    Op.EXCHANGE_DELETE: _exchange_delete,
    Op.QUEUE_DECLARE: _queue_declare,
    Op.QUEUE_DELETE: _queue_delete,
    Op.BIND: _bind,
    Op.UNBIND: _unbind,
    Op.PURGE: _purge,
}
