"""Headers of requests that query, update, search and reset offsets."""

from __future__ import annotations

from headrace.wire.remoting.codes import RequestCode
from headrace.wire.remoting.headers.fields import Header


class QueryConsumerOffset(Header, code=RequestCode.QUERY_CONSUMER_OFFSET):
    """Up to where has a group consumed a queue?"""

    consumer_group: str
    topic: str
    queue_id: int
    set_zero_if_not_found: bool | None = None


class UpdateConsumerOffset(Header, code=RequestCode.UPDATE_CONSUMER_OFFSET):
    """A group has consumed a queue up to here. Often without wanting an answer."""

    consumer_group: str
    topic: str
    queue_id: int
    commit_offset: int


class GetMaxOffset(Header, code=RequestCode.GET_MAX_OFFSET):
    """The offset which the next message will get."""

    topic: str
    queue_id: int


class GetMinOffset(Header, code=RequestCode.GET_MIN_OFFSET):
    """The oldest offset that is kept."""

    topic: str
    queue_id: int


class SearchOffset(Header, code=RequestCode.SEARCH_OFFSET_BY_TIMESTAMP):
    """The offset of a time in milliseconds."""

    topic: str
    queue_id: int
    timestamp: int
    boundary_type: str | None = None  # lower, or upper: the last one not later


class OffsetResult(Header):
    """The answer to every question for an offset."""

    offset: int


class EarliestStoreTime(Header, code=RequestCode.GET_EARLIEST_MSG_STORETIME):
    """When was the oldest message stored?"""

    topic: str
    queue_id: int


class TimestampResult(Header):
    """Milliseconds, or -1."""

    timestamp: int


class ResetOffset(Header, code=RequestCode.RESET_CONSUMER_CLIENT_OFFSET):
    """Go back, or forward, to a time. 222 asks the broker, with 220 it notifies the members."""

    topic: str
    group: str
    timestamp: int = -1  # the end
    is_force: bool = True
    queue_id: int | None = None
    offset: int | None = None


class GetConsumerStatus(Header, code=RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT):
    """The offsets which members have in memory; 223 asks the broker, with 221 it asks them."""

    topic: str
    group: str
