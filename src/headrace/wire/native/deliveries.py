"""Deliveries as msgpack, put together from pieces: one frame for a whole run of messages.

Everything that messages have in common is packed once. The result is what packing the maps would
give, only cheaper; tests compare the two.

    {ch, consumer_tag, batch: [{redelivered, exchange, key, queue, properties, body, tag}, ..]}
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from headrace.cache import BoundedCache
from headrace.wire.amqp.content import body_of, properties_of
from headrace.wire.native.frames import frame
from headrace.wire.native.payloads import Op, pack
from headrace.wire.native.properties import shown_properties

BATCH_BYTES = 1 << 20  # of contents in one frame, unless one message alone is larger
MAX_CACHED = 1024
_CACHEABLE = 256  # bytes of properties; larger ones are not worth their place

_SIZES = Struct(">3xI4xQ").unpack_from  # of a content: header payload size, body size
_BIN32 = Struct(">cI").pack
_ARRAY16 = Struct(">cH").pack
_TAG = Struct(">Q").pack
_FRAME_OVERHEAD = 8


class PackedProperties:
    """Packed properties, remembered: many messages have the same."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: BoundedCache[bytes, bytes] = BoundedCache(MAX_CACHED)

    def split(self, content: bytes) -> tuple[bytes, str | None, bytes]:
        """Packed properties (head of the map and entries), message id, body.

        The head of the map counts routing_key and message_id, which are still to come.
        """
        header, size = _SIZES(content)
        end = header + _FRAME_OVERHEAD
        if len(content) == end + size + _FRAME_OVERHEAD:  # one body frame: nearly all have
            body = content[end + 7 : -1]
        else:
            body = body_of(content)
        raw = content[19 : end - 1]
        found = self._known.get(raw)
        if found is not None:
            return found, None, body
        properties = properties_of(content)
        shown = shown_properties(properties)
        entries = pack(shown)[1:]  # fewer than 16 entries: the head is one byte
        packed = bytes((0x80 | len(shown) + 2,)) + entries
        if properties.message_id is None and len(raw) <= _CACHEABLE:
            self._known.keep(raw, packed)
        return packed, _sayable(properties.message_id), body


def _sayable(message_id: str | None) -> str | None:
    """As the peer will read it, which is how it will call the message."""
    if message_id is None or message_id.isascii():
        return message_id
    return message_id.encode("utf-8", "replace").decode()


def common(exchange: str, key: str, queue: str, *, redelivered: bool) -> tuple[bytes, bytes]:
    """What the messages of one run share: fields, and the last but one of their properties."""
    fields = b"".join(
        (
            b"\xabredelivered" + (b"\xc3" if redelivered else b"\xc2"),
            b"\xa8exchange" + pack(exchange),
            b"\xa3key" + pack(key),
            b"\xa5queue" + pack(queue),
            b"\xaaproperties",
        )
    )
    return fields, b"\xabrouting_key" + pack(key) + b"\xaamessage_id"


def entry(
    shared: tuple[bytes, bytes], packed: bytes, message_id: str, body: bytes, tag: int
) -> bytes:
    """Seven fields of one message, without the head of their map."""
    return b"".join(
        (
            shared[0],
            packed,
            shared[1],
            pack(message_id),
            b"\xa4body",
            _BIN32(b"\xc6", len(body)),
            body,
            b"\xa3tag\xcf",
            _TAG(tag),
        )
    )


def push_frame(ch: int | str, consumer_tag: str, entries: list[bytes]) -> bytes:
    """One message alone, or a batch."""
    top = b"\xa2ch" + pack(ch) + b"\xacconsumer_tag" + pack(consumer_tag)
    if len(entries) == 1:
        return frame(Op.PUSH, b"\x89" + top + entries[0])
    inner = b"\x87".join([b"", *entries])
    payload = b"\x83" + top + b"\xa5batch" + _ARRAY16(b"\xdc", len(entries)) + inner
    return frame(Op.PUSH, payload)


def got_frame(rid: int | str, ch: int | str, messages: int, one: bytes) -> bytes:
    """The answer to a get that found a message; ``messages`` are left."""
    top = b"\xa3rid" + pack(rid) + b"\xa2ch" + pack(ch) + b"\xa2ok\xc3"
    left = b"\xa8messages" + pack(messages)
    return frame(Op.GET, b"\x85" + top + left + b"\xa7message\x87" + one)


def in_batches(entries: Iterator[bytes]) -> Iterator[list[bytes]]:
    """Lists of entries, none much larger than BATCH_BYTES."""
    batch: list[bytes] = []
    size = 0
    for one in entries:
        if batch and size + len(one) > BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += len(one)
    if batch:
        yield batch
