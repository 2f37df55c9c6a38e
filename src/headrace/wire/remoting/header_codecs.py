"""Headers in binary, the serialization that RocketMQ calls ROCKETMQ.

int16 code | int8 language | int16 version | int32 opaque | int32 flag
int32 length, remark | int32 bytes of the map, then: int16 length, name, int32 length, value
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError

from headrace.errors import MalformedError
from headrace.wire.remoting.codes import Language
from headrace.wire.remoting.command import Command, Serialization

_FIXED = Struct(">hbhiii")  # the last is the length of the remark
_INT = Struct(">i")
_SHORT = Struct(">h")


def encode(command: Command) -> bytes:
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


def decode(header: bytes, body: bytes) -> Command:
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
