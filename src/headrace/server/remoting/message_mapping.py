"""Messages of RocketMQ <-> entries of topics.

Tag, producer's id and the first key have fields of their own in an entry; what only RocketMQ knows
travels as properties whose names begin with `$rocketmq.`. Queue ids of a topic with q queues:
middle 0 .. q-1, high q .. 2q-1, low 2q .. 3q-1. The physical offset of a message is the number of
its partition in the log << 40, plus its offset there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from headrace.core.topics.amqp_mapping import RAW as AMQP_RAW
from headrace.core.topics.log_topic import LogTopic
from headrace.errors import BadTopicValue, MessageIllegal, PreconditionFailed
from headrace.model.topics.message_priority import Priority
from headrace.model.topics.partitions import Partition
from headrace.store.topics.entry import decode_entry, encode_parts
from headrace.store.topics.reads import LoadedEntries
from headrace.wire.remoting import properties as names
from headrace.wire.remoting.message import stored_bytes
from headrace.wire.remoting.message_ids import NOWHERE, HostAddress, as_v4, host_bytes
from headrace.wire.remoting.properties import NAME_END, VALUE_END, properties_bytes

OFFSET_BITS = 40
OFFSET_MASK = (1 << OFFSET_BITS) - 1


def partition_of(topic: LogTopic, queue_id: int) -> Partition:
    """The track behind a queue id; BadTopicValue when the topic has none of that id."""
    queues = topic.queues
    if not 0 <= queue_id < queues * len(Priority):
        raise BadTopicValue(
            f"topic '{topic.name}' has no queue {queue_id}: they are 0 to {read_queues(topic) - 1}"
        )
    return Partition(Priority(queue_id // queues), queue_id % queues)


def queue_id_of(topic: LogTopic, track: Partition) -> int:
    return int(track[0]) * topic.queues + track[1]


def read_queues(topic: LogTopic) -> int:
    """Queues to read from: they grow with the lanes that are in use."""
    lanes = [int(track[0]) for track in topic.bounds()]
    return topic.queues * (max(lanes, default=0) + 1)


def each_entry(loaded: list[LoadedEntries]) -> list[tuple[int, int, bytes]]:
    """Offset, time and content of what was loaded."""
    return [
        (offset, one.time, content)
        for one in loaded
        for offset, content in zip(one.offsets, one.contents, strict=True)
    ]


def physical_offset(number: int, offset: int) -> int:
    return number << OFFSET_BITS | offset


def split_physical(physical: int) -> tuple[int, int]:
    """The number of a track, and the offset in it."""
    return physical >> OFFSET_BITS, physical & OFFSET_MASK


MAX_DELAY_MS = 40 * 24 * 3600 * 1000
OWN = "$rocketmq."
_FLAG, _SYS_FLAG, _PORT, _TIMES, _PREPARED = (
    OWN + name for name in ("flag", "sysflag", "bornport", "reconsume", "prepared")
)
INT32 = range(-(1 << 31), 1 << 31)
_INT64 = range(-(1 << 63), 1 << 63)
_PORTS = range(1 << 16)
REAL_PRIORITY = OWN + "lane"  # of a message in a hidden topic, unless it is the middle one
_RARE = frozenset({_FLAG, _SYS_FLAG, _TIMES, _PREPARED})
_NOT_SHOWN = _RARE | {_PORT, AMQP_RAW}


class TopicRecord(NamedTuple):
    """What a producer sent, and what happened to it since."""

    body: bytes
    properties: Mapping[str, str]
    flag: int = 0
    sys_flag: int = 0
    born: int = 0
    born_host: HostAddress = NOWHERE
    reconsume_times: int = 0
    prepared: int = 0  # physical offset of the half message it comes from

    def with_properties(self, **changes: str | None) -> TopicRecord:
        """The same with other properties; None takes one away."""
        merged = {**self.properties, **changes}
        kept = {name: value for name, value in merged.items() if value is not None}
        return self._replace(properties=kept)


def hide(record: TopicRecord, topic: str, queue_id: int, priority: Priority) -> TopicRecord:
    """The message as it waits in a hidden topic, knowing where it belongs."""
    return record.with_properties(
        **{
            names.REAL_TOPIC: topic,
            names.REAL_QUEUE_ID: str(queue_id),
            REAL_PRIORITY: priority.name if priority is not Priority.MIDDLE else None,
        }
    )


def reveal(record: TopicRecord) -> TopicRecord:
    """The same when it leaves the hidden topic."""
    return record.with_properties(
        **{names.REAL_TOPIC: None, names.REAL_QUEUE_ID: None, REAL_PRIORITY: None}
    )


def delay_of(properties: Mapping[str, str], now_ms: int) -> tuple[int, int]:
    """The delay level of a message and its due time; 0 for none; MessageIllegal.

    As with Apache's brokers, a level takes precedence over a time, and seconds over milliseconds.
    """
    level = _delay(properties, names.DELAY) or 0
    if level > 0 or names.TIMER_OUT_MS in properties:  # that has waited before
        return max(level, 0), 0
    seconds = _delay(properties, names.TIMER_DELAY_SEC)
    after_ms = _delay(properties, names.TIMER_DELAY_MS) if seconds is None else seconds * 1000
    due_ms = _delay(properties, names.TIMER_DELIVER_MS) if after_ms is None else now_ms + after_ms
    if due_ms is None or due_ms <= now_ms:
        return 0, 0
    if due_ms - now_ms > MAX_DELAY_MS:
        raise MessageIllegal(
            f"a delay of {(due_ms - now_ms) // 1000} s; {MAX_DELAY_MS // 1000} s (40 days) at most"
        )
    return 0, due_ms


def _delay(properties: Mapping[str, str], name: str) -> int | None:
    text = properties.get(name)
    if text is None:
        return None
    value = whole_number(text.removeprefix("-"))
    if value is None:
        raise MessageIllegal(f"{name} is '{text:.40}', which is not a whole number")
    return -value if text.startswith("-") else value


def whole_number(text: str | None) -> int | None:
    """None for what is none, or has more than 15 digits."""
    valid = text is not None and text.isascii() and text.isdecimal() and len(text) <= 15
    return int(text) if valid and text is not None else None


def encode_record(record: TopicRecord) -> bytes:
    """The entry as topics keep it."""
    given = dict(record.properties)
    tags, unique = given.pop(names.TAGS, None), given.pop(names.UNIQ_KEY, None)
    keys = given.get(names.KEYS, "")
    key = keys.split(" ", 1)[0] or None
    if key == keys:
        del given[names.KEYS]
    address, port = record.born_host
    if port:
        given[_PORT] = str(port)
    if record.flag or record.sys_flag or record.reconsume_times or record.prepared:
        for name, value in (
            (_FLAG, record.flag),
            (_SYS_FLAG, record.sys_flag),
            (_TIMES, record.reconsume_times),
            (_PREPARED, record.prepared),
        ):
            if value:
                given[name] = str(value)
    return encode_parts(record.body, "", key, tags, address, unique, record.born, given)


def take_record(content: bytes) -> TopicRecord:
    """The message in an entry of any producer."""
    parts = decode_entry(content)
    own = parts.properties
    shown = {name: value for name, value in own.items() if name not in _NOT_SHOWN and value}
    if parts.tags:
        shown[names.TAGS] = parts.tags
    if parts.message_id:
        shown[names.UNIQ_KEY] = parts.message_id
    if parts.key and names.KEYS not in shown:
        shown[names.KEYS] = parts.key
    port = _number(own, _PORT, _PORTS)
    born_host = as_v4(HostAddress(parts.source_ip or NOWHERE.address, port))
    if _RARE.isdisjoint(own):
        return TopicRecord(parts.body, shown, 0, 0, parts.born or 0, born_host)
    return TopicRecord(
        parts.body,
        shown,
        _number(own, _FLAG),
        _number(own, _SYS_FLAG),
        parts.born or 0,
        born_host,
        _number(own, _TIMES),
        _number(own, _PREPARED, _INT64),
    )


def _number(own: Mapping[str, str], name: str, values: range = INT32) -> int:
    """Others may have written such a property; then it is not ours."""
    text = own.get(name)
    try:
        value = int(text) if text is not None else 0
    except ValueError:
        return 0
    return value if value in values else 0


def sent_bytes(
    record: TopicRecord,
    topic: bytes,
    queue_id: int,
    offset: int,
    physical: int,
    time: int,
    host: bytes,
) -> bytes:
    """A message as pulls give it."""
    text = _writable(record.properties)
    return stored_bytes(
        topic=topic,
        body=record.body,
        properties=text,
        flag=record.flag,
        queue_id=queue_id,
        queue_offset=offset,
        physical_offset=physical,
        sys_flag=record.sys_flag,
        born_timestamp=record.born,
        born_host=host_bytes(record.born_host),
        store_timestamp=time,
        store_host=host,
        reconsume_times=record.reconsume_times,
        prepared_transaction_offset=record.prepared,
    )


def _writable(properties: Mapping[str, str]) -> bytes:
    """Properties that other protocols gave may be more than RocketMQ can say: the rest stays."""
    try:
        return properties_bytes(properties)
    except PreconditionFailed:
        pass
    kept: dict[str, str] = {}
    room = names.PROPERTIES_MAX
    for name, value in properties.items():
        size = len(name.encode()) + len(value.encode()) + 2
        if size <= room and name and NAME_END not in name and VALUE_END not in name + value:
            kept[name] = value
            room -= size
    return properties_bytes(kept)
