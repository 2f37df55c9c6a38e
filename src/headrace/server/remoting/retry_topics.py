"""Messages that consumers send back: to the retry topic, or to the dead letters."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.errors import NotFound
from headrace.server.remoting.message_mapping import (
    TopicRecord,
    encode_record,
    physical_offset,
    track_of,
)
from headrace.server.remoting.query import find_message
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
    from headrace.server.remoting.handlers import Handler
    from headrace.server.remoting.session import Session


def _limit(session: Session, request: Command, group: str, given: int | None) -> int:
    """The client's, if it is one that may say so; or that of the group's settings."""
    if given is not None and request.version >= OWN_RETRY_LIMIT_VERSION:
        return given
    return session.hub.groups.get(group).retry_max_times


def retried(
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
    origin = offset_id(session.hub.store_host(session), physical_offset(*found.place))
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


HANDLERS: dict[int, Handler] = {RequestCode.CONSUMER_SEND_MSG_BACK: _send_back}
