"""What a name server answers: where topics are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import NoSuchTopic, NotFound
from headrace.server.remoting.group_settings import known_groups
from headrace.server.remoting.topics import TEMPLATE_QUEUES
from headrace.wire.remoting import names
from headrace.wire.remoting.codes import READ_WRITE, Perm, RequestCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.route import (
    BrokerData,
    GetRouteInfo,
    QueueData,
    TopicRoute,
    cluster_info_body,
    topic_list_body,
)

if TYPE_CHECKING:
    from headrace.server.remoting.session import Session
    from headrace.server.remoting.state import Handler, RemotingState


def broker_data(state: RemotingState, session: Session) -> BrokerData:
    """Where this broker is, as seen by the client: the address by which it came is one it can
    reach."""
    host = state.settings.advertise_host or session.transport.host
    shown = f"[{host}]" if ":" in host else host
    return BrokerData(
        state.settings.cluster, state.settings.broker_name, {0: f"{shown}:{state.settings.port}"}
    )


def _route(state: RemotingState, session: Session, request: Command) -> None:
    header = GetRouteInfo.take(request.ext)
    queues = queue_data(state, header.topic)
    session.respond(request, body=TopicRoute((broker_data(state, session),), (queues,)).encode())


def queue_data(state: RemotingState, name: str) -> QueueData:
    """NoSuchTopic when there is none, and none will come by itself."""
    broker = state.settings.broker_name
    topic = state.topics.find(name)
    if topic is not None:
        config = state.topics.settings.get(topic)
        return QueueData(
            broker, config.read_queues, config.write_queues, config.perm, config.sys_flag
        )
    # Programs create topics by the route of the template, the cluster or the broker.
    named_after = (state.settings.cluster, broker)
    if name in named_after or (name == names.TEMPLATE_TOPIC and state.settings.auto_create):
        perm = int(READ_WRITE | Perm.INHERIT)
        return QueueData(broker, TEMPLATE_QUEUES, TEMPLATE_QUEUES, perm)
    # Nothing is kept in the first; the others are created when they are needed, and no client has
    # to wait for them.
    if name == names.reply_topic(state.settings.cluster) or names.is_retry_topic(name):
        return QueueData(broker, 1, 1)
    raise NoSuchTopic(f"No topic route info in name server for the topic: {name:.255}")


def _clusters(state: RemotingState, session: Session, request: Command) -> None:
    name, cluster = state.settings.broker_name, state.settings.cluster
    body = cluster_info_body({name: broker_data(state, session)}, {cluster: [name]})
    session.respond(request, body=body)


def _usable(state: RemotingState, session: Session) -> list[str]:
    """Topics that the user may do anything with.

    Retry topics are among them before they are made: consoles find groups by them.
    """
    retries = (names.retry_topic(group) for group in known_groups(state))
    known = dict.fromkeys([*sorted(state.topics.by_name), *retries])
    return [name for name in known if session.may_use_topic(name)]


def _topics(state: RemotingState, session: Session, request: Command) -> None:
    session.respond(request, body=topic_list_body(_usable(state, session)))


def _system_topics(state: RemotingState, session: Session, request: Command) -> None:
    found = [name for name in _usable(state, session) if names.is_system_topic(name)]
    session.respond(request, body=topic_list_body([names.TEMPLATE_TOPIC, *found]))


def _no_value(state: RemotingState, session: Session, request: Command) -> None:
    """PUT_KV_CONFIG is refused; programs look for the values of ordered topics."""
    raise NotFound("the name server stores no values")


def _nothing_to_remove(state: RemotingState, session: Session, request: Command) -> None:
    """Routes follow the topics, and there are no values: Java's deleteTopic() removes both."""
    session.respond(request)


HANDLERS: dict[int, Handler] = {
    RequestCode.GET_KV_CONFIG: _no_value,
    RequestCode.GET_KVLIST_BY_NAMESPACE: _no_value,
    RequestCode.DELETE_KV_CONFIG: _nothing_to_remove,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: _nothing_to_remove,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: _route,
    RequestCode.GET_BROKER_CLUSTER_INFO: _clusters,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: _topics,
    RequestCode.GET_TOPICS_BY_CLUSTER: _topics,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: _system_topics,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: _system_topics,
}
