"""What a consumer tells about itself when its broker asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from headrace.errors import MalformedError
from headrace.wire.remoting.fastjson import dumps, json_bytes, object_keyed
from headrace.wire.remoting.heartbeat import Subscription
from headrace.wire.remoting.queues import MessageQueue, by_queue
from headrace.wire.remoting.values import body_map, items, real, table, text, truth, whole


class DirectResult(StrEnum):
    """How a message was consumed which the broker handed over on purpose."""

    CR_SUCCESS = "CR_SUCCESS"
    CR_LATER = "CR_LATER"
    CR_ROLLBACK = "CR_ROLLBACK"
    CR_COMMIT = "CR_COMMIT"
    CR_THROW_EXCEPTION = "CR_THROW_EXCEPTION"
    CR_RETURN_NULL = "CR_RETURN_NULL"


@dataclass(frozen=True, slots=True)
class DirectlyConsumed:
    """The answer to CONSUME_MESSAGE_DIRECTLY."""

    result: DirectResult
    order: bool = False
    auto_commit: bool = True
    remark: str | None = None
    spent_millis: int = 0

    def encode(self) -> bytes:
        return json_bytes(
            {
                "autoCommit": self.auto_commit,
                "consumeResult": self.result.value,
                "order": self.order,
                "remark": self.remark,
                "spentTimeMills": self.spent_millis,
            }
        )

    @classmethod
    def take(cls, body: bytes) -> DirectlyConsumed:
        get = body_map(body).get
        word = text("consumeResult", get("consumeResult"))
        if word not in DirectResult.__members__:
            raise MalformedError(f"'consumeResult' is none of {', '.join(DirectResult)}")
        return cls(
            DirectResult(word),
            truth("order", get("order")),
            truth("autoCommit", get("autoCommit"), True),
            text("remark", get("remark")) or None,
            whole("spentTimeMills", get("spentTimeMills")),
        )


@dataclass(frozen=True, slots=True)
class QueueState:
    """One queue that a consumer has; times in milliseconds."""

    commit_offset: int = 0
    cached_min_offset: int = 0
    cached_max_offset: int = 0
    cached_count: int = 0
    cached_mib: int = 0
    locked: bool = False
    last_lock_at: int = 0
    dropped: bool = False
    last_pull_at: int = 0
    last_consume_at: int = 0

    def as_map(self) -> dict[str, object]:
        return {
            "cachedMsgCount": self.cached_count,
            "cachedMsgMaxOffset": self.cached_max_offset,
            "cachedMsgMinOffset": self.cached_min_offset,
            "cachedMsgSizeInMiB": self.cached_mib,
            "commitOffset": self.commit_offset,
            "droped": self.dropped,  # spelt so
            "lastConsumeTimestamp": self.last_consume_at,
            "lastLockTimestamp": self.last_lock_at,
            "lastPullTimestamp": self.last_pull_at,
            "locked": self.locked,
            "transactionMsgCount": 0,
            "transactionMsgMaxOffset": 0,
            "transactionMsgMinOffset": 0,
            "tryUnlockTimes": 0,
        }

    @classmethod
    def take(cls, value: object) -> QueueState:
        get = table("mqTable", value).get
        return cls(
            whole("commitOffset", get("commitOffset")),
            whole("cachedMsgMinOffset", get("cachedMsgMinOffset")),
            whole("cachedMsgMaxOffset", get("cachedMsgMaxOffset")),
            whole("cachedMsgCount", get("cachedMsgCount")),
            whole("cachedMsgSizeInMiB", get("cachedMsgSizeInMiB")),
            truth("locked", get("locked")),
            whole("lastLockTimestamp", get("lastLockTimestamp")),
            truth("droped", get("droped")),
            whole("lastPullTimestamp", get("lastPullTimestamp")),
            whole("lastConsumeTimestamp", get("lastConsumeTimestamp")),
        )


@dataclass(frozen=True, slots=True)
class TopicRates:
    """How a topic is consumed: milliseconds, and messages per second."""

    pull_millis: float = 0.0
    pull_rate: float = 0.0
    consume_millis: float = 0.0
    ok_rate: float = 0.0
    failed_rate: float = 0.0
    failed: int = 0

    def as_map(self) -> dict[str, object]:
        return {
            "consumeFailedMsgs": self.failed,
            "consumeFailedTPS": self.failed_rate,
            "consumeOKTPS": self.ok_rate,
            "consumeRT": self.consume_millis,
            "pullRT": self.pull_millis,
            "pullTPS": self.pull_rate,
        }

    @classmethod
    def take(cls, value: object) -> TopicRates:
        get = table("statusTable", value).get
        return cls(
            real("pullRT", get("pullRT")),
            real("pullTPS", get("pullTPS")),
            real("consumeRT", get("consumeRT")),
            real("consumeOKTPS", get("consumeOKTPS")),
            real("consumeFailedTPS", get("consumeFailedTPS")),
            whole("consumeFailedMsgs", get("consumeFailedMsgs")),
        )


@dataclass(frozen=True, slots=True)
class RunningInfo:
    """The answer to GET_CONSUMER_RUNNING_INFO."""

    properties: Mapping[str, str] = field(default_factory=dict)
    subscriptions: tuple[Subscription, ...] = ()
    queues: Mapping[MessageQueue, QueueState] = field(default_factory=dict)
    rates: Mapping[str, TopicRates] = field(default_factory=dict)
    jstack: str | None = None

    def encode(self) -> bytes:
        queues = object_keyed(
            [(queue.as_map(), one.as_map()) for queue, one in self.queues.items()]
        )
        stack = "" if self.jstack is None else f'"jstack":{dumps(self.jstack)},'
        return (
            f'{{{stack}"mqPopTable":{{}},"mqTable":{queues},'
            f'"properties":{dumps(dict(self.properties))},'
            f'"statusTable":{dumps({name: one.as_map() for name, one in self.rates.items()})},'
            f'"subscriptionSet":{dumps([one.as_map() for one in self.subscriptions])},'
            f'"userConsumerInfo":{{}}}}'
        ).encode("ascii")

    @classmethod
    def take(cls, body: bytes) -> RunningInfo:
        get = body_map(body).get
        return cls(
            {
                text("properties", name): text("properties", one)
                for name, one in table("properties", get("properties")).items()
            },
            tuple(
                [Subscription.take(one) for one in items("subscriptionSet", get("subscriptionSet"))]
            ),
            {queue: QueueState.take(one) for queue, one in by_queue("mqTable", get("mqTable"))},
            {
                text("statusTable", name): TopicRates.take(one)
                for name, one in table("statusTable", get("statusTable")).items()
            },
            text("jstack", get("jstack")) or None,
        )
