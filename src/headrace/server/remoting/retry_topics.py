"""Messages that consumers send back: to the retry topic, or to the dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import NotFound
from headrace.server.remoting.message_mapping import TopicRecord, encode_record, partition_of
from headrace.server.remoting.statistics import BACK
from headrace.wire.remoting import names
from headrace.wire.remoting import properties as property_names
from headrace.wire.remoting.codes import (
    OWN_RETRY_LIMIT_VERSION,
    RequestCode,
    delay_seconds,
    retry_level,
)
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.send import SendBack, SendMessage
from headrace.wire.remoting.message_ids import offset_id

if TYPE_CHECKING:
    from headrace.server.remoting.session import Session
    from headrace.server.remoting.state import Handler, RemotingState


def _limit(state: RemotingState, request: Command, group: str, given: int | None) -> int:
    """The client's, if it is one that may say so; or that of the group's settings."""
    if given is not None and request.version >= OWN_RETRY_LIMIT_VERSION:
        return given
    return state.group_settings.get(group).retry_max_times


def retried(
    state: RemotingState,
    request: Command,
    header: SendMessage,
    record: TopicRecord,
) -> tuple[str, TopicRecord]:
    """A consumer retries by sending. Too often, or in order: the dead letters of the group."""
    group = header.topic.removeprefix(names.RETRY_PREFIX)
    most = _limit(state, request, group, header.max_reconsume_times)
    orderly = state.queue_locks.is_orderly(group, state.now_ms())
    if header.reconsume_times <= most and not orderly:
        return header.topic, record
    return names.dead_letter_topic(group), record.with_properties(DELAY=None)


def _send_back(state: RemotingState, session: Session, request: Command) -> None:
    header = SendBack.take(request.ext)
    names.check_group(header.group)
    found = state.topics.find_message(header.offset)
    if found is None:
        raise NotFound(f"no message has the physical offset {header.offset}")
    session.check_topic_right("read", found.topic.name)
    record = found.record
    origin = offset_id(session.store_host, found.physical)
    again = record.with_properties(
        RETRY_TOPIC=record.properties.get(property_names.RETRY_TOPIC) or found.topic.name,
        ORIGIN_MESSAGE_ID=record.properties.get(property_names.ORIGIN_MESSAGE_ID) or origin,
        WAIT="false",
        DELAY=None,
    )
    again = again._replace(reconsume_times=record.reconsume_times + 1)
    position = _put_again(state, request, header, again, record.reconsume_times)
    session.respond(request, position=position)


def _put_again(
    state: RemotingState,
    request: Command,
    header: SendBack,
    record: TopicRecord,
    tried: int,
) -> int:
    most = _limit(state, request, header.group, header.max_reconsume_times)
    state.count(BACK, f"{header.origin_topic or ''}@{header.group}", 1)
    if header.delay_level < 0 or tried >= most:
        topic = state.topics.ensure(names.dead_letter_topic(header.group), 1)
        return topic.append_to(partition_of(topic, 0), [encode_record(record)])[1]
    level = header.delay_level or retry_level(tried)
    assert delay_seconds(level) > 0, "a level from 1 on waits"
    topic = state.topics.ensure(names.retry_topic(header.group), 1)
    waiting = record.with_properties(DELAY=str(level))
    return state.delay_levels.put(waiting, topic, 0, level).position


HANDLERS: dict[int, Handler] = {RequestCode.CONSUMER_SEND_MSG_BACK: _send_back}
