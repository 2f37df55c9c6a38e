"""Topics and groups for consoles and mqadmin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.topics.log_topic import LogTopic
from headrace.errors import NotFound, PreconditionFailed
from headrace.server.remoting.group_settings import known_groups
from headrace.server.remoting.message_mapping import (
    MAX_DELAY_MS,
    partition_of,
    queue_id_of,
    read_queues,
)
from headrace.server.remoting.statistics import GOT
from headrace.server.remoting.topics import MAX_QUEUES, TEMPLATE_QUEUES
from headrace.wire.remoting import names
from headrace.wire.remoting.codes import LEVELS, Perm, RequestCode, ResponseCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.admin import (
    SINGLE_TAG,
    CreateTopic,
    DeleteTopic,
    GetConsumeStats,
    GroupRequest,
    TopicConfig,
    TopicRequest,
    topic_configs_body,
)
from headrace.wire.remoting.headers.route import topic_list_body
from headrace.wire.remoting.headers.statistics import (
    ClientConnection,
    GroupProgress,
    QueueProgress,
    QueueStats,
    broker_consume_stats_body,
    connections_body,
    topic_stats_body,
)
from headrace.wire.remoting.json_values import json_bytes
from headrace.wire.remoting.message_queue import MessageQueue

if TYPE_CHECKING:
    from headrace.server.remoting.membership import Member
    from headrace.server.remoting.session import Session
    from headrace.server.remoting.state import Handler, RemotingState


Attributes = tuple[tuple[str, str], ...]
ATTRIBUTES = {  # and the values that are true of topics here
    "cleanup.policy": ("DELETE",),
    "message.type": ("NORMAL", "FIFO", "DELAY", "TRANSACTION"),
    "queue.type": ("SimpleCQ",),
}

# -- topics --------------------------------------------------------------------------------------


def _create_topic(state: RemotingState, session: Session, request: Command) -> None:
    header = CreateTopic.take(request.ext)
    names.check_topic(header.topic)
    session.check_topic_right("configure", header.topic)
    _check_not_system(state, header.topic)
    _check_config(header)
    known, reads = state.topics.find(header.topic), header.read_queue_nums
    kept = state.topics.settings.get(known).attributes if known is not None else ()
    attributes = _changed_attributes(kept, header.attributes or "")
    if known is not None and known.queues < (shown := read_queues(known)):
        if reads not in (known.queues, shown):
            raise PreconditionFailed(
                f"topic '{known.name}' has messages of high or low priority: the number of its "
                "queues to read cannot be changed"
            )
        reads = known.queues
    queues = max(reads, header.write_queue_nums)
    topic = state.topics.ensure(header.topic, queues)
    if topic.queues < queues:
        topic.grow(queues)
    config = TopicConfig(
        topic.name,
        reads,
        header.write_queue_nums,
        header.perm,
        header.order,
        header.topic_sys_flag,
        attributes,
    )
    state.topics.settings.set(topic, config)
    session.metadata_version = session.broker.storage.issued
    session.respond(request)


def _check_not_system(state: RemotingState, name: str) -> None:
    own = (state.settings.cluster, state.settings.broker_name)
    if names.is_system_topic(name) or name in (*own, names.reply_topic(own[0])):
        raise PreconditionFailed(f"topic '{name}' is a system topic: it cannot be changed")


def _check_config(header: CreateTopic) -> None:
    reads, writes = header.read_queue_nums, header.write_queue_nums
    if not (min(reads, writes) >= 0 and 1 <= max(reads, writes) <= MAX_QUEUES):
        raise PreconditionFailed(f"{reads} and {writes} queues: 1 to {MAX_QUEUES} are allowed")
    if not 0 <= header.perm < Perm.PRIORITY:
        raise PreconditionFailed(f"perm {header.perm}: expected 2 (write), 4 (read) or 6 (both)")
    if header.topic_filter_type != SINGLE_TAG:
        raise PreconditionFailed(f"topicFilterType: {SINGLE_TAG} is the only one")


def _changed_attributes(known: Attributes, changes: str) -> Attributes:
    """`+message.type=FIFO` sets an attribute, `-message.type` removes it."""
    found = dict(known)
    for change in filter(None, changes.split(",")):
        name, _, value = change[1:].partition("=")
        values = ATTRIBUTES.get(name, ())
        is_set = change[0] == "+" and value in values
        if not values or not (is_set or (change[0] == "-" and not value)):
            allowed = "; ".join(f"{one}={'|'.join(known)}" for one, known in ATTRIBUTES.items())
            raise PreconditionFailed(f"attribute '{change:.80}': expected + or - and {allowed}")
        found.pop(name, None)
        if is_set:
            found[name] = value
    return tuple(found.items())


def _delete_topic(state: RemotingState, session: Session, request: Command) -> None:
    header = DeleteTopic.take(request.ext)
    session.check_topic_right("configure", header.topic)
    _check_not_system(state, header.topic)
    state.topics.delete(header.topic)
    session.metadata_version = session.broker.storage.issued
    session.respond(request)


def _all_topics(state: RemotingState, session: Session, request: Command) -> None:
    topics = state.topics.by_name.values()
    get = state.topics.settings.get
    shown = [get(topic) for topic in topics if session.may_use_topic(topic.name)]
    session.respond(request, body=topic_configs_body(shown))


def _one_topic(state: RemotingState, session: Session, request: Command) -> None:
    name = TopicRequest.take(request.ext).topic
    session.check_topic_right("read", name)
    topic = state.topics.get(name)
    session.respond(request, body=json_bytes(state.topics.settings.get(topic).as_map()))


def _queue(state: RemotingState, topic: LogTopic, queue_id: int) -> MessageQueue:
    return MessageQueue(topic.name, state.settings.broker_name, queue_id)


def _topic_stats(state: RemotingState, session: Session, request: Command) -> None:
    name = TopicRequest.take(request.ext).topic
    session.check_topic_right("read", name)
    topic = state.topics.get(name)
    stats = {_queue(state, topic, at): QueueStats(0, 0) for at in range(topic.queues)}
    for track, (first, end) in topic.bounds().items():
        time = topic.time_at(track, end - 1) if first < end else None
        stats[_queue(state, topic, queue_id_of(topic, track))] = QueueStats(first, end, time or 0)
    session.respond(request, body=topic_stats_body(stats))


# -- groups --------------------------------------------------------------------------------------


def _progress(
    state: RemotingState, session: Session, group: str, wanted: str | None = None
) -> GroupProgress:
    """How far a group is in the topics that it has offsets in or subscribes to."""
    found: dict[MessageQueue, QueueProgress] = {}
    rate = 0.0
    members = state.members.groups.get(group)
    subscribed = set(members.subscriptions) if members is not None else set()
    for name, topic in state.topics.by_name.items():
        offsets = topic.assigned.groups().get(group)
        if wanted not in (None, "", name) or (offsets is None and name not in subscribed):
            continue
        if not session.user.allows("/", "read", f"topic.{name}"):
            continue
        rate += state.rates.rate(GOT, f"{name}@{group}", state.wall_ms())
        for queue_id in range(read_queues(topic)):
            track = partition_of(topic, queue_id)
            first, end = topic.bound(track)
            offset = (offsets or {}).get(track, first)  # everything, as a new group begins
            time = topic.time_at(track, offset - 1) if offset > 0 else None
            pulled = max(state.pull_offsets.get(group, name, queue_id), offset)
            found[_queue(state, topic, queue_id)] = QueueProgress(end, offset, pulled, time or 0)
    return GroupProgress(found, rate)


def _consume_stats(state: RemotingState, session: Session, request: Command) -> None:
    header = GetConsumeStats.take(request.ext)
    progress = _progress(state, session, header.consumer_group, header.topic)
    session.respond(request, body=progress.text().encode("ascii"))


def _broker_consume_stats(state: RemotingState, session: Session, request: Command) -> None:
    groups = {name: _progress(state, session, name) for name in known_groups(state)}
    if request.ext.get("isOrder") == "true":
        groups = {
            name: one
            for name, one in groups.items()
            if state.group_settings.get(name).consume_message_orderly
        }
    body = broker_consume_stats_body(groups, str(session.store_host))
    session.respond(request, body=body)


def _broker_config(state: RemotingState, session: Session, request: Command) -> None:
    """The settings that RocketMQ knows, under its names. They cannot be changed from here."""
    settings = state.settings
    shown = {
        "autoCreateTopicEnable": str(settings.auto_create).lower(),
        "brokerClusterName": settings.cluster,
        "brokerIP1": session.store_host.address,
        "brokerId": 0,
        "brokerName": settings.broker_name,
        "defaultTopicQueueNums": TEMPLATE_QUEUES,
        "enablePropertyFilter": "true",
        "flushDiskType": "SYNC_FLUSH",
        "listenPort": settings.port,
        "maxMessageSize": settings.max_message,
        "maxTransferCountOnMessageInMemory": settings.pull_limit,
        "messageDelayLevel": " ".join(f"{seconds}s" for seconds in LEVELS),
        "timerMaxDelaySec": MAX_DELAY_MS // 1000,
        "timerWheelEnable": "true",
    }
    text = "".join(f"{name}={value}\n" for name, value in shown.items())
    version = json_bytes({"counter": 0, "stateVersion": 0, "timestamp": state.started_ms})
    session.respond(request, ext={"version": version.decode()}, body=text.encode())


def _connection(member: Member[Session]) -> ClientConnection:
    transport = member.connection.transport
    return ClientConnection(
        member.client_id,
        f"{transport.peer_host}:{transport.peer_port}",
        member.language,
        member.version,
    )


def _consumers(state: RemotingState, session: Session, request: Command) -> None:
    name = GroupRequest.take(request.ext).name
    group = state.members.groups.get(name)
    if group is None:
        session.respond(
            request,
            ResponseCode.CONSUMER_NOT_ONLINE,
            remark=f"the consumer group[{name:.120}] not online",
        )
        return
    more: dict[str, object] = {
        "consumeFromWhere": group.config.start_from.name,
        "consumeType": group.config.consume_type.name,
        "messageModel": group.config.model.name,
        "subscriptionTable": {one.topic: one.as_map() for one in group.subscriptions.values()},
    }
    connections = [_connection(member) for member in group.members.values()]
    session.respond(request, body=connections_body(connections, more))


def _producers(state: RemotingState, session: Session, request: Command) -> None:
    name = request.ext.get("producerGroup", "")
    found = state.members.producers.get(name)
    if not found:
        raise NotFound(f"no producer of group '{name:.120}' is connected")
    session.respond(request, body=connections_body([_connection(one) for one in found.values()]))


def _groups_of_topic(state: RemotingState, session: Session, request: Command) -> None:
    name = TopicRequest.take(request.ext).topic
    session.check_topic_right("read", name)
    online = {group.name for group in state.members.groups.values() if name in group.subscriptions}
    topic = state.topics.find(name)
    known = set(topic.assigned.groups()) if topic is not None else set()
    session.respond(request, body=json_bytes({"groupList": sorted(online | known)}))


def _topics_of_group(state: RemotingState, session: Session, request: Command) -> None:
    name = GroupRequest.take(request.ext).name
    group = state.members.groups.get(name)
    session.respond(request, body=topic_list_body(sorted(group.subscriptions) if group else []))


HANDLERS: dict[int, Handler] = {
    RequestCode.UPDATE_AND_CREATE_TOPIC: _create_topic,
    RequestCode.DELETE_TOPIC_IN_BROKER: _delete_topic,
    RequestCode.GET_ALL_TOPIC_CONFIG: _all_topics,
    RequestCode.GET_TOPIC_CONFIG: _one_topic,
    RequestCode.GET_TOPIC_STATS_INFO: _topic_stats,
    RequestCode.GET_CONSUME_STATS: _consume_stats,
    RequestCode.GET_BROKER_CONSUME_STATS: _broker_consume_stats,
    RequestCode.GET_BROKER_CONFIG: _broker_config,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: _consumers,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: _producers,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: _groups_of_topic,
    RequestCode.QUERY_TOPICS_BY_CONSUMER: _topics_of_group,
}
