"""Heartbeats: which groups a client has, and what they subscribe to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from headrace.wire.remoting.fastjson import json_bytes
from headrace.wire.remoting.reading import TAG
from headrace.wire.remoting.values import body_map, items, member, table, text, truth, whole


class ConsumeType(IntEnum):
    """How a group gets its messages."""

    CONSUME_ACTIVELY = 0  # pull
    CONSUME_PASSIVELY = 1  # push
    CONSUME_POP = 2


class Model(IntEnum):
    """Does every member get everything?"""

    BROADCASTING = 0
    CLUSTERING = 1


class StartFrom(IntEnum):
    """Where a group without offsets begins."""

    CONSUME_FROM_LAST_OFFSET = 0
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = 1
    CONSUME_FROM_MIN_OFFSET = 2
    CONSUME_FROM_MAX_OFFSET = 3
    CONSUME_FROM_FIRST_OFFSET = 4
    CONSUME_FROM_TIMESTAMP = 5


@dataclass(frozen=True, slots=True)
class Subscription:
    """A topic and the expression that chooses among its messages.

    Hashes of tags are written for old brokers and never read: C++ sends zeros.
    """

    topic: str
    expression: str = "*"
    tags: tuple[str, ...] = ()
    codes: tuple[int, ...] = ()
    version: int = 0  # milliseconds; the greater one is valid
    kind: str = TAG
    class_filter: bool = False

    def as_map(self) -> dict[str, object]:
        return {
            "classFilterMode": self.class_filter,
            "codeSet": list(self.codes),
            "expressionType": self.kind,
            "subString": self.expression,
            "subVersion": self.version,
            "tagsSet": list(self.tags),
            "topic": self.topic,
        }

    @classmethod
    def take(cls, value: object) -> Subscription:
        found = table("subscriptionData", value)
        return cls(
            text("topic", found.get("topic")),
            text("subString", found.get("subString")),
            tuple([text("tagsSet", one) for one in items("tagsSet", found.get("tagsSet"))]),
            (),
            whole("subVersion", found.get("subVersion")),
            text("expressionType", found.get("expressionType")) or TAG,
            truth("classFilterMode", found.get("classFilterMode")),
        )


@dataclass(frozen=True, slots=True)
class ConsumerGroup:
    """A group that the client consumes as."""

    name: str
    subscriptions: tuple[Subscription, ...] = ()
    consume_type: ConsumeType = ConsumeType.CONSUME_PASSIVELY
    model: Model = Model.CLUSTERING
    start_from: StartFrom = StartFrom.CONSUME_FROM_LAST_OFFSET
    unit_mode: bool = False

    def as_map(self) -> dict[str, object]:
        return {
            "consumeFromWhere": self.start_from.name,
            "consumeType": self.consume_type.name,
            "groupName": self.name,
            "messageModel": self.model.name,
            "subscriptionDataSet": [one.as_map() for one in self.subscriptions],
            "unitMode": self.unit_mode,
        }

    @classmethod
    def take(cls, value: object) -> ConsumerGroup:
        found = table("consumerData", value)
        get = found.get
        return cls(
            text("groupName", get("groupName")),
            tuple(
                [
                    Subscription.take(one)
                    for one in items("subscriptionDataSet", get("subscriptionDataSet"))
                ]
            ),
            member("consumeType", get("consumeType"), ConsumeType, ConsumeType.CONSUME_PASSIVELY),
            member("messageModel", get("messageModel"), Model, Model.CLUSTERING),
            member(
                "consumeFromWhere",
                get("consumeFromWhere"),
                StartFrom,
                StartFrom.CONSUME_FROM_LAST_OFFSET,
            ),
            truth("unitMode", get("unitMode")),
        )


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The body of HEART_BEAT."""

    client_id: str
    producer_groups: tuple[str, ...] = ()
    consumer_groups: tuple[ConsumerGroup, ...] = ()
    fingerprint: int = 0
    without_subscriptions: bool = False  # those of before hold

    def encode(self) -> bytes:
        return json_bytes(
            {
                "clientID": self.client_id,
                "consumerDataSet": [one.as_map() for one in self.consumer_groups],
                "heartbeatFingerprint": self.fingerprint,
                "producerDataSet": [{"groupName": name} for name in self.producer_groups],
                "withoutSub": self.without_subscriptions,
            }
        )

    @classmethod
    def take(cls, body: bytes) -> Heartbeat:
        found = body_map(body)
        producers = items("producerDataSet", found.get("producerDataSet"))
        consumers = items("consumerDataSet", found.get("consumerDataSet"))
        return cls(
            text("clientID", found.get("clientID")),
            tuple(
                [
                    text("groupName", table("producerData", one).get("groupName"))
                    for one in producers
                ]
            ),
            tuple([ConsumerGroup.take(one) for one in consumers]),
            whole("heartbeatFingerprint", found.get("heartbeatFingerprint")),
            truth("withoutSub", found.get("withoutSub")),
        )


@dataclass(frozen=True, slots=True)
class ClientCheck:
    """The body of CHECK_CLIENT_CONFIG: would the broker take this subscription?"""

    client_id: str
    group: str
    subscription: Subscription
    namespace: str | None = None

    def encode(self) -> bytes:
        return json_bytes(
            {
                "clientId": self.client_id,
                "group": self.group,
                "namespace": self.namespace,
                "subscriptionData": self.subscription.as_map(),
            }
        )

    @classmethod
    def take(cls, body: bytes) -> ClientCheck:
        found = body_map(body)
        return cls(
            text("clientId", found.get("clientId")),
            text("group", found.get("group")),
            Subscription.take(found.get("subscriptionData")),
            text("namespace", found.get("namespace")) or None,
        )
