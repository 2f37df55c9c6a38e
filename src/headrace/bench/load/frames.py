"""Acknowledgements that cost nothing to make, and confirms counted from their bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator

ACK_SIZE = 21
"""basic.ack and basic.nack: 7 frame head, 4 method, 8 tag, 1 bits, 1 end."""

_BASIC_ACK = 60 << 16 | 80
_BASIC_NACK = 60 << 16 | 120
_ACK = struct.Struct(">BHIIQBB")


def delivery_number_offset(tag: str) -> int:
    """Where the 8-byte delivery tag stands in a delivery."""
    return 7 + 4 + 1 + len(tag)


class AckBlock:
    """Single acks for rising delivery tags, cut from one pre-encoded block.

    65,536 frames differ only in the two low bytes of the tag; the six high bytes change once per
    block, by a few strided assignments, so an ack costs the generator next to nothing.
    """

    SPAN = 65_536

    def __init__(self, channel: int) -> None:
        low = (_ACK.pack(1, channel, 13, _BASIC_ACK, n, 0, 0xCE) for n in range(self.SPAN))
        self._block = bytearray(b"".join(low))
        self._view = memoryview(self._block)
        self._high = 0

    def cut(self, first: int, last: int) -> Iterator[memoryview]:
        """Ack frames of the tags first..last, in at most one piece per 65,536 tags.

        A piece is valid until the next one is taken.
        """
        while first <= last:
            high, low = divmod(first, self.SPAN)
            self._set_high(high)
            count = min(last - first + 1, self.SPAN - low)
            yield self._view[low * ACK_SIZE : (low + count) * ACK_SIZE]
            first += count

    def _set_high(self, high: int) -> None:
        if high == self._high:
            return
        for place, value in enumerate(high.to_bytes(6, "big")):
            self._block[11 + place :: ACK_SIZE] = bytes((value,)) * self.SPAN
        self._high = high


class ConfirmCounter:
    """Counts confirmed publishes from the stream of confirm frames, in whatever order they come."""

    def __init__(self) -> None:
        self._floor = 0
        self._beyond: set[int] = set()
        self._rest = b""

    @property
    def count(self) -> int:
        return self._floor + len(self._beyond)

    def feed(self, data: bytes) -> None:
        """Raises ValueError on anything but a positive confirm."""
        data = self._rest + data
        whole = len(data) - len(data) % ACK_SIZE
        self._rest = data[whole:]
        for _, _, _, name, tag, bits, end in _ACK.iter_unpack(data[:whole]):
            if name != _BASIC_ACK or end != 0xCE:
                refused = "a publish was refused" if name == _BASIC_NACK else "unexpected frame"
                raise ValueError(refused + explain_close(data))
            if bits & 1 or tag == self._floor + 1:
                self._settle(tag)
            else:
                self._beyond.add(tag)

    def _settle(self, tag: int) -> None:
        beyond = self._beyond
        if beyond and tag > self._floor + 1:  # a jump may cover tags confirmed one by one before
            beyond = self._beyond = {n for n in beyond if n > tag}
        self._floor = max(self._floor, tag)
        while self._floor + 1 in beyond:
            self._floor += 1
            beyond.discard(self._floor)


_CLOSES = (b"\x00\x0a\x00\x32", b"\x00\x14\x00\x28", b"\x00\x3c\x00\x1e")


def explain_close(data: bytes) -> str:
    """The reply text of a close or cancel found in `data`, as a suffix for a failure message."""
    for name in _CLOSES:
        at = data.find(name)
        if at < 0 or at + 7 > len(data):
            continue
        if name == _CLOSES[2]:
            return ": the broker cancelled the consumer"
        length = data[at + 6]
        return ": " + data[at + 7 : at + 7 + length].decode(errors="replace")
    return ""
