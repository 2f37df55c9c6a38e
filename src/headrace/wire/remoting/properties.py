"""Properties of a message: names and values in one text, `name 0x01 value 0x02`, repeated."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.errors import PreconditionFailed

NAME_END = "\x01"
VALUE_END = "\x02"
PROPERTIES_MAX = 0x7FFF  # bytes

KEYS = "KEYS"  # separated by one blank
TAGS = "TAGS"
WAIT = "WAIT"  # "false": answer before the message is safe
DELAY = "DELAY"  # level, see codes.LEVELS
UNIQ_KEY = "UNIQ_KEY"  # the producer's id of the message
CLUSTER = "CLUSTER"
RETRY_TOPIC = "RETRY_TOPIC"  # where a retried message came from
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
REAL_TOPIC = "REAL_TOPIC"  # where a delayed or half message belongs
REAL_QUEUE_ID = "REAL_QID"
TRANSACTION_PREPARED = "TRAN_MSG"
PRODUCER_GROUP = "PGROUP"
TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
CHECK_IMMUNITY_TIME = "CHECK_IMMUNITY_TIME_IN_SECONDS"
MAX_OFFSET = "MAX_OFFSET"
MSG_REGION = "MSG_REGION"
TRACE_ON = "TRACE_ON"
SHARDING_KEY = "__SHARDINGKEY"
TIMER_DELAY_SEC = "TIMER_DELAY_SEC"
TIMER_DELAY_MS = "TIMER_DELAY_MS"
TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
TIMER_OUT_MS = "TIMER_OUT_MS"
INSTANCE_ID = "INSTANCE_ID"
CORRELATION_ID = "CORRELATION_ID"
REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
TTL = "TTL"
MESSAGE_TYPE = "MSG_TYPE"

# Users cannot give these a meaning of their own.
RESERVED = frozenset(
    {
        KEYS,
        TAGS,
        WAIT,
        DELAY,
        UNIQ_KEY,
        CLUSTER,
        RETRY_TOPIC,
        ORIGIN_MESSAGE_ID,
        "RECONSUME_TIME",
        "MAX_RECONSUME_TIMES",
        REAL_TOPIC,
        REAL_QUEUE_ID,
        TRANSACTION_PREPARED,
        PRODUCER_GROUP,
        "__transactionId__",
        TRANSACTION_CHECK_TIMES,
        CHECK_IMMUNITY_TIME,
        "TRAN_PREPARED_QUEUE_OFFSET",
        "MIN_OFFSET",
        MAX_OFFSET,
        "CONSUME_START_TIME",
        MSG_REGION,
        TRACE_ON,
        SHARDING_KEY,
        TIMER_DELAY_SEC,
        TIMER_DELAY_MS,
        TIMER_DELIVER_MS,
        TIMER_OUT_MS,
        INSTANCE_ID,
        CORRELATION_ID,
        REPLY_TO_CLIENT,
        TTL,
        MESSAGE_TYPE,
        "ARRIVE_TIME",
        PUSH_REPLY_TIME,
        "BUYER_ID",
        "TRANSFER_FLAG",
        "CORRECTION_FLAG",
        "MQ2_FLAG",
        "POP_CK",
        "POP_CK_OFFSET",
        "1ST_POP_TIME",
        "DLQ_ORIGIN_TOPIC",
        "DLQ_ORIGIN_MESSAGE_ID",
        "__BORNHOST",
        "BORN_TIMESTAMP",
        "INNER_NUM",
        "INNER_BASE",
        "INNER_MULTI_DISPATCH",
        "INNER_MULTI_QUEUE_OFFSET",
        "EXTEND_UNIQ_INFO",
        "__CRC32#",
    }
)


def properties_text(properties: Mapping[str, str]) -> str:
    """Empty values are left out, as Java does; PreconditionFailed when it cannot be encoded.

    Readers take everything up to the first character 1 as the name: values may contain it.
    """
    text = "".join(
        [f"{name}{NAME_END}{value}{VALUE_END}" for name, value in properties.items() if value]
    )
    said = sum(map(bool, properties.values()))
    is_ambiguous = text.count(NAME_END) != said and any(NAME_END in name for name in properties)
    if "" in properties or is_ambiguous or text.count(VALUE_END) != said:
        raise PreconditionFailed(
            "a property has an empty name, character 1 in its name, or character 2: "
            "these separate properties"
        )
    return text


def properties_bytes(properties: Mapping[str, str]) -> bytes:
    """The same as bytes; PreconditionFailed above 32767 of them."""
    raw = properties_text(properties).encode("utf-8", "replace")
    if len(raw) > PROPERTIES_MAX:
        raise PreconditionFailed(
            f"the properties have {len(raw)} bytes; {PROPERTIES_MAX} are allowed"
        )
    return raw


def take_properties(text: str) -> dict[str, str]:
    """Tolerant: what has no name or no value is left out, the last separator may be missing."""
    found: dict[str, str] = {}
    for part in text.split(VALUE_END):
        name, _, value = part.partition(NAME_END)
        if name and value:
            found[name] = value
    return found
