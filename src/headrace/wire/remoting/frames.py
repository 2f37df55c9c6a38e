"""Commands <-> frames. Any bytes give commands or one error, never more.

int32 length | int8 serialization, int24 header length | header | body        big-endian
"""

from __future__ import annotations

from struct import Struct

from headrace.errors import FatalError, FrameError, MalformedError
from headrace.wire.remoting.command import Command, Serialization
from headrace.wire.remoting.header_codecs import (
    decode_binary,
    decode_json,
    encode_binary,
    encode_json,
)

HEAD = Struct(">iI")  # bytes after this field, serialization << 24 | header length
HEADER_MAX = 1 << 18  # room for properties of 32 KiB, each character escaped; decoded in 5 ms
_HEADER_BITS = 0xFFFFFF
FRAME_MAX = 16 << 20  # what Java allows
_JSON, _BINARY = int(Serialization.JSON), int(Serialization.BINARY)


def command_bytes(command: Command) -> bytes:
    """The whole frame."""
    return head_bytes(command, len(command.body)) + command.body


def head_bytes(command: Command, body_size: int) -> bytes:
    """Everything before the body; a body in pieces need not be joined."""
    binary = command.serialization is Serialization.BINARY
    header = encode_binary(command) if binary else encode_json(command)
    size = len(header)
    if size > HEADER_MAX:
        raise MalformedError(f"a header of {size} bytes; {HEADER_MAX} are allowed")
    return HEAD.pack(4 + size + body_size, command.serialization << 24 | size) + header


class Reader:
    """Cuts a stream into commands. A length is judged before anything is kept for it."""

    __slots__ = ("_buffer", "_needed", "fault", "frame_max")

    def __init__(self, frame_max: int = FRAME_MAX) -> None:
        self.frame_max = frame_max  # bytes after the first length
        self.fault: FatalError | None = None  # after it, everything is ignored
        self._buffer = bytearray()
        self._needed = HEAD.size  # bytes in the buffer before another look is worth it

    @property
    def unfinished(self) -> int:
        """Bytes of a frame that is not complete."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[Command]:
        """The commands that are complete now; after the last one ``fault`` may be set."""
        if self.fault is not None:
            return []
        buffer = self._buffer
        if buffer:
            buffer += data
            if len(buffer) < self._needed:
                return []
            data = bytes(buffer)
            buffer.clear()
        commands: list[Command] = []
        try:
            rest = self._cut(data, commands)
        except FatalError as error:
            self.fault = error
            return commands
        if rest < len(data):
            buffer += memoryview(data)[rest:]
        return commands

    def _cut(self, data: bytes, commands: list[Command]) -> int:
        """Take whole frames off ``data``; return where the rest starts."""
        offset, end = 0, len(data)
        self._needed = HEAD.size
        while end - offset >= HEAD.size:
            length, word = HEAD.unpack_from(data, offset)
            header = word & _HEADER_BITS
            self._judge(length, word >> 24, header)
            stop = offset + 4 + length
            if stop > end:
                self._needed = stop - offset
                break
            start = offset + HEAD.size
            middle = start + header
            decode = decode_json if word <= _HEADER_BITS else decode_binary
            commands.append(decode(data[start:middle], data[middle:stop]))
            offset = stop
        return offset

    def _judge(self, length: int, serialization: int, header: int) -> None:
        if not 4 <= length <= self.frame_max:
            raise FrameError(f"a frame of {length} bytes; 4 to {self.frame_max} are allowed")
        if header > length - 4 or header > HEADER_MAX:
            raise FrameError(
                f"a header of {header} bytes in a frame of {length}; {HEADER_MAX} are allowed"
            )
        if serialization not in (_JSON, _BINARY):
            raise FrameError(f"serialization {serialization} of a header; 0 and 1 are known")
