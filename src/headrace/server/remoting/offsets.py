"""Offsets of groups and queues: query, update, search and reset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.topics.log_topic import LogTopic
from headrace.errors import BadTopicValue, NotFound, PreconditionFailed
from headrace.model.topics.partitions import Partition
from headrace.server.remoting.group_settings import check_known
from headrace.server.remoting.message_mapping import partition_of, read_queues
from headrace.wire.remoting.codes import Language, RequestCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.offsets import (
    EarliestStoreTime,
    GetMaxOffset,
    GetMinOffset,
    OffsetResult,
    QueryConsumerOffset,
    ResetOffset,
    SearchOffset,
    TimestampResult,
    UpdateConsumerOffset,
)
from headrace.wire.remoting.headers.pull import PullMessage
from headrace.wire.remoting.message_queue import MessageQueue, offset_list_body, offsets_body
from headrace.wire.remoting.names import check_group, is_retry_topic

if TYPE_CHECKING:
    from headrace.server.remoting.session import Session
    from headrace.server.remoting.state import Handler, RemotingState

YOUNG_MESSAGES = 100_000  # in a queue, all of them still there


def store_offset(
    state: RemotingState,
    group: str,
    name: str,
    queue_id: int,
    header: PullMessage | UpdateConsumerOffset,
) -> None:
    topic = state.topics.find(name)
    if topic is not None and header.commit_offset >= 0:
        topic.assigned.set(group, partition_of(topic, queue_id), header.commit_offset)


def _update_offset(state: RemotingState, session: Session, request: Command) -> None:
    header = UpdateConsumerOffset.take(request.ext)
    check_group(header.consumer_group)
    session.check_topic_right("read", header.topic)
    if not request.is_oneway:
        check_known(state, header.consumer_group)
        if not is_retry_topic(header.topic):  # those exist from the first retry on
            state.topics.get(header.topic)
    store_offset(state, header.consumer_group, header.topic, header.queue_id, header)
    if not request.is_oneway:
        session.metadata_version = session.broker.storage.issued
    session.respond(request)


def _query_offset(state: RemotingState, session: Session, request: Command) -> None:
    header = QueryConsumerOffset.take(request.ext)
    session.check_topic_right("read", header.topic)
    topic = state.topics.find(header.topic)
    found: int | None = None
    if topic is not None:
        track = partition_of(topic, header.queue_id)
        found = topic.assigned.get(header.consumer_group, track)
        if found is None and header.set_zero_if_not_found is not False and _is_young(topic, track):
            found = 0
    elif is_retry_topic(header.topic):
        found = 0  # created when the first message is sent back
    if found is None:
        raise NotFound(f"group '{header.consumer_group}' has no offset in '{header.topic}'")
    session.metadata_version = session.broker.storage.issued  # a reported offset must never go back
    session.respond(request, ext=OffsetResult(found).ext())


def _is_young(topic: LogTopic, track: Partition) -> bool:
    """A consumer that starts a little late does not miss what was sent before, as with Apache's
    brokers; in a large topic a new group begins at the end."""
    first, end = topic.bound(track)
    return first == 0 and end <= YOUNG_MESSAGES


def _bound(
    state: RemotingState, session: Session, name: str, queue_id: int
) -> tuple[int, int, LogTopic | None]:
    """First and end of a queue, and its topic if there is any message in it."""
    session.check_topic_right("read", name)
    topic = state.topics.find(name)
    first, end = topic.bound(partition_of(topic, queue_id)) if topic is not None else (0, 0)
    return first, end, topic if first < end else None


def _max_offset(state: RemotingState, session: Session, request: Command) -> None:
    header = GetMaxOffset.take(request.ext)
    _, end, _ = _bound(state, session, header.topic, header.queue_id)
    session.respond(request, ext=OffsetResult(end).ext())


def _min_offset(state: RemotingState, session: Session, request: Command) -> None:
    header = GetMinOffset.take(request.ext)
    first, _, _ = _bound(state, session, header.topic, header.queue_id)
    session.respond(request, ext=OffsetResult(first).ext())


def _search_offset(state: RemotingState, session: Session, request: Command) -> None:
    header = SearchOffset.take(request.ext)
    first, _, topic = _bound(state, session, header.topic, header.queue_id)
    offset = 0
    if topic is not None:
        track = partition_of(topic, header.queue_id)
        if (header.boundary_type or "").lower() == "upper":
            offset = max(first, topic.offset_at(track, header.timestamp + 1) - 1)
        else:
            offset = max(first, topic.offset_at(track, header.timestamp))
    session.respond(request, ext=OffsetResult(offset).ext())


def _earliest(state: RemotingState, session: Session, request: Command) -> None:
    header = EarliestStoreTime.take(request.ext)
    first, _, topic = _bound(state, session, header.topic, header.queue_id)
    time: int | None = None
    if topic is not None:
        time = topic.time_at(partition_of(topic, header.queue_id), first)
    session.respond(request, ext=TimestampResult(-1 if time is None else time).ext())


def _reset_offset(state: RemotingState, session: Session, request: Command) -> None:
    """Reset a group to a time, or one queue to an offset; members drop what they have fetched."""
    header = ResetOffset.take(request.ext)
    session.check_topic_right("read", header.topic)
    topic = state.topics.get(header.topic)
    check_known(state, header.group)
    if header.queue_id is not None and header.queue_id >= 0:
        if header.queue_id >= (count := read_queues(topic)):
            raise BadTopicValue(
                f"topic '{topic.name}' has no queue {header.queue_id}: they are 0 to {count - 1}"
            )
        targets = {header.queue_id: _reset_target(topic, header, header.queue_id, header.offset)}
    else:
        targets = {one: _reset_target(topic, header, one) for one in range(read_queues(topic))}
    for queue_id, wanted in targets.items():
        topic.assigned.set(header.group, partition_of(topic, queue_id), wanted)
    session.metadata_version = session.broker.storage.issued
    broker_name = state.settings.broker_name
    offsets = {MessageQueue(topic.name, broker_name, one): at for one, at in targets.items()}
    _notify_reset(state, header, offsets)
    session.respond(request, body=offsets_body("offsetTable", offsets))


def _reset_target(
    topic: LogTopic, header: ResetOffset, queue_id: int, offset: int | None = None
) -> int:
    track = partition_of(topic, queue_id)
    first, end = topic.bound(track)
    if offset is not None and offset != -1:
        if not first <= offset <= end:
            raise PreconditionFailed(
                f"offset {offset} is outside queue {queue_id} of topic '{topic.name}': "
                f"it has {first} to {end}"
            )
        return offset
    wanted = end
    if header.timestamp >= 0:
        wanted = max(first, topic.offset_at(track, header.timestamp))
    known = topic.assigned.get(header.group, track)
    return wanted if header.is_force or known is None else min(wanted, known)


def _notify_reset(
    state: RemotingState, header: ResetOffset, offsets: dict[MessageQueue, int]
) -> None:
    group = state.members.groups.get(header.group)
    for member in list(group.members.values()) if group is not None else []:
        listed = member.language is Language.CPP
        body = (offset_list_body if listed else offsets_body)("offsetTable", offsets)
        code = RequestCode.RESET_CONSUMER_CLIENT_OFFSET
        member.connection.send_request(code, header.ext(), body, oneway=True)


HANDLERS: dict[int, Handler] = {
    RequestCode.UPDATE_CONSUMER_OFFSET: _update_offset,
    RequestCode.QUERY_CONSUMER_OFFSET: _query_offset,
    RequestCode.GET_MAX_OFFSET: _max_offset,
    RequestCode.GET_MIN_OFFSET: _min_offset,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: _search_offset,
    RequestCode.GET_EARLIEST_MSG_STORETIME: _earliest,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: _reset_offset,
}
