"""Pulls: messages of one queue from an offset on, and the queues that a client pulls from."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from headrace.core.topics.log_topic import LogTopic
from headrace.errors import (
    BrokerError,
    NoSuchTopic,
    PreconditionFailed,
    SubscriptionUnknown,
    Unsupported,
)
from headrace.model.selectors import Selector, TagSelector, compile_selector
from headrace.model.topics.partitions import Partition
from headrace.server.remoting.long_polls import PullRequest
from headrace.server.remoting.message_mapping import (
    each_entry,
    partition_of,
    physical_offset,
    queue_id_of,
    sent_bytes,
    take_record,
)
from headrace.server.remoting.name_server import queue_data
from headrace.server.remoting.offsets import store_offset
from headrace.server.remoting.session import RESPONSE_MAX
from headrace.server.remoting.statistics import GOT
from headrace.store.topics.entry import tags_of
from headrace.wire.remoting.codes import Perm, PullFlag, RequestCode, ResponseCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.groups import (
    PULL_MODE,
    AssignmentQuery,
    ConsumeModel,
    RequestMode,
    assignments_body,
)
from headrace.wire.remoting.headers.pull import SQL92, PullMessage, PullResult
from headrace.wire.remoting.message_ids import host_bytes
from headrace.wire.remoting.message_queue import MessageQueue
from headrace.wire.remoting.names import check_group, is_retry_topic

if TYPE_CHECKING:
    from headrace.server.remoting.session import Session
    from headrace.server.remoting.state import Handler, RemotingState

logger = logging.getLogger(__name__)

MAX_BYTES = 1 << 20  # unless a single message has more
SCAN_MESSAGES = 8192  # scanned for one response when a selector matches few
MAX_SUSPEND_MS = 60_000
STRATEGIES = ("AVG", BY_CIRCLE := "AVG_BY_CIRCLE")
_COMMIT, _SUSPEND, _SUBSCRIPTION = (
    int(PullFlag.COMMIT_OFFSET),
    int(PullFlag.SUSPEND),
    int(PullFlag.SUBSCRIPTION),
)


class PullResponse(NamedTuple):
    """The response to a pull."""

    code: ResponseCode
    remark: str
    result: PullResult
    pieces: list[bytes]


def _pull(state: RemotingState, session: Session, request: Command) -> None:
    header = PullMessage.take(request.ext)
    check_group(header.consumer_group)
    _check_readable(state, session, header)
    _check_group(state, header.consumer_group)
    subscription = _subscription(state, header)
    selector = compile_selector(*subscription)
    if header.sys_flag & _COMMIT and header.commit_offset >= 0:
        store_offset(state, header.consumer_group, header.topic, header.queue_id, header)
    pulled = _read(state, session, header, selector)
    may_wait = header.sys_flag & _SUSPEND and header.suspend_timeout_millis > 0
    may_wait = may_wait and state.long_polls.has_room(session)
    if pulled.code is not ResponseCode.PULL_NOT_FOUND or not may_wait:
        _respond(session, request, pulled)
        return

    def attempt(must: bool) -> bool:
        nonlocal subscription, selector
        try:
            _check_readable(state, session, header)  # rights and topics may have changed meanwhile
            if (now := _subscription(state, header)) != subscription:
                subscription, selector = now, compile_selector(*now)
            found = _read(state, session, header, selector)
        except BrokerError as error:
            session.refuse(request, error)
            return True
        if found.code is ResponseCode.PULL_NOT_FOUND and not must:
            return False
        _respond(session, request, found)
        return True

    wait_ms = min(header.suspend_timeout_millis, MAX_SUSPEND_MS)
    state.long_polls.hold(header.topic, PullRequest(session, state.now_ms() + wait_ms, attempt))


def _check_readable(state: RemotingState, session: Session, header: PullMessage) -> None:
    session.check_topic_right("read", header.topic)
    topic = state.topics.find(header.topic)
    if topic is not None:
        state.topics.settings.check(topic, Perm.READ, header.queue_id)


def _check_group(state: RemotingState, name: str) -> None:
    group = state.members.groups.get(name)
    broadcasting = group is not None and not group.is_clustering
    state.group_settings.check_consuming(name, broadcasting=broadcasting)


def _respond(session: Session, request: Command, pulled: PullResponse) -> None:
    ext = pulled.result.ext()
    if pulled.pieces:
        session.respond_with(request, ext, pulled.pieces, pulled.remark)
    else:
        session.respond(request, pulled.code, ext, remark=pulled.remark)


def _subscription(state: RemotingState, header: PullMessage) -> tuple[str | None, str]:
    """Type and expression: of the request, or of the group's heartbeat."""
    kind, text = header.expression_type, header.subscription or ""
    if header.sys_flag & _SUBSCRIPTION:
        return kind, text or "*"
    known = state.members.find_subscription(header.consumer_group, header.topic)
    if known is not None and known.version >= header.sub_version:
        return known.kind, known.expression
    if known is None and (text or kind != SQL92):
        return kind, text or "*"  # clients look at the tags again
    raise SubscriptionUnknown(
        f"no heartbeat of group '{header.consumer_group}' has had this subscription to topic "
        f"'{header.topic}' yet"
    )


def _read(
    state: RemotingState, session: Session, header: PullMessage, selector: Selector
) -> PullResponse:
    """The response to a pull, as of now."""
    topic = state.topics.find(header.topic)
    if topic is None:
        if is_retry_topic(header.topic):  # those exist from the first retry on
            return _outside(header.queue_offset, 0, 0)
        raise NoSuchTopic(f"no topic '{header.topic:.127}'")
    track = partition_of(topic, header.queue_id)
    first, end = topic.bound(track)
    if header.queue_offset > end:
        return _ahead(session, header, topic, track)
    if not first <= header.queue_offset < end:
        return _outside(header.queue_offset, first, end)
    wanted = min(max(header.max_msg_nums, 1), state.settings.pull_limit)
    host = host_bytes(session.store_host)
    pieces, following = _collect(state, host, topic, track, header, selector, end, wanted)
    result = PullResult(0, following, first, end)
    state.pull_offsets.set(header.consumer_group, topic.name, header.queue_id, following)
    if pieces:
        state.delivered_total += len(pieces)
        state.count(GOT, f"{topic.name}@{header.consumer_group}", len(pieces))
        return PullResponse(ResponseCode.SUCCESS, "FOUND", result, pieces)
    return PullResponse(ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE", result, [])


def _outside(offset: int, first: int, end: int) -> PullResponse:
    """There is no message at the offset: not yet, or no longer."""
    if offset == end:
        remark = "OFFSET_OVERFLOW_ONE" if end else "NO_MESSAGE_IN_QUEUE"
        return PullResponse(
            ResponseCode.PULL_NOT_FOUND, remark, PullResult(0, offset, first, end), []
        )
    result = PullResult(0, first if offset < first else end, first, end)
    remark = "OFFSET_TOO_SMALL" if offset < first else "NO_MESSAGE_IN_QUEUE"
    return PullResponse(ResponseCode.PULL_OFFSET_MOVED, remark, result, [])


def _ahead(
    session: Session, header: PullMessage, topic: LogTopic, track: Partition
) -> PullResponse:
    """The consumer has seen messages that are not in the log. It continues where the log went on
    after a restore or a loss: messages from there on are new to it."""
    first, end = topic.bound(track)
    epochs = topic.epochs(track)
    following = min(max(first, epochs[-1][1]), end) if epochs else end
    if topic.name not in session.ahead:
        session.ahead.add(topic.name)
        logger.warning(
            "group '%s' pulls queue %d of topic '%s' from offset %d, but the log ends at %d: "
            "it was restored from a backup, or lost messages; the group continues at offset %d",
            header.consumer_group, header.queue_id, topic.name, header.queue_offset, end, following,
        )  # fmt: skip
    remark = "OFFSET_OVERFLOW_BADLY" if end else "NO_MESSAGE_IN_QUEUE"
    return PullResponse(
        ResponseCode.PULL_OFFSET_MOVED, remark, PullResult(0, following, first, end), []
    )


def _collect(
    state: RemotingState,
    host: bytes,
    topic: LogTopic,
    track: Partition,
    header: PullMessage,
    selector: Selector,
    end: int,
    wanted: int,
) -> tuple[list[bytes], int]:
    """Messages that match, and the offset behind the last one scanned."""
    number = topic.number_of(track)
    assert number is not None, "there are messages in it"
    name, queue_id = topic.name.encode(), queue_id_of(topic, track)
    room = min(header.max_msg_bytes or MAX_BYTES, MAX_BYTES)
    everything = isinstance(selector, TagSelector) and not selector.tags
    scan = wanted if everything else SCAN_MESSAGES
    stop = min(end, header.queue_offset + scan)
    pieces: list[bytes] = []
    at = header.queue_offset
    while at < stop:
        loaded, following = topic.load(track, at, stop, MAX_BYTES)
        for offset, time, content in each_entry(loaded):
            at = offset + 1
            if not everything and not _matches(selector, content):
                continue
            piece = sent_bytes(
                take_record(content),
                name,
                queue_id,
                offset,
                physical_offset(number, offset),
                time,
                host,
            )
            room -= len(piece)
            if room < 0:  # a message that is too large for the others comes alone
                if pieces:
                    return pieces, offset
                if len(piece) > RESPONSE_MAX:
                    state.skipped_total += 1
                    _log_unreadable(topic, queue_id, offset, len(piece))
                    continue
            pieces.append(piece)
            if len(pieces) >= wanted:
                return pieces, at
        at = max(at, following)
    return pieces, at


def _log_unreadable(topic: LogTopic, queue_id: int, offset: int, size: int) -> None:
    """Another protocol wrote it. One frame of that size would end the client's connection."""
    logger.warning(
        "queue %d of topic '%s': the message at offset %d is skipped for RocketMQ clients: its "
        "%d bytes are more than the %d that they can read",
        queue_id, topic.name, offset, size, RESPONSE_MAX,
    )  # fmt: skip


def _matches(selector: Selector, content: bytes) -> bool:
    if isinstance(selector, TagSelector):
        return selector.matches_tag(tags_of(content))
    return selector.matches(take_record(content).properties)


def _assignment(state: RemotingState, session: Session, request: Command) -> None:
    """Divide the queues among the members, for clients that leave it to the broker."""
    query = AssignmentQuery.take(request.body)
    session.check_topic_right("read", query.topic)
    data = queue_data(state, query.topic)
    count = data.read_queues if data.is_readable else 0
    queues = [MessageQueue(query.topic, data.broker_name, at) for at in range(count)]
    if query.model is ConsumeModel.CLUSTERING:
        members = state.members.client_ids(query.consumer_group)
        queues = _share(queues, members, query.client_id, query.strategy)
    session.respond(request, body=assignments_body(queues))


def _share(
    queues: list[MessageQueue], members: list[str], client_id: str, strategy: str
) -> list[MessageQueue]:
    """A member's queues; none for a client that is not a member (yet)."""
    if strategy not in STRATEGIES:
        raise PreconditionFailed(
            f"strategy '{strategy:.80}' is not one of {', '.join(STRATEGIES)}: let the client "
            "rebalance (clientRebalance)"
        )
    if client_id not in members:
        return []
    at = members.index(client_id)
    if strategy == BY_CIRCLE:
        return queues[at :: len(members)]
    size, rest = divmod(len(queues), len(members))
    start = at * size + min(at, rest)
    return queues[start : start + size + (at < rest)]


def _request_mode(state: RemotingState, session: Session, request: Command) -> None:
    wanted = RequestMode.take(request.body)
    session.check_topic_right("configure", wanted.topic)
    state.topics.get(wanted.topic)
    if wanted.mode != PULL_MODE:
        raise Unsupported(f"mode '{wanted.mode:.20}': groups can only pull; nothing was changed")
    session.respond(request)


HANDLERS: dict[int, Handler] = {
    RequestCode.PULL_MESSAGE: _pull,
    RequestCode.LITE_PULL_MESSAGE: _pull,
    RequestCode.QUERY_ASSIGNMENT: _assignment,
    RequestCode.SET_MESSAGE_REQUEST_MODE: _request_mode,
}
