"""What a name server answers: where topics are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import NoSuchTopic
from headrace.server.remoting.group_settings import known_groups
from headrace.server.remoting.message_mapping import read_queues
from headrace.server.remoting.state import TEMPLATE_QUEUES
from headrace.wire.remoting import names
from headrace.wire.remoting.codes import READ_WRITE, Perm, RequestCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.route import (
    BrokerData,
    ClusterInfo,
    GetRouteInfo,
    QueueData,
    TopicRoute,
    topic_list_body,
)

if TYPE_CHECKING:
    from headrace.server.remoting.handlers import Handler
    from headrace.server.remoting.session import Session


def broker_data(session: Session) -> BrokerData:
    """Where this broker is, as seen by the client: the address by which it came is one it can
    reach."""
    hub = session.hub
    host = hub.settings.advertise_host or session.transport.host
    shown = f"[{host}]" if ":" in host else host
    return BrokerData(hub.settings.cluster, hub.settings.broker_name, {0: f"{shown}:{hub.port}"})


def _route(session: Session, request: Command) -> None:
    header = GetRouteInfo.take(request.ext)
    queues = queue_data(session, header.topic)
    session.respond(request, body=TopicRoute((broker_data(session),), (queues,)).encode())


def queue_data(session: Session, name: str) -> QueueData:
    """NoSuchTopic when there is none, and none will come by itself."""
    hub = session.hub
    broker = hub.settings.broker_name
    topic = hub.find_topic(name)
    if topic is not None:
        return QueueData(broker, read_queues(topic), topic.queues)
    if name == names.TEMPLATE_TOPIC and hub.settings.auto_create:
        perm = int(READ_WRITE | Perm.INHERIT)
        return QueueData(broker, TEMPLATE_QUEUES, TEMPLATE_QUEUES, perm)
    if name == names.reply_topic(hub.settings.cluster):  # nothing is kept there
        return QueueData(broker, 1, 1)
    if names.is_retry_topic(name):  # it will be made when it is needed; nobody has to wait for it
        return QueueData(broker, 1, 1)
    raise NoSuchTopic(f"No topic route info in name server for the topic: {name:.255}")


def _clusters(session: Session, request: Command) -> None:
    settings = session.hub.settings
    info = ClusterInfo(
        {settings.broker_name: broker_data(session)},
        {settings.cluster: (settings.broker_name,)},
    )
    session.respond(request, body=info.encode())


def _usable(session: Session) -> list[str]:
    """Topics that the user may do anything with.

    Retry topics are among them before they are made: consoles find groups by them.
    """
    hub = session.hub
    retries = (names.retry_topic(group) for group in known_groups(hub))
    known = dict.fromkeys([*hub.vhost.topics.log.names(), *retries])
    return [name for name in known if session.may_use_topic(name)]


def _topics(session: Session, request: Command) -> None:
    session.respond(request, body=topic_list_body(_usable(session)))


def _system_topics(session: Session, request: Command) -> None:
    found = [name for name in _usable(session) if names.is_system_topic(name)]
    session.respond(request, body=topic_list_body([names.TEMPLATE_TOPIC, *found]))


HANDLERS: dict[int, Handler] = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC: _route,
    RequestCode.GET_BROKER_CLUSTER_INFO: _clusters,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: _topics,
    RequestCode.GET_TOPICS_BY_CLUSTER: _topics,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: _system_topics,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: _system_topics,
}
