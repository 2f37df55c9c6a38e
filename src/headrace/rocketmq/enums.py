"""The enumerations of the SDK. Their values are the texts that users know, so both work."""

from __future__ import annotations

from enum import StrEnum


class MessageModel(StrEnum):
    """Whether the members of a group share the messages or each gets all of them."""

    CLUSTERING = "CLUSTERING"
    BROADCASTING = "BROADCASTING"


class ConsumeFromWhere(StrEnum):
    """Where a group begins that has no stored offset."""

    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class AllocateQueueStrategy(StrEnum):
    """How the queues of a topic are shared; every member of a group must use the same."""

    AVERAGE = "AVG"
    AVERAGE_BY_CIRCLE = "AVG_BY_CIRCLE"
    HASH = "HASH"
    CONSISTENT_HASH = "CONSISTENT_HASH"
    CONFIGURATION = "CONFIGURATION"
    MACHINE_ROOM = "MACHINE_ROOM"


class ConsumeResult(StrEnum):
    """What a listener says about the messages it was given."""

    SUCCESS = "CONSUME_SUCCESS"
    RECONSUME_LATER = "RECONSUME_LATER"
    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"
    SUSPEND_CURRENT_QUEUE_A_MOMENT = "SUSPEND_CURRENT_QUEUE_A_MOMENT"


class ReadOffsetType(StrEnum):
    """Where an offset is looked up."""

    MEMORY_FIRST_THEN_STORE = "MEMORY_FIRST_THEN_STORE"
    READ_FROM_MEMORY = "READ_FROM_MEMORY"
    READ_FROM_STORE = "READ_FROM_STORE"


class OffsetFileFormat(StrEnum):
    """How a local offset file is written; both are read, whatever is set."""

    JSON = "JSON"
    LINES = "LINES"
    """`topic@broker:queue=offset`, one queue per line."""


class SelectorType(StrEnum):
    """The language of a selector's expression."""

    TAG = "TAG"
    SQL92 = "SQL92"


class ConflictType(StrEnum):
    """In what a new subscription differs from the one that exists."""

    SELECTOR_TYPE_MISMATCH = "SELECTOR_TYPE_MISMATCH"
    EXPRESSION_MISMATCH = "EXPRESSION_MISMATCH"


class SendStatus(StrEnum):
    """What the broker had done when it answered. The message is stored in every case."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


class LocalTransactionState(StrEnum):
    """What became of the local transaction that a half message waits for."""

    COMMIT_MESSAGE = "COMMIT_MESSAGE"
    ROLLBACK_MESSAGE = "ROLLBACK_MESSAGE"
    UNKNOWN = "UNKNOW"
