"""Heartbeats, subscriptions and members of groups."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from headrace.wire.remoting.codes import RequestCode
from headrace.wire.remoting.headers.fields import (
    Header,
    JsonBody,
    JsonMap,
    enumerated,
    listed,
    named,
    special,
)
from headrace.wire.remoting.headers.pull import TAG
from headrace.wire.remoting.json_values import items, json_bytes, table, text
from headrace.wire.remoting.message_queue import MessageQueue


class UnregisterClient(Header, code=RequestCode.UNREGISTER_CLIENT):
    """A client leaves its groups."""

    client_id: str = named("clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class GetConsumerList(Header, code=RequestCode.GET_CONSUMER_LIST_BY_GROUP):
    """Who is in a group?"""

    consumer_group: str


class NotifyConsumerIdsChanged(Header, code=RequestCode.NOTIFY_CONSUMER_IDS_CHANGED):
    """The broker notifies members that others joined or left."""

    consumer_group: str


class GetRunningInfo(Header, code=RequestCode.GET_CONSUMER_RUNNING_INFO):
    """What is a member doing?"""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeDirectly(Header, code=RequestCode.CONSUME_MESSAGE_DIRECTLY):
    """Let a member consume one message now and report the result."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None


PULL_MODE = "PULL"


class ConsumeType(IntEnum):
    """How a group gets its messages."""

    CONSUME_ACTIVELY = 0  # pull
    CONSUME_PASSIVELY = 1  # push
    CONSUME_POP = 2


class ConsumeModel(IntEnum):
    """Does every member get everything?"""

    BROADCASTING = 0
    CLUSTERING = 1


class ConsumeFrom(IntEnum):
    """Where a group without offsets begins."""

    CONSUME_FROM_LAST_OFFSET = 0
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = 1
    CONSUME_FROM_MIN_OFFSET = 2
    CONSUME_FROM_MAX_OFFSET = 3
    CONSUME_FROM_FIRST_OFFSET = 4
    CONSUME_FROM_TIMESTAMP = 5


def _texts(name: str, value: object) -> tuple[str, ...]:
    return tuple([text(name, one) for one in items(name, value)])


class Subscription(JsonMap, name="subscriptionData"):
    """A topic and the expression that chooses among its messages.

    Hashes of tags are written for old brokers and never read: C++ sends zeros.
    """

    topic: str
    expression: str = named("subString", "*", missing="")
    tags: tuple[str, ...] = special("tagsSet", _texts, list, ())
    codes: tuple[int, ...] = special("codeSet", lambda name, value: (), list, ())
    version: int = named("subVersion", 0)  # milliseconds; the greater one is valid
    kind: str = special("expressionType", lambda name, value: text(name, value) or TAG, str, TAG)
    class_filter: bool = named("classFilterMode", False)


class ConsumerGroup(JsonMap, name="consumerData"):
    """A group that the client consumes as."""

    name: str = named("groupName")
    subscriptions: tuple[Subscription, ...] = listed("subscriptionDataSet", Subscription, ())
    consume_type: ConsumeType = enumerated("consumeType", ConsumeType.CONSUME_PASSIVELY)
    model: ConsumeModel = enumerated("messageModel", ConsumeModel.CLUSTERING)
    start_from: ConsumeFrom = enumerated("consumeFromWhere", ConsumeFrom.CONSUME_FROM_LAST_OFFSET)
    unit_mode: bool = False


def _producers(name: str, value: object) -> tuple[str, ...]:
    found = [table("producerData", one) for one in items(name, value)]
    return tuple([text("groupName", one.get("groupName")) for one in found])


class Heartbeat(JsonBody):
    """The body of HEART_BEAT."""

    client_id: str = named("clientID")
    producer_groups: tuple[str, ...] = special(
        "producerDataSet", _producers, lambda names: [{"groupName": one} for one in names], ()
    )
    consumer_groups: tuple[ConsumerGroup, ...] = listed("consumerDataSet", ConsumerGroup, ())
    fingerprint: int = named("heartbeatFingerprint", 0)
    without_subscriptions: bool = named("withoutSub", False)  # those of before hold


class AssignmentQuery(JsonBody):
    """The body of QUERY_ASSIGNMENT: which queues of a topic belong to a member?"""

    topic: str
    consumer_group: str
    client_id: str
    strategy: str = named("strategyName", "AVG")
    model: ConsumeModel = enumerated("messageModel", ConsumeModel.CLUSTERING)


def assignments_body(queues: Iterable[MessageQueue]) -> bytes:
    """The answer: queues to pull from."""
    found = [{"messageQueue": queue.as_map(), "mode": PULL_MODE} for queue in queues]
    return json_bytes({"messageQueueAssignments": found})


class RequestMode(JsonBody):
    """The body of SET_MESSAGE_REQUEST_MODE: whether a group pulls or pops."""

    topic: str
    consumer_group: str
    mode: str = PULL_MODE


class ClientCheck(JsonBody):
    """The body of CHECK_CLIENT_CONFIG: would the broker take this subscription?"""

    client_id: str
    group: str
    subscription: Subscription = special(
        "subscriptionData", lambda _, value: Subscription.take(value), Subscription.as_map
    )
    namespace: str | None = None
