"""Commands <-> frames. Any bytes give commands or one error, never more.

int32 length | int8 serialization, int24 header length | header | body        big-endian

Foreign clients mix types in the fields of a JSON header; here they are all text. A binary header,
which RocketMQ calls ROCKETMQ:
int16 code | int8 language | int16 version | int32 opaque | int32 flag
int32 length, remark | int32 bytes of the map, then: int16 length, name, int32 length, value
"""

from __future__ import annotations

from json import JSONDecoder
from json.encoder import encode_basestring_ascii
from struct import Struct
from struct import error as StructError
from typing import Any

from headrace.errors import FatalError, FrameError, MalformedError
from headrace.wire.remoting.codes import VERSION, Language
from headrace.wire.remoting.command import RESPONSE, Command, Serialization
from headrace.wire.remoting.json_values import sayable

HEAD = Struct(">iI")  # bytes after this field, serialization << 24 | header length
HEADER_MAX = 1 << 18  # room for properties of 32 KiB, each character escaped; decoded in 5 ms
_HEADER_BITS = 0xFFFFFF
FRAME_MAX = 16 << 20  # what Java allows
_JSON, _BINARY = int(Serialization.JSON), int(Serialization.BINARY)

_quoted = encode_basestring_ascii  # ASCII; no blanks between: one client splits by hand
_loads = JSONDecoder().decode
_LANGUAGES = Language.__members__
_INT32 = range(-(1 << 31), 1 << 31)
_FIXED = Struct(">hbhiii")  # the last is the length of the remark
_INT = Struct(">i")
_SHORT = Struct(">h")


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


# -- headers in JSON -------------------------------------------------------------------------------


def encode_json(command: Command) -> bytes:
    """Strict: every named field is text, in an object which answers always have."""
    ext, remark = command.ext, command.remark
    pairs = ",".join([f"{_quoted(name)}:{_quoted(value)}" for name, value in ext.items()])
    fields = f'"extFields":{{{pairs}}},' if pairs or command.flag & RESPONSE else ""
    said = f'"remark":{_quoted(remark)},' if remark is not None else ""
    return (
        f'{{"code":{command.code:d},{fields}"flag":{command.flag:d},'
        f'"language":"{command.language.name}","opaque":{command.opaque:d},{said}'
        f'"serializeTypeCurrentRPC":"JSON","version":{command.version:d}}}'
    ).encode("ascii")


def decode_json(header: bytes, body: bytes) -> Command:
    """Tolerant; MalformedError when it is no header at all."""
    try:
        found = _loads(header.decode())
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"a header that is no JSON: {error!s:.200}") from None
    if type(found) is not dict:
        raise MalformedError("a header that is no JSON object")
    ext = found.get("extFields")
    remark = found.get("remark")
    command = Command(
        _number(found, "code"),
        {} if ext is None else _texts(ext),
        body,
        None if remark is None else _text("remark", remark),
        _number(found, "opaque", 0),
        _number(found, "flag", 0),
        _language(found.get("language")),
        _number(found, "version", VERSION),
    )
    # An escaped half of a character pair would be text that cannot be encoded.
    return _mended(command) if b"\\ud" in header or b"\\uD" in header else command


def _number(found: dict[str, Any], name: str, default: int | None = None) -> int:
    value = found.get(name, default)
    if type(value) is str:
        try:
            value = int(value)
        except ValueError:
            value = None
    if type(value) is not int or value not in _INT32:
        raise MalformedError(f"'{name}' of a header is no 32-bit number: {value!r:.64}")
    return value


def _language(value: object) -> Language:
    if type(value) is str:
        return _LANGUAGES.get(value, Language.OTHER)
    if type(value) is int and 0 <= value < len(Language):
        return Language(value)
    return Language.OTHER


def _texts(ext: object) -> dict[str, str]:
    if type(ext) is not dict:
        raise MalformedError("'extFields' of a header is no JSON object")
    for name, value in ext.items():
        if type(value) is not str:
            return {
                name: value if type(value) is str else _text(name, value)
                for name, value in ext.items()
                if value is not None
            }
    return ext


def _text(name: str, value: object) -> str:
    if value is True or value is False:
        return "true" if value else "false"
    if type(value) in (str, int, float):
        return str(value)
    raise MalformedError(f"the field '{name:.64}' of a header is neither text nor a number")


def _mended(command: Command) -> Command:
    ext = {sayable(name): sayable(value) for name, value in command.ext.items()}
    remark = command.remark
    return command._replace(ext=ext, remark=None if remark is None else sayable(remark))


# -- headers in binary -----------------------------------------------------------------------------


def encode_binary(command: Command) -> bytes:
    """MalformedError when a number is too large for its place. Empty values are left out."""
    remark = (command.remark or "").encode("utf-8", "replace")
    entries = b"".join([_entry(*item) for item in command.ext.items() if item[1]])
    try:
        fixed = _FIXED.pack(
            command.code,
            command.language,
            command.version,
            command.opaque,
            command.flag,
            len(remark),
        )
    except StructError as error:
        raise MalformedError(f"code {command.code} does not fit a binary header: {error}") from None
    return b"".join((fixed, remark, _INT.pack(len(entries)), entries))


def _entry(name: str, value: str) -> bytes:
    raw_name, raw_value = name.encode("utf-8", "replace"), value.encode("utf-8", "replace")
    if not 0 < len(raw_name) <= 0x7FFF:
        raise MalformedError(f"a field name of {len(raw_name)} bytes; 1 to 32767 are allowed")
    return b"".join((_SHORT.pack(len(raw_name)), raw_name, _INT.pack(len(raw_value)), raw_value))


def decode_binary(header: bytes, body: bytes) -> Command:
    """MalformedError when a length is wrong."""
    try:
        code, language, version, opaque, flag, length = _FIXED.unpack_from(header)
        raw_remark, place = _cut(header, _FIXED.size, length)
        (length,) = _INT.unpack_from(header, place)
        entries, _ = _cut(header, place + 4, length)
        ext = _entries(entries)
        remark = raw_remark.decode() or None
    except (StructError, UnicodeDecodeError) as error:
        raise MalformedError(f"a binary header that cannot be read: {error!s:.200}") from None
    return Command(
        code,
        ext,
        body,
        remark,
        opaque,
        flag,
        Language(language) if 0 <= language < len(Language) else Language.OTHER,
        version,
        Serialization.BINARY,
    )


def _entries(data: bytes) -> dict[str, str]:
    ext: dict[str, str] = {}
    place, end = 0, len(data)
    while place < end:
        (length,) = _SHORT.unpack_from(data, place)
        name, place = _cut(data, place + 2, length)
        (length,) = _INT.unpack_from(data, place)
        value, place = _cut(data, place + 4, length)
        if name and value:  # no bytes mean: no value
            ext[name.decode()] = value.decode()
    return ext


def _cut(data: bytes, start: int, length: int) -> tuple[bytes, int]:
    end = start + length
    if length < 0 or end > len(data):
        raise MalformedError(f"a length of {length} in a binary header of {len(data)} bytes")
    return data[start:end], end
