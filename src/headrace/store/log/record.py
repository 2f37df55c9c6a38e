"""Records of the commit log <-> bytes; the layout is in wire/record_layout. No files, no clock."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import chain
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from headrace.store.api.message_log import OutgoingMessages, RecordDestination
from headrace.wire.record_layout import (
    DESTINATION,
    GROUP,
    MESSAGES,
    RECORD_HEAD,
    RECORD_HEAD_SIZE,
    REQUEUED,
    ROUTE,
    SETTLED,
)

KINDS = frozenset((MESSAGES, SETTLED, REQUEUED, GROUP))
HEAD_SIZE: Final = RECORD_HEAD_SIZE

_AFTER_CRC = Struct("<IIBBHIIQ")
_CRC = Struct("<I")
_RANGES = {SETTLED: Struct("<QQQ"), REQUEUED: Struct("<QQQQ")}
ALIGN = 8
AT_ONCE = 4096  # sums of messages between which the writer's thread lets others run
assert array("I").itemsize == 4 and array("Q").itemsize == 8

_PADDING = [bytes(n) for n in range(ALIGN)]


class RecordHead(NamedTuple):
    """The fixed part of every record."""

    crc: int
    size: int
    head_size: int
    kind: int
    level: int
    destinations: int
    items: int
    body_crc: int
    time: int


class MessagesHead(NamedTuple):
    """The head of a MESSAGES record, decoded."""

    exchange: str
    key: str
    channel_number: int
    ttl_ms: int | None
    time: int
    placed: tuple[RecordDestination, ...]
    lengths: Sequence[int]
    crcs: Sequence[int]
    head_size: int


def _seal(kind: int, head: bytes, *, size: int, seed: int, count: int, time: int, level: int = 0,
          destinations: int = 0, body_crc: int = 0) -> bytes:  # fmt: skip
    """Fixed part and ``head`` (what follows it, before the contents), with the sum in front."""
    head_size = HEAD_SIZE + len(head)
    rest = _AFTER_CRC.pack(size, head_size, kind, level, destinations, count, body_crc, time) + head
    return _CRC.pack(crc32(rest, seed)) + rest


def padding(size: int) -> bytes:
    """What fills ``size`` up to a multiple of 8."""
    return _PADDING[-size % ALIGN]


def messages_parts(
    out: OutgoingMessages, *, seed: int, time: int, synced: int = 0
) -> tuple[list[bytes], int]:
    """A MESSAGES record as pieces to be written one after the other, and its size."""
    contents = out.contents
    lengths, crcs = array("I", map(len, contents)), array("I", map(crc32, contents[:AT_ONCE]))
    for start in range(AT_ONCE, len(contents), AT_ONCE):
        crcs.extend(map(crc32, contents[start : start + AT_ONCE]))
    head = _route(out) + lengths.tobytes() + crcs.tobytes()
    size = HEAD_SIZE + len(head) + sum(lengths)
    pad = padding(size)
    size += len(pad)
    sealed = _seal(
        MESSAGES,
        head,
        size=size,
        seed=seed,
        count=len(contents),
        time=time,
        level=out.level,
        destinations=len(out.placed),
        body_crc=synced,
    )
    return ([sealed, *contents, pad] if pad else [sealed, *contents]), size


def messages_size(out: OutgoingMessages) -> int:
    """The size of the record that messages_parts() makes; raises what would keep it from that."""
    size = HEAD_SIZE + len(_route(out)) + 8 * len(out.contents) + sum(map(len, out.contents))
    return check_size(size + len(padding(size)), len(out.placed))


def check_size(size: int, destinations: int = 0) -> int:
    _AFTER_CRC.pack(size, 0, 0, 0, destinations, 0, 0, 0)
    return size


def _route(out: OutgoingMessages) -> bytes:
    """The head of a MESSAGES record between its fixed part and its tables."""
    exchange = out.exchange.encode("utf-8", "surrogateescape")
    key = out.key.encode("utf-8", "surrogateescape")
    ttl = 0 if out.ttl_ms is None else out.ttl_ms + 1
    names = exchange + key
    return b"".join(
        (
            ROUTE.pack(ttl, out.channel_number, len(exchange), len(key), 0),
            names,
            padding(len(names)),
            *[DESTINATION.pack(one.queue, one.first, one.count) for one in out.placed],
        )
    )


def ranges_size(kind: int, count: int) -> int:
    """The size of the record that ranges_bytes() makes."""
    return HEAD_SIZE + _RANGES[kind].size * count


def ranges_bytes(
    kind: int, ranges: Sequence[tuple[int, ...]], *, seed: int, time: int, synced: int = 0
) -> bytes:
    """A SETTLED record: (queue, first, stop) each; a REQUEUED one: and deliveries."""
    head = array("Q", chain.from_iterable(ranges)).tobytes()
    size = HEAD_SIZE + len(head)
    return _seal(kind, head, size=size, seed=seed, count=len(ranges), time=time, body_crc=synced)


def group_head(body: bytes, count: int, *, seed: int, time: int) -> bytes:
    """What stands before the records of a group."""
    return _seal(
        GROUP,
        b"",
        size=HEAD_SIZE + len(body),
        seed=seed,
        count=count,
        time=time,
        body_crc=crc32(body),
    )


def empty_group(size: int, *, seed: int) -> bytes:
    """A group of no records: it says nothing, in as many bytes as it is given."""
    body = bytes(size - HEAD_SIZE)
    return group_head(body, 0, seed=seed, time=0) + body


# -- reading ------------------------------------------------------------------------------------


def read_head(data: bytes, offset: int = 0) -> RecordHead | None:
    """The fixed part at ``offset``; None unless it could be one. The sum is not checked yet."""
    if len(data) - offset < HEAD_SIZE:
        return None
    head = RecordHead(*RECORD_HEAD.unpack_from(data, offset))
    sound = (
        head.kind in KINDS
        and HEAD_SIZE <= head.head_size <= head.size
        and head.size % ALIGN == 0
        and (head.kind == MESSAGES or head.kind == GROUP or head.head_size == head.size)
    )
    return head if sound else None


def head_is_good(data: bytes, head: RecordHead, seed: int, offset: int = 0) -> bool:
    """Whether the head's sum is right; ``data`` must hold the whole head."""
    stop = offset + head.head_size
    if len(data) < stop:
        return False
    return crc32(data[offset + 4 : stop], seed) == head.crc


def decode_messages(data: bytes, head: RecordHead, offset: int = 0) -> MessagesHead | None:
    """A MESSAGES head whose sum is good; None when its parts do not add up all the same."""
    ttl, channel_number, exchange_length, key_length, _ = ROUTE.unpack_from(
        data, offset + HEAD_SIZE
    )
    at = offset + HEAD_SIZE + ROUTE.size
    names = exchange_length + key_length
    exchange = data[at : at + exchange_length].decode("utf-8", "surrogateescape")
    key = data[at + exchange_length : at + names].decode("utf-8", "surrogateescape")
    at += names + (-names % ALIGN)
    table = 4 * head.items
    if at + head.destinations * DESTINATION.size + 2 * table != offset + head.head_size:
        return None
    placed = tuple(
        RecordDestination(*DESTINATION.unpack_from(data, at + index * DESTINATION.size))
        for index in range(head.destinations)
    )
    at += head.destinations * DESTINATION.size
    lengths, crcs = array("I"), array("I")
    lengths.frombytes(data[at : at + table])
    crcs.frombytes(data[at + table : at + 2 * table])
    return MessagesHead(
        exchange,
        key,
        channel_number,
        ttl - 1 if ttl else None,
        head.time,
        placed,
        lengths,
        crcs,
        head.head_size,
    )


def contents_of(
    data: bytes, messages: MessagesHead, offset: int = 0
) -> Iterator[tuple[int, int, bool]]:
    """Where each content of a record at ``offset`` is, start and stop, and whether its sum is
    right."""
    at = offset + messages.head_size
    for length, crc in zip(messages.lengths, messages.crcs, strict=True):
        yield at, at + length, crc32(data[at : at + length]) == crc
        at += length


def decode_ranges(data: bytes, head: RecordHead, offset: int = 0) -> Iterator[tuple[int, ...]]:
    """Of a SETTLED or REQUEUED record."""
    body = data[offset + HEAD_SIZE : offset + head.head_size]
    return _RANGES[head.kind].iter_unpack(body)


def group_is_good(data: bytes, head: RecordHead, offset: int = 0) -> bool:
    """Whether the records of a group are all there; ``data`` must hold the whole group."""
    return crc32(data[offset + head.head_size : offset + head.size]) == head.body_crc
