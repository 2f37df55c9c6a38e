"""Headers of pulls, and of requests for single messages."""

from __future__ import annotations

from headrace.wire.remoting.codes import RequestCode, ResponseCode
from headrace.wire.remoting.headers.fields import Header, named

TAG = "TAG"  # kinds of expressions
SQL92 = "SQL92"


class PullMessage(Header, code=RequestCode.PULL_MESSAGE):
    """Messages of one queue from an offset on."""

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


class PullResult(Header):
    """Where to go on; in every answer to a pull, whatever its code."""

    suggest_which_broker_id: int
    next_begin_offset: int
    min_offset: int
    max_offset: int


class ViewMessage(Header, code=RequestCode.VIEW_MESSAGE_BY_ID):
    """One message by its physical offset."""

    offset: int
    topic: str | None = None


class QueryMessage(Header, code=RequestCode.QUERY_MESSAGE):
    """Messages by a key, or by their producer's id."""

    topic: str
    key: str
    max_num: int
    begin_timestamp: int = 0
    end_timestamp: int = (1 << 63) - 1
    by_unique_key: bool | None = named("_UNIQUE_KEY_QUERY", None)


class QueryResult(Header):
    """How far the index is."""

    index_last_update_timestamp: int = 0
    index_last_update_phyoffset: int = 0
