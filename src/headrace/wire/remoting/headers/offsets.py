"""Headers of requests that query, update, search and reset offsets."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.wire.remoting.codes import RequestCode
from headrace.wire.remoting.headers.fields import Header


@dataclass(frozen=True, slots=True)
class QueryConsumerOffset(Header):
    """Up to where has a group consumed a queue?"""

    CODE = RequestCode.QUERY_CONSUMER_OFFSET

    consumer_group: str
    topic: str
    queue_id: int
    set_zero_if_not_found: bool | None = None


@dataclass(frozen=True, slots=True)
class UpdateConsumerOffset(Header):
    """A group has consumed a queue up to here. Often without wanting an answer."""

    CODE = RequestCode.UPDATE_CONSUMER_OFFSET

    consumer_group: str
    topic: str
    queue_id: int
    commit_offset: int


@dataclass(frozen=True, slots=True)
class GetMaxOffset(Header):
    """The offset which the next message will get."""

    CODE = RequestCode.GET_MAX_OFFSET

    topic: str
    queue_id: int
    committed: bool | None = None


@dataclass(frozen=True, slots=True)
class GetMinOffset(Header):
    """The oldest offset that is kept."""

    CODE = RequestCode.GET_MIN_OFFSET

    topic: str
    queue_id: int


@dataclass(frozen=True, slots=True)
class SearchOffset(Header):
    """The offset of a time in milliseconds."""

    CODE = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP

    topic: str
    queue_id: int
    timestamp: int
    boundary_type: str | None = None  # lower, or upper: the last one not later


@dataclass(frozen=True, slots=True)
class OffsetResult(Header):
    """The answer to every question for an offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class EarliestStoreTime(Header):
    """When was the oldest message stored?"""

    CODE = RequestCode.GET_EARLIEST_MSG_STORETIME

    topic: str
    queue_id: int


@dataclass(frozen=True, slots=True)
class TimestampResult(Header):
    """Milliseconds, or -1."""

    timestamp: int


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
