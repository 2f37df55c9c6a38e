"""Sends, single and in batches, and the ends of transactions."""

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
    AccessRefused,
    BodyTooLarge,
    BrokerError,
    EngineUnavailable,
    MalformedError,
    MessageIllegal,
    NoSuchTopic,
    NotFound,
    PreconditionFailed,
    Unsupported,
)
from headrace.server.remoting.delayed_messages import recall_handle
from headrace.server.remoting.message_mapping import (
    INT32,
    OWN,
    TopicRecord,
    delay_of,
    encode_record,
    partition_of,
    physical_offset,
)
from headrace.server.remoting.retry_topics import retried
from headrace.server.remoting.send_batcher import AppendedRange
from headrace.server.remoting.statistics import PUT
from headrace.server.remoting.topics import TEMPLATE_QUEUES
from headrace.store.topics.entry import around_message_id
from headrace.wire.remoting import names
from headrace.wire.remoting import properties as property_names
from headrace.wire.remoting.codes import (
    COMPRESSION_MASK,
    TRANSACTION_MASK,
    Perm,
    RequestCode,
    ResponseCode,
    SysFlag,
)
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.compression import inflate
from headrace.wire.remoting.headers.send import (
    COMMIT,
    ROLLBACK,
    EndTransaction,
    RecallMessage,
    SendMessage,
    SendResponse,
    take_send,
)
from headrace.wire.remoting.message import take_batch
from headrace.wire.remoting.message_ids import offset_id, offset_ids
from headrace.wire.remoting.properties import (
    NAME_END,
    PROPERTIES_MAX,
    UNIQ_KEY,
    VALUE_END,
    take_properties,
)

if TYPE_CHECKING:
    from headrace.server.remoting.session import Session
    from headrace.server.remoting.state import Handler, RemotingState

REGION = "DefaultRegion"
TIMER = "TIMER_D"  # begins the names of all properties for a time of delivery
COMPRESSED = int(SysFlag.COMPRESSED)
INFLATED_ON_LOOP = 1 << 17  # bytes that are inflated at once, in less than a millisecond
PROPERTIES_LIMIT = PROPERTIES_MAX - 767  # bytes; the rest is for what delays and retries add
TRANSACTION_PREPARED = int(SysFlag.TRANSACTION_PREPARED)


def _send(state: RemotingState, session: Session, request: Command) -> None:
    header = take_send(request.code, request.ext)
    if not header.sys_flag & COMPRESSED:
        _take_send(state, session, request, header)
        return
    if _is_batch(request, header):
        raise PreconditionFailed("messages of a batch cannot be compressed")
    session.check_topic_right("write", header.topic)
    work = partial(inflate, request.body, header.sys_flag)

    def then(body: bytes | BrokerError) -> None:
        session.guard(request, partial(_send_inflated, state, session, request, header, body))

    try:
        then(work(INFLATED_ON_LOOP))
    except Unsupported as error:
        then(error)
    except MalformedError:  # or too large to be inflated here
        session.wait_for(_inflated(state, session, work), then)


def _send_inflated(
    state: RemotingState,
    session: Session,
    request: Command,
    header: SendMessage,
    body: bytes | BrokerError,
) -> None:
    """Other protocols do not know of compressed bodies: they are stored as they were before."""
    if isinstance(body, bytes):
        request = request._replace(body=body)
        header = replace(header, sys_flag=header.sys_flag & ~(COMPRESSED | COMPRESSION_MASK))
    elif isinstance(body, MalformedError):
        raise MessageIllegal(str(body))
    elif not isinstance(body, Unsupported):  # without a library it stays as it is
        raise body
    _take_send(state, session, request, header)


async def _inflated(state: RemotingState, session: Session, work: Callable[[int], bytes]) -> bytes:
    """Inflate in a thread, when the disk keeps up: a small body can become a large one."""
    storage = session.broker.storage
    while storage.is_behind:
        caught_up = asyncio.Event()
        storage.when_caught_up(caught_up.set)
        await caught_up.wait()
    limit = state.settings.max_message
    return await asyncio.get_running_loop().run_in_executor(None, work, limit)


def _is_batch(request: Command, header: SendMessage) -> bool:
    return header.batch or request.code == RequestCode.SEND_BATCH_MESSAGE


def _take_send(
    state: RemotingState, session: Session, request: Command, header: SendMessage
) -> None:
    reason = session.broker.alarms.reason
    if reason is not None:
        # Consumers use the same connection: it must be read on, so this does not wait.
        raise EngineUnavailable(f"the broker does not accept messages now: {reason}; retry later")
    if _is_batch(request, header):
        _send_batch(state, session, request, header)
    else:
        _send_one(state, session, request, header)
    session.wait_for_commit()


def _send_one(
    state: RemotingState, session: Session, request: Command, header: SendMessage
) -> None:
    properties = checked_properties(header.properties)
    record = _record(state, session, header, request.body, properties, header.flag)
    topic_name, queue_id = header.topic, header.queue_id
    if names.is_retry_topic(topic_name):
        topic_name, record = retried(state, request, header, record)
        queue_id = 0 if topic_name != header.topic else queue_id
    topic = _topic_for_send(state, session, topic_name, header.default_topic_queue_nums, queue_id)
    queue_id = _queue(state, topic, queue_id)
    unique = record.properties[property_names.UNIQ_KEY]
    stored = partial(_respond_stored, session, request, queue_id, unique, 1)
    state.count(PUT, topic.name, 1)
    level = due = 0
    if property_names.DELAY in record.properties or TIMER in header.properties:
        level, due = delay_of(record.properties, state.wall_ms())
    if record.sys_flag & TRANSACTION_MASK == TRANSACTION_PREPARED:
        if level or due:
            raise MessageIllegal("a half message cannot be delayed")
        stored(state.half_messages.put(record, topic, queue_id))
    elif level:
        stored(state.delay_levels.put(record, topic, queue_id, level))
    elif due and not names.is_retry_topic(header.topic):  # a retry has waited for its time before
        where = state.timed_messages.put(record, topic, queue_id, due)
        broker = state.settings.broker_name
        stored(where, recall_handle(topic.name, broker, due, unique, where))
    else:
        track = partition_of(topic, queue_id)
        state.appends.add(
            topic, track, [encode_record(record)], stored, partial(session.refuse, request)
        )


def _send_batch(
    state: RemotingState, session: Session, request: Command, header: SendMessage
) -> None:
    wanted = header.default_topic_queue_nums
    topic = _topic_for_send(state, session, header.topic, wanted, header.queue_id)
    if names.is_retry_topic(header.topic):
        raise PreconditionFailed("messages of a batch can be neither delayed nor retried")
    largest = state.settings.max_message
    contents, unique = entries_of(request.body, partial(_record, state, session, header), largest)
    if not contents:
        raise PreconditionFailed("a batch without a message")
    queue_id = _queue(state, topic, header.queue_id)
    track = partition_of(topic, queue_id)
    stored = partial(_respond_stored, session, request, queue_id, unique, len(contents))
    state.count(PUT, topic.name, len(contents))
    state.appends.add(topic, track, contents, stored, partial(session.refuse, request))


def _respond_stored(
    session: Session,
    request: Command,
    queue_id: int,
    unique: str,
    count: int,
    where: AppendedRange,
    handle: str | None = None,
) -> None:
    physical, host = physical_offset(where.number, where.first), session.store_host
    ids = offset_id(host, physical) if count == 1 else offset_ids(host, physical, count)
    result = SendResponse(ids, queue_id, where.first, unique, REGION, True, handle)
    session.respond(request, ext=result.ext(), position=where.position)


def _topic_for_send(
    state: RemotingState, session: Session, name: str, queues: int, queue_id: int
) -> LogTopic:
    """The topic to append to; a new one when the settings and the user's permissions allow it."""
    names.check_topic(name)
    if name in names.CLOSED_TOPICS:
        raise AccessRefused(f"topic '{name}' is internal to the broker; send to another topic")
    session.check_topic_right("write", name)
    found = state.topics.find(name)
    if found is not None:
        state.topics.settings.check(found, Perm.WRITE, queue_id)
        return found
    if names.is_retry_topic(name) or names.is_dead_letter_topic(name):
        return state.topics.ensure(name, 1)
    if not state.settings.auto_create:
        raise NoSuchTopic(f"no topic '{name}'; create it, or set auto_create_topics")
    session.check_topic_right("configure", name)
    return state.topics.ensure(name, min(queues, TEMPLATE_QUEUES))


def _record(
    state: RemotingState,
    session: Session,
    header: SendMessage,
    body: bytes,
    properties: dict[str, str],
    flag: int,
) -> TopicRecord:
    limit = state.settings.max_message
    if len(body) > limit:
        raise BodyTooLarge(
            f"a body of {len(body)} bytes; {limit} are allowed (rocketmq_max_message_size)"
        )
    sys_flag = header.sys_flag
    if flag not in INT32 or sys_flag not in INT32 or header.reconsume_times not in INT32:
        raise PreconditionFailed("flag, sysFlag and reconsumeTimes have 32 bits")
    if property_names.UNIQ_KEY not in properties:
        properties[property_names.UNIQ_KEY] = uuid4().hex.upper()
    if property_names.REPLY_TO_CLIENT in properties:  # the client to reply to
        properties[property_names.CLUSTER] = state.settings.cluster
    return TopicRecord(
        body,
        properties,
        flag,
        sys_flag,
        header.born_timestamp,
        session.born_host,
        header.reconsume_times,
    )


def _queue(state: RemotingState, topic: LogTopic, queue_id: int) -> int:
    if queue_id >= 0:
        return queue_id
    return randrange(max(state.topics.settings.get(topic).write_queues, 1))


def _end_transaction(state: RemotingState, session: Session, request: Command) -> None:
    decision = EndTransaction.take(request.ext)
    position = 0
    if decision.commit_or_rollback in (COMMIT, ROLLBACK):
        position = state.half_messages.end(decision, session.check_topic_right)
    session.respond(request, position=position)


def _recall(state: RemotingState, session: Session, request: Command) -> None:
    header = RecallMessage.take(request.ext)
    session.check_topic_right("write", header.topic)
    state.topics.get(header.topic)
    try:
        unique, position = state.timed_messages.recall(header.recall_handle, header.topic)
    except (MalformedError, NotFound) as error:
        session.respond(request, ResponseCode.ILLEGAL_OPERATION, remark=f"recall failed: {error}")
        return
    session.respond(request, ext={"msgId": unique}, position=position)
    session.wait_for_commit()


SENDS = frozenset(
    {RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE}
)
HANDLERS: dict[int, Handler] = {
    **dict.fromkeys(SENDS, _send),
    RequestCode.END_TRANSACTION: _end_transaction,
    RequestCode.RECALL_MESSAGE: _recall,
}


def checked_properties(text: str) -> dict[str, str]:
    """The properties of a message; MessageIllegal when they cannot be kept."""
    # A character has at most four bytes: short texts are not encoded to be measured.
    if (
        len(text) > PROPERTIES_LIMIT // 4
        and len(text.encode("utf-8", "replace")) > PROPERTIES_LIMIT
    ):
        raise MessageIllegal(f"properties of more than {PROPERTIES_LIMIT} bytes")
    found = take_properties(text)
    if len(found) != text.count(VALUE_END) or not text.endswith(VALUE_END):
        for part in filter(None, text.split(VALUE_END)):
            if part.find(NAME_END) < 1:
                raise MessageIllegal(
                    f"properties: '{part:.40}' has no name; character 2 cannot be in a value"
                )
    if OWN in text and any(name.startswith(OWN) for name in found):
        raise MessageIllegal(f"names of properties that begin with {OWN} are the broker's")
    return found


Make = Callable[[bytes, dict[str, str], int], TopicRecord]  # of body, properties and flag

_NAME = UNIQ_KEY.encode() + b"\x01"
_END = b"\x02"
MAX_SHAPES = 16  # of one batch; where all differ, nothing is gained by looking


def entries_of(data: bytes, make: Make, largest: int) -> tuple[list[bytes], str]:
    """The entries of a batch, and the id of its first message.

    Bodies above ``largest`` are left to ``make``, which may refuse or change them.
    """
    contents: list[bytes] = []
    first = ""
    shapes: dict[tuple[int, int, bytes], tuple[bytes, bytes]] = {}
    for flag, body, raw in take_batch(data):
        unique, rest = _take_id(raw) if len(body) <= largest else (b"", raw)
        shape = flag, len(unique), rest
        around = shapes.get(shape) if unique else None
        if around is None:
            record = _checked(make(body, checked_properties(raw.decode("utf-8", "replace")), flag))
            content = encode_record(record)
            if unique and len(shapes) < MAX_SHAPES:
                shapes[shape] = around_message_id(content, len(body))
            first = first or record.properties[UNIQ_KEY]
        else:
            content = b"".join((around[0], unique, around[1], body))
        contents.append(content)
    return contents, first


def _checked(record: TopicRecord) -> TopicRecord:
    if any(delay_of(record.properties, 0)):
        raise PreconditionFailed("messages of a batch can be neither delayed nor retried")
    return record


def _take_id(raw: bytes) -> tuple[bytes, bytes]:
    """The producer's id and the other properties; no id where it takes a closer look."""
    at = raw.find(_NAME)
    if at < 0 or (at and raw[at - 1 : at] != _END):
        return b"", raw
    unique, _, rest = raw[at + len(_NAME) :].partition(_END)
    if not unique.isascii() or _NAME in rest:
        return b"", raw
    return unique, raw[:at] + rest
