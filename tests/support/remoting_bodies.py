"""The other side of the remoting codec: reads what brokers only write, and the reverse."""

from __future__ import annotations

from headrace.errors import MalformedError
from headrace.wire.remoting.compression import INFLATED_MAX
from headrace.wire.remoting.headers.admin import GroupConfig, TopicConfig
from headrace.wire.remoting.headers.statistics import ClientConnection, QueueProgress, QueueStats
from headrace.wire.remoting.json_values import body_map, items, real, table, text
from headrace.wire.remoting.message import RemotingMessage, stored_bytes, take_messages
from headrace.wire.remoting.message_ids import host_bytes
from headrace.wire.remoting.message_queue import MessageQueue, by_queue
from headrace.wire.remoting.properties import properties_bytes


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
