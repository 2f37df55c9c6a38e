"""Operations of topics, with the permissions each needs. Answers may come much later."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import methodcaller
from typing import Any, TypeVar

from headrace.core.topics.async_engine import (
    AsyncTopicEngine,
    DeclaredTopic,
    EngineReply,
    Then,
)
from headrace.core.topics.exchange_bridge import topic_exchange_name
from headrace.errors import NotAllowed
from headrace.model.topics.message_priority import Priority
from headrace.server.native import topic_fields as values
from headrace.server.native.channel import Channel, ChannelRead
from headrace.server.native.session import Handler, Session
from headrace.store.topics.types import PriorityLag, ReadResult, StoredMessage, TopicInfo
from headrace.wire.native.payloads import Op, Request

T = TypeVar("T")
MAX_WAITING = 256  # reads of a channel that wait for messages


def _engine(session: Session, action: str, topic: str) -> AsyncTopicEngine:
    """The engine that has the topic, if the user may do that."""
    session.check(action, "topic", topic_exchange_name(topic))
    return session.open_vhost.topics.engine_of(topic)


def limit_of(session: Session, engine: str) -> int:
    """The largest body that a topic of the engine takes."""
    found = session.open_vhost.topics.engines.get(engine)
    most = session.config.max_message_size
    return most if found is None else min(most, found.max_body)


def answer_with(
    session: Session,
    channel: Channel,
    request: Request,
    fields: Callable[[T], dict[str, object]],
) -> Then[T]:
    """Answer the request with what an engine says, whenever it says it."""

    def then(answer: EngineReply[T]) -> None:
        if session.closed or channel.closing:
            return
        if answer.error is not None:
            session.refuse(request, answer.error)
            return
        session.metadata_version = max(session.metadata_version, answer.metadata_version)
        shown = fields(answer.value) if answer.value is not None else {}
        session.respond_when_durable(request, answer.position, None, **shown)

    return then


def _nothing(value: None) -> dict[str, object]:
    return {}


def _topic_call(
    method: str,
    *arguments: Callable[[Request], object],
    fields: Callable[[Any], dict[str, object]] = _nothing,
) -> Handler:
    """A handler that calls a method of the engine that has the topic, with arguments that are
    taken from the request and checked."""

    def handle(session: Session, channel: Channel, request: Request) -> None:
        name = request.text("topic")
        engine = _engine(session, "read", name)
        call = methodcaller(method, name, *[argument(request) for argument in arguments])
        engine.submit(call, answer_with(session, channel, request, fields))

    return handle


# -- topics -------------------------------------------------------------------------------------


def _declare(session: Session, channel: Channel, request: Request) -> None:
    spec, engine = values.spec_of(request), request.text("engine", "log")
    session.check("configure", "topic", topic_exchange_name(spec.name))
    most = limit_of(session, engine)

    def fields(declared: DeclaredTopic) -> dict[str, object]:
        return {"topic": values.topic_fields(declared.topic, most), "created": declared.created}

    then = answer_with(session, channel, request, fields)
    session.open_vhost.topics.declare(spec, engine, then)


def _delete(session: Session, channel: Channel, request: Request) -> None:
    name = request.text("name")
    then = answer_with(session, channel, request, _nothing)
    _engine(session, "configure", name).delete(name, then)


def _describe(session: Session, channel: Channel, request: Request) -> None:
    name = request.text("name")
    engine = _engine(session, "read", name)
    most = limit_of(session, engine.name)
    topic = session.open_vhost.topics.log.by_name.get(name)
    epoch = {"epoch": topic.epoch} if topic is not None else {}

    def fields(info: TopicInfo) -> dict[str, object]:
        partitions = values.partition_fields(info)
        return {"topic": values.topic_fields(info, most), "partitions": partitions, **epoch}

    engine.submit(lambda one: one.describe(name), answer_with(session, channel, request, fields))


# -- messages -----------------------------------------------------------------------------------


def _append(session: Session, channel: Channel, request: Request) -> None:
    name = request.text("topic")
    engine = _engine(session, "write", name)
    entries = values.entries_of(request, limit_of(session, engine.name))
    if name not in session.open_vhost.topics.log.by_name:  # tables have a column for it
        host = session.transport.peer_host or None
        entries = [one if one.source_ip else one._replace(source_ip=host) for one in entries]
    session.note_publish()
    then = answer_with(session, channel, request, lambda ids: {"ids": ids, "offsets": ids})
    engine.append(name, entries, then)
    session.wait_for_commit()


def _read(session: Session, channel: Channel, request: Request) -> None:
    name = request.text("topic")
    engine = _engine(session, "read", name)
    reader, batch = values.reader_of(request), values.batch_of(request)
    wait_ms = values.wait_of(request)
    if len(channel.waiting) >= MAX_WAITING:
        raise NotAllowed(f"{MAX_WAITING} reads of this channel wait already, which is the limit")

    def fields(read: ReadResult) -> dict[str, object]:
        messages = [values.message_fields(row) for row in read.messages]
        return {"messages": messages, "claim": read.claim}

    respond = answer_with(session, channel, request, fields)
    mark = object()
    answered = False

    def then(answer: EngineReply[ReadResult]) -> None:
        nonlocal answered
        answered = True
        channel.waiting.pop(mark, None)
        respond(answer)

    cancel = engine.read(name, reader, batch, wait_ms, then)
    if not answered:
        refuse = partial(session.refuse, request)
        channel.waiting[mark] = ChannelRead(topic_exchange_name(name), cancel, refuse)


# -- readers ------------------------------------------------------------------------------------


def _seek(session: Session, channel: Channel, request: Request) -> None:
    name = request.text("topic")
    engine = _engine(session, "read", name)
    reader = values.group_of(request)
    positions: dict[Priority, int] | None = values.positions_of(request)
    topic = session.open_vhost.topics.log.by_name.get(name)
    if topic is not None and positions is not None and "epoch" in request.fields:
        topic.check_seen(positions, request.whole("epoch"))
    time_ms = values.time_of(request)
    engine.submit(
        lambda one: one.seek(name, reader, positions=positions, time_ms=time_ms),
        answer_with(session, channel, request, _nothing),
    )


def _lag_fields(lags: list[PriorityLag]) -> dict[str, object]:
    return {"lag": [values.lag_fields(one) for one in lags]}


def _dead_fields(found: list[tuple[StoredMessage, str]]) -> dict[str, object]:
    return {"rows": [[values.message_fields(one), reason] for one, reason in found]}


_member = values.reader_of, values.claim_of
HANDLERS: dict[int, Handler] = {
    Op.TOPIC_DECLARE: _declare,
    Op.TOPIC_DELETE: _delete,
    Op.TOPIC_DESCRIBE: _describe,
    Op.APPEND: _append,
    Op.READ: _read,
    Op.COMMIT: _topic_call("commit", *_member),
    Op.TOPIC_NACK: _topic_call("nack", *_member, values.ids_of, values.delay_of, values.reason_of),
    Op.RENEW: _topic_call("renew", *_member),
    Op.SEEK: _seek,
    Op.LAG: _topic_call("lag", values.group_of, fields=_lag_fields),
    Op.FORGET_GROUP: _topic_call("forget_group", values.group_of),
    Op.DEAD: _topic_call("dead", values.group_name_of, values.limit_of, fields=_dead_fields),
}
