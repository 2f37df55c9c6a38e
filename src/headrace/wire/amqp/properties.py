"""The properties of a message: whole, field by field, or one field straight from the wire.

Decodes only the requested fields: header values stay as the bytes which the publisher sent
until someone reads them, and the scanners step over all other fields.

Header payload:  class u16 | weight u16 | body size u64 | flags u16 | the values, in flag order
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from struct import error as StructError
from typing import Any

from headrace.errors import MalformedError, UnexpectedFrame
from headrace.wire.amqp.values import (
    decode_value,
    encode_value,
    short_string,
    skip_value,
    take_long,
    take_short,
)

BASIC = 60  # the only class whose methods carry content

FLAG_CONTENT_TYPE = 1 << 15
FLAG_CONTENT_ENCODING = 1 << 14
FLAG_HEADERS = 1 << 13
FLAG_DELIVERY_MODE = 1 << 12
FLAG_PRIORITY = 1 << 11
FLAG_CORRELATION_ID = 1 << 10
FLAG_REPLY_TO = 1 << 9
FLAG_EXPIRATION = 1 << 8
FLAG_MESSAGE_ID = 1 << 7
FLAG_TIMESTAMP = 1 << 6
FLAG_TYPE = 1 << 5
FLAG_USER_ID = 1 << 4
FLAG_APP_ID = 1 << 3
FLAG_CLUSTER_ID = 1 << 2
# No property has these bits, and the lowest would announce a second flag word: RabbitMQ ignores
# them, but a consumer's decoder may stumble over them, so they are refused.
_NO_FLAG = 0b11

# Widths: a number of bytes, or one of these two.
SHORT, TABLE = 0, -1
FIELDS = (
    ("content_type", FLAG_CONTENT_TYPE, SHORT),
    ("content_encoding", FLAG_CONTENT_ENCODING, SHORT),
    ("headers", FLAG_HEADERS, TABLE),
    ("delivery_mode", FLAG_DELIVERY_MODE, 1),
    ("priority", FLAG_PRIORITY, 1),
    ("correlation_id", FLAG_CORRELATION_ID, SHORT),
    ("reply_to", FLAG_REPLY_TO, SHORT),
    ("expiration", FLAG_EXPIRATION, SHORT),
    ("message_id", FLAG_MESSAGE_ID, SHORT),
    ("timestamp", FLAG_TIMESTAMP, 8),
    ("type", FLAG_TYPE, SHORT),
    ("user_id", FLAG_USER_ID, SHORT),
    ("app_id", FLAG_APP_ID, SHORT),
    ("cluster_id", FLAG_CLUSTER_ID, SHORT),
)

_U32 = Struct(">I")
_u32 = _U32.unpack_from
_HEAD = Struct(">HHQH")  # class, weight, body size, flags
_FRAME_HEAD = 7
_VALUES = _FRAME_HEAD + _HEAD.size  # where the values start in a content


class HeaderTable:
    """The headers of a message, each value kept as the bytes it came in.

    Unmodified it encodes to exactly the bytes it was made from. Of several headers with one
    name the first counts; the others go when the table is modified.
    """

    __slots__ = ("_entries", "_raw")

    def __init__(self, raw: bytes = b"") -> None:
        """``raw`` is the body of a table, without its length; it is split when first needed."""
        self._raw: bytes | None = raw
        self._entries: dict[str, bytes] | None = None

    @classmethod
    def of(cls, values: Mapping[str, object]) -> HeaderTable:
        table = cls()
        for name, value in values.items():
            table.set(name, value)
        return table

    def get(self, name: str, default: object = None) -> object:
        raw = self._split().get(name)
        return default if raw is None else _one_value(raw)

    def get_raw(self, name: str) -> bytes | None:
        """The value of ``name`` as it stands on the wire, type octet included."""
        return self._split().get(name)

    def set(self, name: str, value: object) -> None:
        self.set_raw(name, encode_value(value))

    def set_raw(self, name: str, tagged: bytes) -> None:
        """Set ``name`` to a value that is encoded already, type octet included."""
        short_string(name)  # refuse a name that could not be encoded while the culprit is near
        self._split()[name] = tagged
        self._raw = None

    def remove(self, name: str) -> None:
        """Drop ``name`` if it is there."""
        if self._split().pop(name, None) is not None:
            self._raw = None

    def copy(self) -> HeaderTable:
        twin = HeaderTable()
        twin._raw = self._raw
        twin._entries = None if self._entries is None else dict(self._entries)
        return twin

    def as_dict(self) -> dict[str, object]:
        return {name: _one_value(raw) for name, raw in self._split().items()}

    def encode(self) -> bytes:
        """The table as it goes on the wire, behind its length."""
        if self._raw is None:
            entries = self._split().items()
            self._raw = b"".join([short_string(name) + raw for name, raw in entries])
        return _U32.pack(len(self._raw)) + self._raw

    def __contains__(self, name: object) -> bool:
        return name in self._split()

    def __iter__(self) -> Iterator[str]:
        return iter(self._split())

    def __len__(self) -> int:
        return len(self._split())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HeaderTable) and self.encode() == other.encode()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"HeaderTable({self.encode()[4:]!r})"

    def _split(self) -> dict[str, bytes]:
        if self._entries is None:
            raw = self._raw or b""
            entries: dict[str, bytes] = {}
            offset = 0
            while offset < len(raw):
                name, start = take_short(raw, offset)
                offset = skip_value(raw, start, len(raw))
                entries.setdefault(name, raw[start:offset])
            self._entries = entries
        return self._entries


def _one_value(tagged: bytes) -> object:
    return decode_value(tagged, 0, depth=1)[0]  # the header table itself is one level


@dataclass(slots=True)
class Properties:
    """The fourteen properties; None means absent, which differs from empty or 0."""

    content_type: str | None = None
    content_encoding: str | None = None
    headers: HeaderTable | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: int | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None

    @classmethod
    def decode(cls, payload: bytes) -> tuple[Properties, int]:
        """Decode the payload of a content header frame; also return the size of the body."""
        check_header(payload)
        _, _, body_size, flags = _HEAD.unpack_from(payload)
        offset = _HEAD.size
        properties = cls()
        for name, flag, width in FIELDS:
            if flags & flag:
                value, offset = _take(payload, offset, width)
                setattr(properties, name, value)
        return properties, body_size

    def encode(self, body_size: int) -> bytes:
        """Encode as the payload of a content header frame; the inverse of decode."""
        flags = 0
        parts = [b""]
        for name, flag, width in FIELDS:
            value = getattr(self, name)
            if value is not None:
                flags |= flag
                parts.append(_put(value, width))
        parts[0] = _HEAD.pack(BASIC, 0, body_size, flags)
        return b"".join(parts)

    def as_dict(self) -> dict[str, object]:
        """The properties that are present, headers decoded."""
        present = {name: getattr(self, name) for name, _, _ in FIELDS}
        present = {name: value for name, value in present.items() if value is not None}
        if self.headers is not None:
            present["headers"] = self.headers.as_dict()
        return present


def _take(data: bytes, offset: int, width: int) -> tuple[object, int]:
    """Decode one property of a payload that check_header has passed."""
    if width == SHORT:
        return take_short(data, offset)
    if width == TABLE:
        raw, offset = take_long(data, offset)
        return HeaderTable(raw), offset
    return int.from_bytes(data[offset : offset + width], "big"), offset + width


def _put(value: Any, width: int) -> bytes:  # noqa: ANN401 - str, int or HeaderTable, by width
    if width == SHORT:
        return short_string(value)
    if width == TABLE:
        encoded: bytes = value.encode()
        return encoded
    try:
        number: bytes = value.to_bytes(width, "big")
    except OverflowError:
        raise MalformedError(f"property {value} does not fit into {width} bytes") from None
    return number


# -- walking over a header without decoding it ------------------------------------------------


def check_header(payload: bytes) -> None:
    """Raise unless ``payload`` is exactly as long as its flags and values say.

    MalformedError, or UnexpectedFrame when it is the header of another class or has a weight.
    The inside of the header table is not looked at.
    """
    if len(payload) < _HEAD.size:
        raise MalformedError("a content header is cut short")
    class_id, weight, _, flags = _HEAD.unpack_from(payload)
    if class_id != BASIC or weight:
        got = "non content header frame" if weight else f"one for class {class_id}"
        raise UnexpectedFrame(f"expected content header for class {BASIC}, got {got} instead")
    if flags & _NO_FLAG:
        raise MalformedError(f"content header with unknown property flags {flags:#06x}")
    try:
        end = _walk(payload, _HEAD.size, _widths(flags))
    except (IndexError, StructError):
        raise MalformedError("a content header is cut short") from None
    if end != len(payload):
        raise MalformedError(f"content header of {len(payload)} bytes, its values end at {end}")


@lru_cache(maxsize=1024)
def _widths(flags: int) -> tuple[int, ...]:
    """The widths of the fields whose flags are set; clients use few combinations."""
    return tuple(width for _, flag, width in FIELDS if flags & flag)


def _walk(data: bytes, offset: int, widths: tuple[int, ...]) -> int:
    """Step over fields; IndexError or struct.error, or an offset past the end, if cut short."""
    for width in widths:
        if width == SHORT:
            offset += 1 + data[offset]
        elif width == TABLE:
            offset += 4 + _u32(data, offset)[0]
        else:
            offset += width
    return offset


# -- single fields of a content ---------------------------------------------------------------
# A content starts with its header frame: 7 bytes of frame head, then the payload.


def delivery_mode(content: bytes) -> int:
    """The delivery mode (2 is persistent), or 0 when absent."""
    # Asked of every message, hence without _locate, in half its time.
    try:
        flags = content[_VALUES - 2]  # the upper half of the flags
        if not flags & FLAG_DELIVERY_MODE >> 8:
            return 0
        at = _VALUES
        if flags & FLAG_CONTENT_TYPE >> 8:
            at += 1 + content[at]
        if flags & FLAG_CONTENT_ENCODING >> 8:
            at += 1 + content[at]
        if flags & FLAG_HEADERS >> 8:
            at += 4 + _u32(content, at)[0]
        if at < _FRAME_HEAD + _u32(content, 3)[0]:
            return content[at]
    except (IndexError, StructError):
        pass  # an offset past the end is the same failure as one past the frame
    raise MalformedError("a content header is cut short")


def priority(content: bytes) -> int:
    """The priority, or 0 when absent."""
    start, _ = _locate(content, FLAG_PRIORITY, 1)
    return content[start] if start else 0


def expiration(content: bytes) -> str | None:
    """The expiration as the publisher wrote it: a number of milliseconds, one hopes."""
    return _string(content, FLAG_EXPIRATION)


def reply_to(content: bytes) -> str | None:
    return _string(content, FLAG_REPLY_TO)


def user_id(content: bytes) -> str | None:
    return _string(content, FLAG_USER_ID)


def headers_raw(content: bytes) -> bytes:
    """The body of the header table, without its length; empty when absent."""
    start, stop = _locate(content, FLAG_HEADERS, TABLE)
    return content[start + 4 : stop] if start else b""


def _string(content: bytes, flag: int) -> str | None:
    start, stop = _locate(content, flag, SHORT)
    return content[start + 1 : stop].decode("utf-8", "surrogateescape") if start else None


def _locate(content: bytes, flag: int, width: int) -> tuple[int, int]:
    """Return where the field of ``flag`` starts and stops in ``content``; 0, 0 when absent."""
    try:
        flags = content[_VALUES - 2] << 8 | content[_VALUES - 1]
        if not flags & flag:
            return 0, 0
        start = _walk(content, _VALUES, _widths(flags & -(flag << 1)))
        stop = _walk(content, start, (width,))
        end = _FRAME_HEAD + _u32(content, 3)[0]
    except (IndexError, StructError):
        raise MalformedError("a content header is cut short") from None
    if stop > end or end >= len(content):
        raise MalformedError("a property goes past the end of its content header")
    return start, stop
