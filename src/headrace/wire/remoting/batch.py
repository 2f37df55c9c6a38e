"""Several messages in one send.

int32 size | int32 0 | int32 0 | int32 flag | int32 length, body | int16 length, properties
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from headrace.errors import MalformedError

_FRONT = Struct(">iiiii")  # size, magic, CRC, flag, length of the body
_SHORT = Struct(">H")
_EXTRA = _FRONT.size + 2


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
            _FRONT.pack(_EXTRA + len(body) + len(properties), 0, 0, flag, len(body)),
            body,
            _SHORT.pack(len(properties)),
            properties,
        )
    return b"".join(parts)


def take_batch(data: bytes) -> Iterator[BatchElement]:
    """The messages of a batch; MalformedError where a length is wrong."""
    place, end = 0, len(data)
    while place < end:
        if end - place < _EXTRA:
            raise MalformedError(f"{end - place} bytes are left over after a message of a batch")
        size, _, _, flag, length = _FRONT.unpack_from(data, place)
        start = place + _FRONT.size
        middle, stop = start + length, place + size
        if length < 0 or size < _EXTRA or stop > end or middle + 2 > stop:
            raise MalformedError(f"a message of {size} bytes with {length} of body in a batch")
        (length,) = _SHORT.unpack_from(data, middle)
        if middle + 2 + length != stop:
            raise MalformedError(f"properties of {length} bytes do not fill a message of a batch")
        yield BatchElement(flag, data[start:middle], data[middle + 2 : stop])
        place = stop
