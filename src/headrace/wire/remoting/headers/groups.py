"""Headers about groups and their members, in both directions."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.wire.remoting.codes import RequestCode
from headrace.wire.remoting.headers.fields import Header, named


@dataclass(frozen=True, slots=True)
class UnregisterClient(Header):
    """A client leaves its groups."""

    CODE = RequestCode.UNREGISTER_CLIENT

    client_id: str = named("clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


@dataclass(frozen=True, slots=True)
class GetConsumerList(Header):
    """Who is in a group?"""

    CODE = RequestCode.GET_CONSUMER_LIST_BY_GROUP

    consumer_group: str


@dataclass(frozen=True, slots=True)
class NotifyConsumerIdsChanged(Header):
    """The broker tells members that others came or went."""

    CODE = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED

    consumer_group: str


@dataclass(frozen=True, slots=True)
class ResetOffset(Header):
    """Go back, or forward, to a time. 222 asks the broker, with 220 it tells the members."""

    CODE = RequestCode.RESET_CONSUMER_CLIENT_OFFSET

    topic: str
    group: str
    timestamp: int = -1  # the end
    is_force: bool = True
    queue_id: int | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class GetConsumerStatus(Header):
    """The offsets which members have in memory; 223 asks the broker, with 221 it asks them."""

    CODE = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT

    topic: str
    group: str
    client_addr: str | None = None


@dataclass(frozen=True, slots=True)
class GetRunningInfo(Header):
    """What is a member doing?"""

    CODE = RequestCode.GET_CONSUMER_RUNNING_INFO

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


@dataclass(frozen=True, slots=True)
class ConsumeDirectly(Header):
    """Let a member consume one message now and tell the result."""

    CODE = RequestCode.CONSUME_MESSAGE_DIRECTLY

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
