"""The other side of the remoting codec: reads what brokers only write, and the reverse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from headrace.errors import MalformedError
from headrace.wire.remoting import properties as names
from headrace.wire.remoting.codes import COMPRESSION_MASK, SysFlag
from headrace.wire.remoting.compression import INFLATED_MAX, inflate
from headrace.wire.remoting.headers.admin import GroupConfig, TopicConfig
from headrace.wire.remoting.headers.groups import Subscription
from headrace.wire.remoting.headers.route import BrokerData, TopicRoute, cluster_info_body
from headrace.wire.remoting.headers.statistics import (
    ClientConnection,
    ProcessQueueInfo,
    QueueProgress,
    QueueStats,
    running_info_body,
)
from headrace.wire.remoting.json_values import body_map, items, table, text
from headrace.wire.remoting.message import stored_bytes, take_parts
from headrace.wire.remoting.message_ids import NOWHERE, HostAddress, host_bytes, offset_id
from headrace.wire.remoting.message_queue import MessageQueue, by_queue
from headrace.wire.remoting.properties import properties_bytes

_COMPRESSION = int(SysFlag.COMPRESSED) | COMPRESSION_MASK


def real(name: str, value: object) -> float:
    """A number with a fraction, or its text."""
    if value is None or value == "":
        return 0.0
    if type(value) in (str, int, float):
        try:
            return float(value)  # type: ignore[arg-type]
        except (ValueError, OverflowError):
            pass
    raise MalformedError(f"'{name}' is no number")


def route_address(route: TopicRoute, broker_name: str, broker_id: int = 0) -> str | None:
    """The address of a broker, or None without a broker of that id."""
    for broker in route.brokers:
        if broker.broker_name == broker_name:
            return broker.addresses.get(broker_id)
    return None


def take_topic_configs(body: bytes) -> dict[str, TopicConfig]:
    found = table("topicConfigTable", body_map(body).get("topicConfigTable"))
    return {text("topic", name): TopicConfig.take(one) for name, one in found.items()}


def take_group_configs(body: bytes) -> dict[str, GroupConfig]:
    found = table("subscriptionGroupTable", body_map(body).get("subscriptionGroupTable"))
    return {text("group", name): GroupConfig.take(one) for name, one in found.items()}


def take_topic_stats(body: bytes) -> dict[MessageQueue, QueueStats]:
    found = by_queue("offsetTable", body_map(body).get("offsetTable"))
    return {queue: QueueStats.take(value) for queue, value in found}


def take_consume_stats(body: bytes) -> tuple[dict[MessageQueue, QueueProgress], float]:
    """Progress by queue, and messages per second."""
    found = body_map(body)
    queues = by_queue("offsetTable", found.get("offsetTable"))
    rate = real("consumeTps", found.get("consumeTps"))
    return {queue: QueueProgress.take(value) for queue, value in queues}, rate


def take_connections(body: bytes) -> list[ClientConnection]:
    found = items("connectionSet", body_map(body).get("connectionSet"))
    return [ClientConnection.take(one) for one in found]


def take_topic_list(body: bytes) -> list[str]:
    return [text("topicList", one) for one in items("topicList", body_map(body).get("topicList"))]


@dataclass(frozen=True, slots=True)
class RemotingMessage:
    """A message with everything its broker knows about it."""

    topic: str
    body: bytes = field(repr=False)
    properties: Mapping[str, str] = field(default_factory=dict)
    flag: int = 0  # for the producer's own use
    queue_id: int = 0
    queue_offset: int = 0
    physical_offset: int = 0
    sys_flag: int = 0
    born_timestamp: int = 0
    born_host: HostAddress = NOWHERE
    store_timestamp: int = 0
    store_host: HostAddress = NOWHERE
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    body_crc: int = 0  # of the stored bytes, which may be compressed
    store_size: int = 0

    @property
    def offset_id(self) -> str:
        """Where the broker keeps it."""
        return offset_id(self.store_host, self.physical_offset)

    @property
    def msg_id(self) -> str:
        """The producer's id, or the broker's when there is none."""
        return self.properties.get(names.UNIQ_KEY) or self.offset_id

    @property
    def tags(self) -> str | None:
        return self.properties.get(names.TAGS)

    @property
    def keys(self) -> list[str]:
        return self.properties.get(names.KEYS, "").split()

    @property
    def delay_level(self) -> int:
        text = self.properties.get(names.DELAY, "")
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


def take_messages(
    data: bytes, *, inflated: bool = True, limit: int = INFLATED_MAX
) -> Iterator[RemotingMessage]:
    """The messages in ``data``, one after the other; MalformedError where they end to be some.

    ``inflated``: give the bodies as producers gave them, and clear the bits of compression.
    """
    for parts in take_parts(data):
        message = RemotingMessage(
            *parts[:3], parts[6], *parts[3:6], *parts[7:14], parts[15], parts[14]
        )
        if inflated and message.sys_flag & SysFlag.COMPRESSED:
            body = inflate(message.body, message.sys_flag, limit)
            message = replace(message, body=body, sys_flag=message.sys_flag & ~_COMPRESSION)
        yield message


def message_bytes(message: RemotingMessage) -> bytes:
    """The stored form. The body goes as it is: compressed when ``sys_flag`` says so."""
    return stored_bytes(
        topic=message.topic.encode("utf-8", "replace"),
        body=message.body,
        properties=properties_bytes(message.properties),
        flag=message.flag,
        queue_id=message.queue_id,
        queue_offset=message.queue_offset,
        physical_offset=message.physical_offset,
        sys_flag=message.sys_flag,
        born_timestamp=message.born_timestamp,
        born_host=host_bytes(message.born_host),
        store_timestamp=message.store_timestamp,
        store_host=host_bytes(message.store_host),
        reconsume_times=message.reconsume_times,
        prepared_transaction_offset=message.prepared_transaction_offset,
    )


def take_message(
    data: bytes, *, inflated: bool = True, limit: int = INFLATED_MAX
) -> RemotingMessage:
    """The only message in ``data``."""
    found = list(take_messages(data, inflated=inflated, limit=limit))
    if len(found) != 1:
        raise MalformedError(f"{len(found)} messages instead of one")
    return found[0]


@dataclass(frozen=True)
class ClusterInfo:
    """The answer to GET_BROKER_CLUSTER_INFO."""

    brokers: dict[str, BrokerData]
    clusters: dict[str, tuple[str, ...]]

    def encode(self) -> bytes:
        return cluster_info_body(self.brokers, self.clusters)

    @classmethod
    def take(cls, body: bytes) -> ClusterInfo:
        found = body_map(body)
        brokers = table("brokerAddrTable", found.get("brokerAddrTable"))
        clusters = table("clusterAddrTable", found.get("clusterAddrTable"))
        return cls(
            {text("name", name): BrokerData.take(one) for name, one in brokers.items()},
            {
                text("name", name): tuple([text("name", one) for one in items("names", names)])
                for name, names in clusters.items()
            },
        )


@dataclass(frozen=True)
class RunningInfo:
    """The answer to GET_CONSUMER_RUNNING_INFO."""

    properties: dict[str, str]
    subscriptions: tuple[Subscription, ...]
    queues: dict[MessageQueue, ProcessQueueInfo]

    def encode(self) -> bytes:
        return running_info_body(self.properties, self.subscriptions, self.queues)

    @classmethod
    def take(cls, body: bytes) -> RunningInfo:
        get = body_map(body).get
        properties = table("properties", get("properties")).items()
        subscriptions = items("subscriptionSet", get("subscriptionSet"))
        queues = by_queue("mqTable", get("mqTable"))
        return cls(
            {text("properties", name): text("properties", one) for name, one in properties},
            tuple([Subscription.take(one) for one in subscriptions]),
            {queue: ProcessQueueInfo.take(one) for queue, one in queues},
        )
