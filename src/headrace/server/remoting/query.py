"""Messages by physical offset, key or unique id. There is no index: the newest are scanned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.topics.log_topic import LogTopic
from headrace.model.topics.partitions import Partition
from headrace.server.remoting.message_mapping import TopicRecord, each_entry, take_record
from headrace.server.remoting.topics import FoundMessage
from headrace.wire.remoting import properties as names
from headrace.wire.remoting.codes import RequestCode, ResponseCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.pull import QueryMessage, QueryResult, ViewMessage

if TYPE_CHECKING:
    from headrace.server.remoting.session import Session
    from headrace.server.remoting.state import Handler, RemotingState


MAX_FOUND = 64
MAX_SCANNED = 10_000  # messages of each queue, the newest of the time asked for
_BYTES = 1 << 20


def _query(state: RemotingState, session: Session, request: Command) -> None:
    header = QueryMessage.take(request.ext)
    session.check_topic_right("read", header.topic)
    topic = state.topics.get(header.topic)
    wanted = min(max(header.max_num, 1), MAX_FOUND)
    pieces: list[bytes] = []
    newest, room = 0, _BYTES
    for track in topic.bounds():
        for offset, time, record in _newest(topic, track, header):
            if not _matches(record, header):
                continue
            newest = max(newest, time)
            number = topic.number_of(track) or 0
            found = FoundMessage(topic, track, number, offset, time, record)
            piece = found.encode(session.store_host)
            room -= len(piece)
            if room >= 0 or not pieces:
                pieces.append(piece)
            if len(pieces) >= wanted or room <= 0:
                break
    ext = QueryResult(newest, 0).ext()
    if pieces:
        session.respond(request, ext=ext, body=b"".join(pieces[:wanted]))
    else:
        session.respond(
            request, ResponseCode.QUERY_NOT_FOUND, ext, remark="no message of this time has the key"
        )


def _matches(record: TopicRecord, header: QueryMessage) -> bool:
    if record.properties.get(names.UNIQ_KEY) == header.key:
        return True
    if header.by_unique_key:
        return False
    return header.key in record.properties.get(names.KEYS, "").split(" ")


def _newest(
    topic: LogTopic, track: Partition, header: QueryMessage
) -> Iterator[tuple[int, int, TopicRecord]]:
    first, end = topic.bound(track)
    stop = min(end, topic.offset_at(track, min(header.end_timestamp, _LATEST) + 1))
    start = max(first, topic.offset_at(track, header.begin_timestamp), stop - MAX_SCANNED)
    while start < stop:
        loaded, start = topic.load(track, start, stop, _BYTES)
        for offset, time, content in each_entry(loaded):
            yield offset, time, take_record(content)


_LATEST = (1 << 62) - 1


def _view(state: RemotingState, session: Session, request: Command) -> None:
    header = ViewMessage.take(request.ext)
    found = state.topics.find_message(header.offset)
    if found is None:
        session.respond(
            request,
            ResponseCode.SYSTEM_ERROR,
            remark=f"no message has the physical offset {header.offset}",
        )
        return
    session.check_topic_right("read", found.topic.name)
    session.respond(request, body=found.encode(session.store_host))


HANDLERS: dict[int, Handler] = {
    RequestCode.QUERY_MESSAGE: _query,
    RequestCode.VIEW_MESSAGE_BY_ID: _view,
}
