"""Sends, alone and in batches, and messages that come back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import randrange
from typing import TYPE_CHECKING
from uuid import uuid4

from headrace.core.topics.log_topic import LogTopic
from headrace.errors import (
    BodyTooLarge,
    BrokerError,
    EngineUnavailable,
    MalformedError,
    NotFound,
    PreconditionFailed,
    Unsupported,
)
from headrace.server.remoting.batches import entries_of
from headrace.server.remoting.lookup import find_message
from headrace.server.remoting.message_mapping import (
    INT32,
    OWN,
    TopicRecord,
    delay_level,
    encode_record,
)
from headrace.server.remoting.meters import BACK, PUT
from headrace.server.remoting.places import physical_offset, track_of
from headrace.server.remoting.send_batcher import AppendedRange
from headrace.wire.remoting import names
from headrace.wire.remoting import properties as property_names
from headrace.wire.remoting.codes import (
    COMPRESSION_MASK,
    OWN_RETRY_LIMIT_VERSION,
    TRANSACTION_MASK,
    RequestCode,
    SysFlag,
    delay_seconds,
    retry_level,
)
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.compression import inflate
from headrace.wire.remoting.headers.send import (
    BROKER_PICKS,
    COMMIT,
    ROLLBACK,
    EndTransaction,
    SendBack,
    SendMessage,
    SendResponse,
    take_send,
)
from headrace.wire.remoting.message_ids import offset_id, offset_ids
from headrace.wire.remoting.properties import take_properties

if TYPE_CHECKING:
    from headrace.server.remoting.handlers import Handler
    from headrace.server.remoting.session import Session

REGION = "DefaultRegion"
COMPRESSED = int(SysFlag.COMPRESSED)
INFLATED_ON_LOOP = 1 << 17  # bytes that are inflated at once, in less than a millisecond
TRANSACTION_PREPARED = int(SysFlag.TRANSACTION_PREPARED)


def _send(session: Session, request: Command) -> None:
    header = take_send(request.code, request.ext)
    if not header.sys_flag & COMPRESSED:
        _take_send(session, request, header)
        return
    if _is_batch(request, header):
        raise PreconditionFailed("messages of a batch cannot be compressed")
    session.check_topic_right("write", header.topic)
    work = partial(inflate, request.body, header.sys_flag)

    def then(body: bytes | BrokerError) -> None:
        session.guard(request, partial(_send_inflated, session, request, header, body))

    try:
        then(work(INFLATED_ON_LOOP))
    except Unsupported as error:
        then(error)
    except MalformedError:  # or too large to be inflated here
        session.log_in(_inflated(session, work), then)


def _send_inflated(
    session: Session, request: Command, header: SendMessage, body: bytes | BrokerError
) -> None:
    """Other protocols do not know of compressed bodies: they are stored as they were before."""
    if isinstance(body, bytes):
        request = replace(request, body=body)
        header = replace(header, sys_flag=header.sys_flag & ~(COMPRESSED | COMPRESSION_MASK))
    elif not isinstance(body, Unsupported):  # without a library it stays as it is
        raise body
    _take_send(session, request, header)


async def _inflated(session: Session, work: Callable[[int], bytes]) -> bytes:
    """Inflate in a thread, when the disk keeps up: a small body can become a large one."""
    storage = session.broker.storage
    while storage.is_behind:
        caught_up = asyncio.Event()
        storage.when_caught_up(caught_up.set)
        await caught_up.wait()
    limit = session.hub.settings.max_message
    return await asyncio.get_running_loop().run_in_executor(None, work, limit)


def _is_batch(request: Command, header: SendMessage) -> bool:
    return header.batch or request.code == RequestCode.SEND_BATCH_MESSAGE


def _take_send(session: Session, request: Command, header: SendMessage) -> None:
    reason = session.broker.alarms.reason
    if reason is not None:
        # Consumers use the same connection: it must go on being read, so nobody waits here.
        raise EngineUnavailable(f"the broker takes no messages now: {reason}; send again later")
    if _is_batch(request, header):
        _send_batch(session, request, header)
    else:
        _send_one(session, request, header)
    session.heed_journal()


def _send_one(session: Session, request: Command, header: SendMessage) -> None:
    record = _record(session, header, request.body, take_properties(header.properties), header.flag)
    topic_name, queue_id = header.topic, header.queue_id
    if names.is_retry_topic(topic_name):
        topic_name, record = _retried(session, request, header, record)
        queue_id = 0 if topic_name != header.topic else queue_id
    topic = session.hub.topic_for_send(session, topic_name, header.default_topic_queue_nums)
    queue_id = _queue(topic, queue_id)
    unique = record.properties[property_names.UNIQ_KEY]

    def stored(where: AppendedRange) -> None:
        result = SendResponse(
            _offset_id(session, where.number, where.first),
            queue_id,
            where.first,
            unique,
            REGION,
            True,
        )
        session.respond(request, ext=result.ext(), position=where.position)

    session.hub.count(PUT, topic.name, 1)
    level = delay_level(record)
    if record.sys_flag & TRANSACTION_MASK == TRANSACTION_PREPARED:
        stored(session.hub.halves.put(record, topic, queue_id))
    elif level > 0:
        stored(session.hub.delays.put(record, topic, queue_id, level))
    else:
        track = track_of(topic, queue_id)
        session.hub.appends.add(
            topic, track, [encode_record(record)], stored, partial(session.refuse, request)
        )


def _send_batch(session: Session, request: Command, header: SendMessage) -> None:
    topic = session.hub.topic_for_send(session, header.topic, header.default_topic_queue_nums)
    if names.is_retry_topic(header.topic):
        raise PreconditionFailed("messages of a batch can be neither delayed nor retried")
    largest = session.hub.settings.max_message
    contents, unique = entries_of(request.body, partial(_record, session, header), largest)
    if not contents:
        raise PreconditionFailed("a batch without a message")
    queue_id = _queue(topic, header.queue_id)
    track = track_of(topic, queue_id)

    def stored(where: AppendedRange) -> None:
        first = where.first
        host = session.hub.store_host(session)
        ids = offset_ids(host, physical_offset(where.number, first), len(contents))
        result = SendResponse(ids, queue_id, first, unique, REGION, True)
        session.respond(request, ext=result.ext(), position=where.position)

    session.hub.count(PUT, topic.name, len(contents))
    session.hub.appends.add(topic, track, contents, stored, partial(session.refuse, request))


def _record(
    session: Session, header: SendMessage, body: bytes, properties: dict[str, str], flag: int
) -> TopicRecord:
    limit = session.hub.settings.max_message
    if len(body) > limit:
        raise BodyTooLarge(f"a body of {len(body)} bytes; {limit} are allowed")
    sys_flag = header.sys_flag
    if flag not in INT32 or sys_flag not in INT32 or header.reconsume_times not in INT32:
        raise PreconditionFailed("flag, sysFlag and reconsumeTimes have 32 bits")
    for name in [name for name in properties if name.startswith(OWN)]:
        del properties[name]  # only this broker gives those a meaning
    if property_names.UNIQ_KEY not in properties:
        properties[property_names.UNIQ_KEY] = uuid4().hex.upper()
    if property_names.REPLY_TO_CLIENT in properties:  # tells where to reply
        properties[property_names.CLUSTER] = session.hub.settings.cluster
    return TopicRecord(
        body,
        properties,
        flag,
        sys_flag,
        header.born_timestamp,
        session.born_host,
        header.reconsume_times,
    )


def _queue(topic: LogTopic, queue_id: int) -> int:
    return randrange(topic.queues) if queue_id == BROKER_PICKS else queue_id


def _offset_id(session: Session, number: int, offset: int) -> str:
    return offset_id(session.hub.store_host(session), physical_offset(number, offset))


# -- again ---------------------------------------------------------------------------------------


def _limit(session: Session, request: Command, group: str, given: int | None) -> int:
    """The client's, if it is one that may say so; or that of the group's settings."""
    if given is not None and request.version >= OWN_RETRY_LIMIT_VERSION:
        return given
    return session.hub.groups.get(group).retry_max_times


def _retried(
    session: Session, request: Command, header: SendMessage, record: TopicRecord
) -> tuple[str, TopicRecord]:
    """A consumer retries by sending. Too often, or in order: the dead letters of the group."""
    group = header.topic.removeprefix(names.RETRY_PREFIX)
    most = _limit(session, request, group, header.max_reconsume_times)
    orderly = session.hub.locks.is_orderly(group, session.hub.now_ms())
    if header.reconsume_times <= most and not orderly:
        return header.topic, record
    return names.dead_letter_topic(group), record.with_properties(DELAY=None)


def _send_back(session: Session, request: Command) -> None:
    header = SendBack.take(request.ext)
    names.check_group(header.group)
    found = find_message(session.hub, header.offset)
    if found is None:
        raise NotFound(f"no message has the physical offset {header.offset}")
    session.check_topic_right("read", found.topic.name)
    record = found.record
    origin = _offset_id(session, *found.place)
    again = record.with_properties(
        RETRY_TOPIC=record.properties.get(property_names.RETRY_TOPIC) or found.topic.name,
        ORIGIN_MESSAGE_ID=record.properties.get(property_names.ORIGIN_MESSAGE_ID) or origin,
        WAIT="false",
        DELAY=None,
    )
    again = _once_more(again)
    position = _put_again(session, request, header, again, record.reconsume_times)
    session.respond(request, position=position)


def _put_again(
    session: Session, request: Command, header: SendBack, record: TopicRecord, tried: int
) -> int:
    hub = session.hub
    most = _limit(session, request, header.group, header.max_reconsume_times)
    hub.count(BACK, f"{header.origin_topic or ''}@{header.group}", 1)
    if header.delay_level < 0 or tried >= most:
        topic = hub.make_topic(names.dead_letter_topic(header.group), 1)
        return topic.append_to(track_of(topic, 0), [encode_record(record)])[1]
    level = header.delay_level or retry_level(tried)
    assert delay_seconds(level) > 0, "a level from 1 on waits"
    topic = hub.make_topic(names.retry_topic(header.group), 1)
    waiting = record.with_properties(DELAY=str(level))
    return hub.delays.put(waiting, topic, 0, level).position


def _once_more(record: TopicRecord) -> TopicRecord:
    return replace(record, reconsume_times=record.reconsume_times + 1)


def _end_transaction(session: Session, request: Command) -> None:
    decision = EndTransaction.take(request.ext)
    position = 0
    if decision.commit_or_rollback in (COMMIT, ROLLBACK):
        position = session.hub.halves.end(decision, session.check_topic_right)
    session.respond(request, position=position)


SENDS = frozenset(
    {RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE}
)
HANDLERS: dict[int, Handler] = {
    **dict.fromkeys(SENDS, _send),
    RequestCode.CONSUMER_SEND_MSG_BACK: _send_back,
    RequestCode.END_TRANSACTION: _end_transaction,
}
