"""Headers of sends, of messages sent back, of replies, and of transactions."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.wire.remoting.codes import RequestCode, SysFlag
from headrace.wire.remoting.headers.fields import Header, named
from headrace.wire.remoting.names import TEMPLATE_TOPIC


class SendMessage(Header, code=RequestCode.SEND_MESSAGE):
    """A send under its long names, those of the first version."""

    producer_group: str
    topic: str
    queue_id: int
    sys_flag: int
    born_timestamp: int
    flag: int = 0
    properties: str = ""
    reconsume_times: int = 0
    unit_mode: bool = False
    max_reconsume_times: int | None = None
    batch: bool = False
    default_topic: str = TEMPLATE_TOPIC
    default_topic_queue_nums: int = 4
    broker_name: str | None = named("bname", None)

    def ext_v2(self) -> dict[str, str]:
        """The same under the short names."""
        return {_SHORT[name]: value for name, value in self.ext().items()}


# Version 2 saves bytes; the names are all that differs.
_SHORT = {
    "producerGroup": "a",
    "topic": "b",
    "defaultTopic": "c",
    "defaultTopicQueueNums": "d",
    "queueId": "e",
    "sysFlag": "f",
    "bornTimestamp": "g",
    "flag": "h",
    "properties": "i",
    "reconsumeTimes": "j",
    "unitMode": "k",
    "maxReconsumeTimes": "l",
    "batch": "m",
    "bname": "n",
}
_LONG = {short: long for long, short in _SHORT.items()}
_SHORT_CODES = frozenset(
    {
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE_V2,
    }
)
SEND_CODES = _SHORT_CODES | {RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE}


def take_send(code: int, ext: Mapping[str, str]) -> SendMessage:
    """The header of any send. Some clients use the long names with a code of the short ones."""
    if code in _SHORT_CODES and "b" in ext:
        ext = {_LONG[name]: value for name, value in ext.items() if name in _LONG}
    return SendMessage.take(ext)


class SendResponse(Header):
    """Where the message is now. ``msg_id``: offset ids, joined by commas after a batch."""

    msg_id: str
    queue_id: int
    queue_offset: int
    transaction_id: str | None = None
    region: str | None = named("MSG_REGION", None)
    trace_on: bool | None = named("TRACE_ON", None)
    recall_handle: str | None = None


class SendBack(Header, code=RequestCode.CONSUMER_SEND_MSG_BACK):
    """A consumer could not use a message: retry later, or dead-letter it (level -1)."""

    offset: int  # physical
    group: str
    delay_level: int
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: int | None = None
    broker_name: str | None = named("bname", None)


class RecallMessage(Header, code=RequestCode.RECALL_MESSAGE):
    """Do not deliver a timed message. The answer has its ``msg_id``."""

    producer_group: str
    topic: str
    recall_handle: str
    broker_name: str | None = named("bname", None)


class PushReply(Header, code=RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT):
    """A reply on its way to the client that asked."""

    producer_group: str
    topic: str
    queue_id: int
    sys_flag: int
    born_timestamp: int
    flag: int = 0
    born_host: str = ""
    store_host: str = ""
    store_timestamp: int = 0
    properties: str = ""
    reconsume_times: int = 0
    unit_mode: bool = False
    default_topic: str = TEMPLATE_TOPIC
    default_topic_queue_nums: int = 4


COMMIT = int(SysFlag.TRANSACTION_COMMIT)
ROLLBACK = int(SysFlag.TRANSACTION_ROLLBACK)
UNKNOWN = 0


class EndTransaction(Header, code=RequestCode.END_TRANSACTION):
    """Commit, roll back, or not known yet."""

    producer_group: str
    tran_state_table_offset: int  # queue offset of the half message
    commit_log_offset: int  # its physical offset
    commit_or_rollback: int
    from_transaction_check: bool = False
    msg_id: str = ""
    transaction_id: str | None = None
    topic: str | None = None
    broker_name: str | None = named("bname", None)


class CheckTransaction(Header, code=RequestCode.CHECK_TRANSACTION_STATE):
    """The broker asks what became of a half message; the body is the message."""

    tran_state_table_offset: int
    commit_log_offset: int
    msg_id: str | None = None  # the producer's id
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    topic: str | None = None
    broker_name: str | None = named("bname", None)
