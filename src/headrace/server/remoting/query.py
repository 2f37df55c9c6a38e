"""Messages by physical offset, key or unique id. There is no index: the newest are scanned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from headrace.core.topics.log_topic import LogTopic
from headrace.model.topics.partitions import Track
from headrace.server.remoting.message_mapping import (
    TopicRecord,
    physical_offset,
    queue_id_of,
    sent_bytes,
    take_physical,
    take_record,
)
from headrace.wire.remoting import properties as names
from headrace.wire.remoting.codes import RequestCode, ResponseCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.pull import QueryMessage, QueryResult, ViewMessage
from headrace.wire.remoting.message_ids import host_bytes

if TYPE_CHECKING:
    from headrace.server.remoting.handlers import Handler
    from headrace.server.remoting.session import Session
    from headrace.server.remoting.state import RemotingState


class FoundMessage(NamedTuple):
    topic: LogTopic
    track: Track
    place: tuple[int, int]  # number in the journal, offset
    time: int
    record: TopicRecord


def find_message(hub: RemotingState, physical: int) -> FoundMessage | None:
    """The message, or None when it is not there (any more)."""
    number, offset = take_physical(physical)
    known = hub.topic_of_number(number)
    if known is None or physical < 0:
        return None
    topic, track = known
    loaded, _ = topic.load(track, offset, offset + 1, 1)
    for one in loaded:
        for at, content in zip(one.offsets, one.contents, strict=True):
            if at == offset:
                return FoundMessage(topic, track, (number, offset), one.time, take_record(content))
    return None


MAX_FOUND = 64
MAX_SCANNED = 10_000  # messages of each queue, the newest of the time asked for
_BYTES = 1 << 20


def _query(session: Session, request: Command) -> None:
    header = QueryMessage.take(request.ext)
    session.check_topic_right("read", header.topic)
    topic = session.hub.get_topic(header.topic)
    host = host_bytes(session.hub.store_host(session))
    wanted = min(max(header.max_num, 1), MAX_FOUND)
    pieces: list[bytes] = []
    newest = 0
    for track in topic.bounds():
        for offset, time, record in _newest(topic, track, header):
            if not _is_it(record, header):
                continue
            newest = max(newest, time)
            physical = physical_offset(topic.number_of(track) or 0, offset)
            queue_id = queue_id_of(topic, track)
            pieces.append(
                sent_bytes(record, topic.name.encode(), queue_id, offset, physical, time, host)
            )
            if len(pieces) >= wanted:
                break
    ext = QueryResult(newest, 0).ext()
    if pieces:
        session.respond_with(request, ext, pieces[:wanted], "")
    else:
        session.respond(
            request, ResponseCode.QUERY_NOT_FOUND, ext, remark="no message of this time has the key"
        )


def _is_it(record: TopicRecord, header: QueryMessage) -> bool:
    if record.properties.get(names.UNIQ_KEY) == header.key:
        return True
    if header.by_unique_key:
        return False
    return header.key in record.properties.get(names.KEYS, "").split(" ")


def _newest(
    topic: LogTopic, track: Track, header: QueryMessage
) -> Iterator[tuple[int, int, TopicRecord]]:
    first, end = topic.bound(track)
    stop = min(end, topic.offset_at(track, min(header.end_timestamp, _LATEST) + 1))
    start = max(first, topic.offset_at(track, header.begin_timestamp), stop - MAX_SCANNED)
    while start < stop:
        loaded, start = topic.load(track, start, stop, _BYTES)
        for one in loaded:
            for offset, content in zip(one.offsets, one.contents, strict=True):
                yield offset, one.time, take_record(content)


_LATEST = (1 << 62) - 1


def _view(session: Session, request: Command) -> None:
    header = ViewMessage.take(request.ext)
    found = find_message(session.hub, header.offset)
    if found is None:
        session.respond(
            request,
            ResponseCode.SYSTEM_ERROR,
            remark=f"no message has the physical offset {header.offset}",
        )
        return
    topic = found.topic
    session.check_topic_right("read", topic.name)
    body = sent_bytes(
        found.record,
        topic.name.encode(),
        queue_id_of(topic, found.track),
        found.place[1],
        header.offset,
        found.time,
        host_bytes(session.hub.store_host(session)),
    )
    session.respond(request, body=body)


HANDLERS: dict[int, Handler] = {
    RequestCode.QUERY_MESSAGE: _query,
    RequestCode.VIEW_MESSAGE_BY_ID: _view,
}
