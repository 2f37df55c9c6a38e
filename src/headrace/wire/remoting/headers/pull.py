"""Headers of pulls, offsets and searches."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.wire.remoting.codes import RequestCode, ResponseCode
from headrace.wire.remoting.headers.fields import Header, named

TAG = "TAG"  # kinds of expressions
SQL92 = "SQL92"


@dataclass(frozen=True, slots=True)
class PullMessage(Header):
    """Messages of one queue from an offset on."""

    CODE = RequestCode.PULL_MESSAGE

    consumer_group: str
    topic: str
    queue_id: int
    queue_offset: int
    max_msg_nums: int
    sys_flag: int
    commit_offset: int = 0
    suspend_timeout_millis: int = 0
    subscription: str | None = None
    sub_version: int = 0
    expression_type: str | None = None
    max_msg_bytes: int | None = None
    broker_name: str | None = named("bname", None)


PULL_CODES = (
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)


@dataclass(frozen=True, slots=True)
class PullResult(Header):
    """Where to go on; in every answer to a pull, whatever its code."""

    suggest_which_broker_id: int
    next_begin_offset: int
    min_offset: int
    max_offset: int


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
class ViewMessage(Header):
    """One message by its physical offset."""

    CODE = RequestCode.VIEW_MESSAGE_BY_ID

    offset: int
    topic: str | None = None


@dataclass(frozen=True, slots=True)
class QueryMessage(Header):
    """Messages by a key, or by their producer's id."""

    CODE = RequestCode.QUERY_MESSAGE

    topic: str
    key: str
    max_num: int
    begin_timestamp: int = 0
    end_timestamp: int = (1 << 63) - 1
    by_unique_key: bool | None = named("_UNIQUE_KEY_QUERY", None)


@dataclass(frozen=True, slots=True)
class QueryResult(Header):
    """How far the index is."""

    index_last_update_timestamp: int = 0
    index_last_update_phyoffset: int = 0
