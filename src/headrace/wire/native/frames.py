"""Frames of the native protocol <-> bytes. Any bytes give frames or one FrameError, never more.

int32 type | int32 length | payload[length]          big-endian
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from headrace.errors import CommandInvalid, FatalError, FrameError

HEAD = Struct(">ii")  # type, length
FRAME_MAX = 64 << 20
SMALL = 1 << 16  # the largest frame of most types: what is in it is decoded in milliseconds

Frame = tuple[int, bytes | memoryview]  # type, payload


def frame(kind: int, payload: bytes) -> bytes:
    """One frame on the wire."""
    return HEAD.pack(kind, len(payload)) + payload


class Reader:
    """Cuts a stream into frames. A length is judged before anything is kept for it."""

    __slots__ = ("_buffer", "_first", "_needed", "_size_of", "fault", "frame_max")

    def __init__(
        self,
        frame_max: int = FRAME_MAX,
        first: int | None = None,
        size_of: Callable[[int], int] | None = None,
    ) -> None:
        """``first``: the type of the first frame. ``size_of``: a type's largest payload."""
        self.frame_max = frame_max  # may be raised between two calls of feed
        self.fault: FatalError | None = None  # after it, everything is ignored
        self._first = first
        self._size_of = size_of
        self._buffer = bytearray()
        self._needed = HEAD.size  # bytes in the buffer before another look is worth it

    @property
    def unfinished(self) -> int:
        """Bytes of a frame that is not complete."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are complete now; after the last one ``fault`` may be set."""
        if self.fault is not None:
            return []
        if not self._buffer:
            frames, rest = self._cut(data)
            self._buffer += memoryview(data)[rest:]
            return frames
        self._buffer += data
        if len(self._buffer) < self._needed:
            return []
        whole, self._buffer = memoryview(self._buffer), bytearray()  # payloads are not copied
        frames, rest = self._cut(whole)
        self._buffer += whole[rest:]
        return frames

    def _cut(self, data: bytes | memoryview) -> tuple[list[Frame], int]:
        """The whole frames in ``data``, and where the rest starts."""
        frames: list[Frame] = []
        offset, end = 0, len(data)
        self._needed = HEAD.size
        while end - offset >= HEAD.size:
            kind, length = HEAD.unpack_from(data, offset)
            self.fault = self._fault(kind, length)
            if self.fault is not None:
                break
            stop = offset + HEAD.size + length
            if stop > end:
                self._needed = stop - offset
                break
            frames.append((kind, data[offset + HEAD.size : stop]))
            offset = stop
            self._first = None
        return frames, offset

    def _fault(self, kind: int, length: int) -> FatalError | None:
        if self._first not in (None, kind):
            return CommandInvalid(f"the first frame has type {kind:#x}, not {self._first:#x}")
        most = self.frame_max
        if length > SMALL and self._size_of is not None:
            most = min(most, self._size_of(kind))
        if not 0 <= length <= most:
            return FrameError(f"a frame of {length} bytes; 0 to {most} are allowed")
        return None
