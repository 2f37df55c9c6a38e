"""Figures of queues, groups and clients; running information of a consumer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from headrace.errors import MalformedError
from headrace.wire.remoting.codes import Language
from headrace.wire.remoting.headers.fields import JsonBody, JsonMap, enumerated, named, special
from headrace.wire.remoting.headers.groups import Subscription
from headrace.wire.remoting.json_values import (
    dumps,
    json_bytes,
    object_keyed,
    text,
)
from headrace.wire.remoting.message_queue import MessageQueue


class QueueStats(JsonMap, name="offsetTable"):
    """The bounds of a queue, and when it was last written, in milliseconds."""

    min_offset: int
    max_offset: int
    updated_at: int = named("lastUpdateTimestamp", 0)


def topic_stats_body(stats: Mapping[MessageQueue, QueueStats]) -> bytes:
    """The answer to GET_TOPIC_STATS_INFO."""
    pairs = [(queue.as_map(), one.as_map()) for queue, one in stats.items()]
    return f'{{"offsetTable":{object_keyed(pairs)},"topicPutTps":0.0}}'.encode("ascii")


class QueueProgress(JsonMap, name="offsetTable"):
    """How far a group is in a queue; the lag is the difference."""

    broker_offset: int
    consumer_offset: int
    pull_offset: int = 0
    last_timestamp: int = 0  # of the last consumed message, milliseconds

    @property
    def lag(self) -> int:
        return self.broker_offset - self.consumer_offset


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """How far a group is in its queues, and how many messages per second it gets."""

    queues: Mapping[MessageQueue, QueueProgress]
    rate: float = 0.0

    def text(self) -> str:
        pairs = [(queue.as_map(), one.as_map()) for queue, one in self.queues.items()]
        return f'{{"consumeTps":{dumps(self.rate)},"offsetTable":{object_keyed(pairs)}}}'


def broker_consume_stats_body(groups: Mapping[str, GroupProgress], address: str) -> bytes:
    """The answer to GET_BROKER_CONSUME_STATS."""
    listed = ",".join(f"{{{dumps(name)}:[{one.text()}]}}" for name, one in groups.items())
    every = [queue for one in groups.values() for queue in one.queues.values()]
    lag = sum(queue.lag for queue in every)
    inflight = sum(queue.pull_offset - queue.consumer_offset for queue in every)
    return (
        f'{{"brokerAddr":{dumps(address)},"consumeStatsList":[{listed}],'
        f'"totalDiff":{lag},"totalInflightDiff":{inflight}}}'
    ).encode("ascii")


class ClientConnection(JsonMap, name="connection"):
    """A client as consoles see it."""

    client_id: str
    address: str = named("clientAddr")
    language: Language = enumerated("language", Language.OTHER)
    version: int = 0


def connections_body(
    connections: Iterable[ClientConnection], more: Mapping[str, object] | None = None
) -> bytes:
    """Reply to both requests for connections; consumers have ``more`` fields."""
    return json_bytes({"connectionSet": [one.as_map() for one in connections], **(more or {})})


class ConsumeResultCode(StrEnum):
    """How a message was consumed which the broker handed over on purpose."""

    CR_SUCCESS = "CR_SUCCESS"
    CR_LATER = "CR_LATER"
    CR_ROLLBACK = "CR_ROLLBACK"
    CR_COMMIT = "CR_COMMIT"
    CR_THROW_EXCEPTION = "CR_THROW_EXCEPTION"
    CR_RETURN_NULL = "CR_RETURN_NULL"


def _direct_result(name: str, value: object) -> ConsumeResultCode:
    word = text(name, value)
    if word not in ConsumeResultCode.__members__:
        raise MalformedError(f"'{name}' is none of {', '.join(ConsumeResultCode)}")
    return ConsumeResultCode(word)


class ConsumeDirectlyResult(JsonBody):
    """The answer to CONSUME_MESSAGE_DIRECTLY."""

    result: ConsumeResultCode = special("consumeResult", _direct_result, str)
    order: bool = False
    auto_commit: bool = True
    remark: str | None = None
    spent_millis: int = named("spentTimeMills", 0)


class ProcessQueueInfo(JsonMap, name="mqTable"):
    """One queue that a consumer has; times in milliseconds."""

    CONSTANTS = {  # noqa: RUF012 - of a JsonMap
        "transactionMsgCount": 0,
        "transactionMsgMaxOffset": 0,
        "transactionMsgMinOffset": 0,
        "tryUnlockTimes": 0,
    }

    commit_offset: int = 0
    cached_min_offset: int = named("cachedMsgMinOffset", 0)
    cached_max_offset: int = named("cachedMsgMaxOffset", 0)
    cached_count: int = named("cachedMsgCount", 0)
    cached_mib: int = named("cachedMsgSizeInMiB", 0)
    locked: bool = False
    last_lock_at: int = named("lastLockTimestamp", 0)
    dropped: bool = named("droped", False)  # spelt so
    last_pull_at: int = named("lastPullTimestamp", 0)
    last_consume_at: int = named("lastConsumeTimestamp", 0)


def running_info_body(
    properties: Mapping[str, str],
    subscriptions: Iterable[Subscription],
    queues: Mapping[MessageQueue, ProcessQueueInfo],
) -> bytes:
    """The answer to GET_CONSUMER_RUNNING_INFO."""
    table = object_keyed([(queue.as_map(), one.as_map()) for queue, one in queues.items()])
    return (
        f'{{"mqPopTable":{{}},"mqTable":{table},"properties":{dumps(dict(properties))},'
        f'"statusTable":{{}},"subscriptionSet":{dumps([one.as_map() for one in subscriptions])},'
        f'"userConsumerInfo":{{}}}}'
    ).encode("ascii")
