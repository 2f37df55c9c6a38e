"""Messages as brokers store and send them; they follow each other without separators.

int32 size | int32 magic | int32 CRC of the body | int32 queue | int32 flag
int64 queue offset | int64 physical offset | int32 system flag
int64 born at | host | int64 stored at | host | int32 reconsume times | int64 prepared offset
int32 length, body | int8 or int16 length, topic | int16 length, properties

A message of a batch, before it is stored:
int32 size | int32 0 | int32 0 | int32 flag | int32 length, body | int16 length, properties
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from struct import error as StructError
from typing import Any, NamedTuple
from zlib import crc32

from headrace.errors import MalformedError
from headrace.wire.remoting import properties as names
from headrace.wire.remoting.codes import SysFlag
from headrace.wire.remoting.message_ids import take_host
from headrace.wire.remoting.properties import take_properties

MAGIC = 0xDAA320A7
MAGIC_LONG_TOPIC = 0xDAA320AB
BLANK = 0xCBD43194  # filler at the end of a file
CRC_MASK = 0x7FFFFFFF
SHORT_TOPIC_MAX = 127
MIN_SIZE = 91

_FRONT = Struct(">iIiiiqqiq")  # to the time of birth
_AFTER_HOSTS = Struct(">iqi")  # to the length of the body
_FRONT_V4 = Struct(">iIiiiqqiq8sq8siqi")  # the same, with hosts as nearly all messages have them
_SIZE = Struct(">i")
_TIME = Struct(">q")
_SHORT = Struct(">h")
# Plain numbers: members of an enumeration cost more than the rest of the work.
_BORN_V6, _STORE_V6 = int(SysFlag.BORN_HOST_V6), int(SysFlag.STORE_HOST_V6)
_ANY_V6 = _BORN_V6 | _STORE_V6
_V4 = ~_ANY_V6


# Topic, body, properties, queue, queue offset, physical offset, flag, system flag, born at, host,
# stored at, host, reconsume times, prepared offset, size, CRC of the body as it is stored.
Parts = tuple[Any, ...]


def stored_bytes(
    *,
    topic: bytes,
    body: bytes,
    properties: bytes,
    flag: int,
    queue_id: int,
    queue_offset: int,
    physical_offset: int,
    sys_flag: int,
    born_timestamp: int,
    born_host: bytes,
    store_timestamp: int,
    store_host: bytes,
    reconsume_times: int = 0,
    prepared_transaction_offset: int = 0,
) -> bytes:
    """A message as a broker stores and sends it."""
    sys_flag &= _V4
    if len(born_host) > 8:
        sys_flag |= _BORN_V6
    if len(store_host) > 8:
        sys_flag |= _STORE_V6
    long_topic = len(topic) > SHORT_TOPIC_MAX
    if len(topic) > 0x7FFF or len(properties) > names.PROPERTIES_MAX:
        raise MalformedError("a topic or properties of more than 32767 bytes")
    size = 75 + len(born_host) + len(store_host) + long_topic
    size += len(body) + len(topic) + len(properties)
    try:
        front = _FRONT.pack(
            size,
            MAGIC_LONG_TOPIC if long_topic else MAGIC,
            crc32(body) & CRC_MASK,
            queue_id,
            flag,
            queue_offset,
            physical_offset,
            sys_flag,
            born_timestamp,
        )
        middle = _AFTER_HOSTS.pack(reconsume_times, prepared_transaction_offset, len(body))
        stored = _TIME.pack(store_timestamp)
    except StructError as error:
        raise MalformedError(f"a message with a number out of range: {error}") from None
    return b"".join(
        (
            front,
            born_host,
            stored,
            store_host,
            middle,
            body,
            _SHORT.pack(len(topic)) if long_topic else bytes((len(topic),)),
            topic,
            _SHORT.pack(len(properties)),
            properties,
        )
    )


def take_parts(data: bytes) -> Iterator[Parts]:
    """The messages in ``data``, one after the other; MalformedError where they end to be some."""
    place = 0
    while place < len(data):
        size, magic = _head(data, place)
        if magic != BLANK:
            yield _take(data, place, size, magic == MAGIC_LONG_TOPIC)
        place += size


def _head(data: bytes, place: int) -> tuple[int, int]:
    if len(data) - place < 8:
        raise MalformedError(f"{len(data) - place} bytes are left over after a message")
    size, magic = _SIZE.unpack_from(data, place)[0], int.from_bytes(data[place + 4 : place + 8])
    if magic not in (MAGIC, MAGIC_LONG_TOPIC, BLANK):
        raise MalformedError(f"no message begins with {magic:#x}")
    if not (8 if magic == BLANK else MIN_SIZE) <= size <= len(data) - place:
        raise MalformedError(f"a message of {size} bytes, where {len(data) - place} are left")
    return size, magic


def _take(data: bytes, start: int, size: int, long_topic: bool) -> Parts:
    end = start + size
    front = _FRONT_V4.unpack_from(data, start)  # there are MIN_SIZE bytes, which are more
    sys_flag = front[7]
    try:
        if sys_flag & _ANY_V6:
            front, place = _front(data, start, sys_flag)
        else:
            place = start + _FRONT_V4.size
        body, place = _cut(data, place, front[14], end)
        length = _SHORT.unpack_from(data, place)[0] if long_topic else data[place]
        topic, place = _cut(data, place + 1 + long_topic, length, end)
        (length,) = _SHORT.unpack_from(data, place)
        properties, place = _cut(data, place + 2, length, end)
    except (StructError, IndexError):
        raise MalformedError("a message that is shorter than its parts") from None
    if place != end:
        raise MalformedError("a message that is longer than its parts")
    return (
        topic.decode("utf-8", "replace"),
        body,
        take_properties(properties.decode("utf-8", "replace")),
        front[3],
        front[5],
        front[6],
        front[4],
        sys_flag,
        front[8],
        take_host(front[9]),
        front[10],
        take_host(front[11]),
        front[12],
        front[13],
        size,
        front[2],
    )


def _front(data: bytes, start: int, sys_flag: int) -> tuple[tuple[Any, ...], int]:
    """Everything before the body, where a host is of IPv6, and where the body begins."""
    front = _FRONT.unpack_from(data, start)
    born_host, place = _host(data, start + _FRONT.size, sys_flag & _BORN_V6)
    times = _TIME.unpack_from(data, place)
    store_host, place = _host(data, place + 8, sys_flag & _STORE_V6)
    rest = _AFTER_HOSTS.unpack_from(data, place)
    return (*front, born_host, *times, store_host, *rest), place + _AFTER_HOSTS.size


def _host(data: bytes, place: int, v6: int) -> tuple[bytes, int]:
    end = place + (20 if v6 else 8)
    if end > len(data):
        raise MalformedError("a message that is shorter than its parts")
    return data[place:end], end


def _cut(data: bytes, start: int, length: int, end: int) -> tuple[bytes, int]:
    stop = start + length
    if length < 0 or stop > end:
        raise MalformedError(f"a length of {length} inside a message with {end - start} bytes left")
    return data[start:stop], stop


_ELEMENT = Struct(">iiiii")  # size, magic, CRC, flag, length of the body
_LENGTH = Struct(">H")
_ELEMENT_EXTRA = _ELEMENT.size + 2


class BatchElement(NamedTuple):
    """One message of a batch; ``properties`` are in their stored form."""

    flag: int
    body: bytes
    properties: bytes


def batch_bytes(elements: Iterable[BatchElement]) -> bytes:
    """The body of SEND_BATCH_MESSAGE."""
    parts: list[bytes] = []
    for flag, body, properties in elements:
        if len(properties) > 0x7FFF:
            raise MalformedError(f"properties of {len(properties)} bytes; 32767 are allowed")
        parts += (
            _ELEMENT.pack(_ELEMENT_EXTRA + len(body) + len(properties), 0, 0, flag, len(body)),
            body,
            _LENGTH.pack(len(properties)),
            properties,
        )
    return b"".join(parts)


def take_batch(data: bytes) -> Iterator[BatchElement]:
    """The messages of a batch; MalformedError where a length is wrong."""
    place, end = 0, len(data)
    while place < end:
        if end - place < _ELEMENT_EXTRA:
            raise MalformedError(f"{end - place} bytes are left over after a message of a batch")
        size, _, _, flag, length = _ELEMENT.unpack_from(data, place)
        start = place + _ELEMENT.size
        middle, stop = start + length, place + size
        if length < 0 or size < _ELEMENT_EXTRA or stop > end or middle + 2 > stop:
            raise MalformedError(f"a message of {size} bytes with {length} of body in a batch")
        (length,) = _LENGTH.unpack_from(data, middle)
        if middle + 2 + length != stop:
            raise MalformedError(f"properties of {length} bytes do not fill a message of a batch")
        yield BatchElement(flag, data[start:middle], data[middle + 2 : stop])
        place = stop
