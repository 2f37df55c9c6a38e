"""AMQP 0-9-1 field values and tables <-> Python values. Any bytes give a value or a BrokerError.

A tagged value is a type octet followed by the value; a table is a sequence of (short string,
tagged value) behind its length in bytes. The type octets are those RabbitMQ uses, which differ
from the text of the specification for `s` (signed 16 bit) and `U` (unknown). Strings are UTF-8
with surrogateescape, so that bytes which are not UTF-8 survive a round trip.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from struct import Struct
from typing import Any

from headrace.errors import InternalError, MalformedError

MAX_DEPTH = 32  # containers inside one another; real clients use three or four
MAX_VALUES = 8192  # in a table, those inside it included: they are decoded in one step

_U32 = Struct(">I")
_u32 = _U32.unpack_from
_TAGGED_I32 = Struct(">ci")
_TAGGED_I64 = Struct(">cq")
_TAGGED_U64 = Struct(">cQ")
_TAGGED_F64 = Struct(">cd")
_TAGGED_LENGTH = Struct(">cI")
_DECIMAL = Struct(">Bi")  # scale, unscaled
_TAGGED_DECIMAL = Struct(">cBi")


class Timestamp(int):
    """Seconds since the epoch; encoded with code `T`."""

    __slots__ = ()


class LongInt(int):
    """An integer which is encoded with code `l`, however small it is."""

    __slots__ = ()


# -- decoding ---------------------------------------------------------------------------------


def decode_value(data: bytes, offset: int, depth: int = 0) -> tuple[object, int]:
    """Decode the tagged value at ``offset``; also return the offset behind it.

    ``depth`` is the number of containers around the value.
    """
    return _value(data, offset, len(data), depth)


def decode_table(data: bytes, offset: int = 0) -> tuple[dict[str, object], int]:
    """Decode the table whose length is at ``offset``; also return the offset behind it.

    Of several fields with one name the first counts, as in RabbitMQ.
    """
    try:
        start, stop = _counted(data, offset, len(data))
    except IndexError:
        raise MalformedError("a field value goes past the end of its table") from None
    return _table(data, start, stop, 0), stop


def skip_value(data: bytes, offset: int, end: int) -> int:
    """Return the offset behind the tagged value at ``offset``, without looking inside it."""
    code = _code(data, offset, end)
    if code in _SIZED:
        return _sized(data, offset + 1, end)[1]
    if code not in _FIXED:
        raise InternalError(f"unknown field type {code:#04x}")
    return _room(offset + 1, _FIXED[code][0].size, end)


def check_table(data: bytes, offset: int, end: int) -> int:
    """Walk the table at ``offset`` without decoding it; return the offset behind it.

    On the path of every message with headers, hence the loop without calls. Nested tables and
    arrays are walked too, so that no consumer receives what cannot be decoded.
    """
    start, stop = _counted(data, offset, end)
    nested = [(start, stop, True, 0)]
    while nested:
        at, stop_at, named, depth = nested.pop()
        if depth >= MAX_DEPTH:
            raise MalformedError(f"tables and arrays nested deeper than {MAX_DEPTH}")
        while at < stop_at:
            if named:
                at += 1 + data[at]
            if at >= stop_at:
                raise MalformedError("a field name goes past the end of its table")
            code = data[at]
            if code == 83 or code == 120:  # S, x
                at += 5 + _u32(data, at + 1)[0]
            elif code in _WIDTHS:
                at += 1 + _WIDTHS[code]
            elif code in _SIZED:
                inner, at = _sized(data, at + 1, stop_at)
                nested.append((inner, at, code == 70, depth + 1))  # F: names before values
            else:
                raise InternalError(f"unknown field type {code:#04x}")
        if at != stop_at:
            raise MalformedError("a field value goes past the end of its table")
    return stop


def _counted(data: bytes, offset: int, end: int) -> tuple[int, int]:
    """As _sized; MalformedError if there are too many values."""
    start, stop = _sized(data, offset, end)
    if stop - start <= MAX_VALUES:  # bytes, and each value takes one at least
        return start, stop
    nested = [(start, stop, True)]
    for _ in range(MAX_VALUES):
        while nested and nested[-1][0] >= nested[-1][1]:
            nested.pop()
        if not nested:
            break
        at, end, named = nested.pop()
        at += 1 + data[at] if named else 0
        following = skip_value(data, at, end)
        nested.append((following, end, named))
        if data[at] in b"AF":
            nested.append((at + 5, following, data[at] == ord("F")))
    if any(at < end for at, end, _ in nested):
        raise MalformedError(f"more than {MAX_VALUES} values in one table")
    return start, stop


def take_short(data: bytes, offset: int) -> tuple[str, int]:
    """Decode the short string at ``offset``; also return the offset behind it."""
    return _short(data, offset, len(data))


def take_long(data: bytes, offset: int) -> tuple[bytes, int]:
    """Decode the long string at ``offset``; also return the offset behind it."""
    start, stop = _sized(data, offset, len(data))
    return data[start:stop], stop


def _value(data: bytes, offset: int, end: int, depth: int) -> tuple[object, int]:
    code = _code(data, offset, end)
    offset += 1
    sized = _SIZED.get(code)
    if sized is not None:
        start, stop = _sized(data, offset, end)
        return sized(data, start, stop, depth), stop
    if code not in _FIXED:
        raise InternalError(f"unknown field type {code:#04x}")
    layout, build = _FIXED[code]
    stop = _room(offset, layout.size, end)
    return build(*layout.unpack_from(data, offset)), stop


def _code(data: bytes, offset: int, end: int) -> int:
    _room(offset, 1, end)
    return data[offset]


def _room(offset: int, size: int, end: int) -> int:
    """Return the end of ``size`` bytes at ``offset``, which must lie within ``end``."""
    stop = offset + size
    if stop > end:
        raise MalformedError(f"a value of {size} bytes at {offset} goes past the end at {end}")
    return stop


def _sized(data: bytes, offset: int, end: int) -> tuple[int, int]:
    """Return where the bytes behind the 32 bit length at ``offset`` start and stop."""
    start = offset + 4
    if start <= end:  # mostly all is well, and calls take time
        stop: int = start + _u32(data, offset)[0]
        if stop <= end:
            return start, stop
    start = _room(offset, 4, end)
    return start, _room(start, _U32.unpack_from(data, offset)[0], end)


def _short(data: bytes, offset: int, end: int) -> tuple[str, int]:
    start = _room(offset, 1, end)
    stop = _room(start, data[offset], end)
    return data[start:stop].decode("utf-8", "surrogateescape"), stop


def _array(data: bytes, offset: int, end: int, depth: int) -> list[object]:
    _check_depth(depth)
    values = []
    while offset < end:
        value, offset = _value(data, offset, end, depth + 1)
        values.append(value)
    return values


def _table(data: bytes, offset: int, end: int, depth: int) -> dict[str, object]:
    _check_depth(depth)
    table: dict[str, object] = {}
    while offset < end:
        name, offset = _short(data, offset, end)
        value, offset = _value(data, offset, end, depth + 1)
        table.setdefault(name, value)
    return table


def _check_depth(depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise MalformedError(f"tables and arrays nested deeper than {MAX_DEPTH}")


def _decimal(scale: int, unscaled: int) -> Decimal:
    return Decimal(f"{unscaled}E-{scale}")  # exact, whatever the decimal context says


def _same(value: object) -> object:
    return value


_FIXED: dict[int, tuple[Struct, Callable[..., object]]] = {
    ord("t"): (Struct(">?"), _same),
    ord("b"): (Struct(">b"), _same),
    ord("B"): (Struct(">B"), _same),
    ord("s"): (Struct(">h"), _same),
    ord("u"): (Struct(">H"), _same),
    ord("I"): (Struct(">i"), _same),
    ord("i"): (Struct(">I"), _same),
    ord("l"): (Struct(">q"), LongInt),
    ord("L"): (Struct(">q"), LongInt),
    ord("f"): (Struct(">f"), _same),
    ord("d"): (Struct(">d"), _same),
    ord("T"): (Struct(">Q"), Timestamp),
    ord("D"): (_DECIMAL, _decimal),
    ord("V"): (Struct(">"), lambda: None),
}

_SIZED: dict[int, Callable[[bytes, int, int, int], object]] = {
    ord("S"): lambda data, start, end, _: data[start:end].decode("utf-8", "surrogateescape"),
    ord("x"): lambda data, start, end, _: data[start:end],
    ord("A"): _array,
    ord("F"): _table,
}


# -- encoding ---------------------------------------------------------------------------------


def encode_value(value: object, depth: int = 0) -> bytes:
    """Encode ``value`` with its type octet; MalformedError when AMQP has no room for it."""
    return _encoder(value)[1](value, depth)


def encode_table(table: Mapping[str, object]) -> bytes:
    """Encode ``table`` behind its length; the inverse of decode_table."""
    body = _table_body(table, 0)
    return _U32.pack(len(body)) + body


def short_string(text: str | bytes) -> bytes:
    """Encode ``text`` behind its length in one octet; MalformedError above 255 bytes."""
    raw = text if isinstance(text, bytes) else utf8(text)
    if len(raw) > 255:
        raise MalformedError(f"a short string of {len(raw)} bytes is longer than 255")
    return bytes((len(raw),)) + raw


def utf8(text: str) -> bytes:
    """The bytes of ``text``, those that were no UTF-8 when it was decoded included."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise MalformedError(f"text {text!a} has no UTF-8 form") from None


def type_name(value: object) -> str:
    """RabbitMQ's word for the type of ``value``, as its error texts use it."""
    name = _encoder(value)[0]
    if name == "signedint" and not _fits_32_bits(value):
        return "long"
    return name


def _encoder(value: object) -> tuple[str, Callable[[Any, int], bytes]]:
    found = _BY_TYPE.get(type(value))
    if found is not None:
        return found
    for kind, entry in _BY_TYPE.items():
        if isinstance(value, kind):
            return entry
    raise MalformedError(f"a {type(value).__name__} cannot be a field value")


def _fits_32_bits(value: Any) -> bool:  # noqa: ANN401 - an int, as its entry in _BY_TYPE says
    return bool(-0x8000_0000 <= value <= 0x7FFF_FFFF)


def _encode_int(value: int, depth: int) -> bytes:
    return _TAGGED_I32.pack(b"I", value) if _fits_32_bits(value) else _encode_long(value, depth)


def _encode_long(value: int, depth: int) -> bytes:
    if not -0x8000_0000_0000_0000 <= value <= 0x7FFF_FFFF_FFFF_FFFF:
        raise MalformedError("an integer does not fit into 64 bits")
    return _TAGGED_I64.pack(b"l", value)


def _encode_timestamp(value: int, depth: int) -> bytes:
    if not 0 <= value <= 0xFFFF_FFFF_FFFF_FFFF:
        raise MalformedError("a timestamp does not fit into 64 bits")
    return _TAGGED_U64.pack(b"T", value)


def _encode_decimal(value: Decimal, depth: int) -> bytes:
    sign, digits, exponent = value.as_tuple()
    # Beyond these bounds no value fits; checking first keeps the power below small.
    if not isinstance(exponent, int) or not -255 <= exponent <= 10 or len(digits) > 10:
        raise MalformedError(f"decimal {value} does not fit the wire format")
    unscaled = int("".join(map(str, digits))) * 10 ** max(exponent, 0)
    unscaled = -unscaled if sign else unscaled
    if not _fits_32_bits(unscaled):
        raise MalformedError(f"decimal {value} does not fit into 32 bits")
    return _TAGGED_DECIMAL.pack(b"D", max(-exponent, 0), unscaled)


def _encode_array(values: list[object] | tuple[object, ...], depth: int) -> bytes:
    _check_depth(depth)
    return _tagged(b"A", b"".join([encode_value(value, depth + 1) for value in values]))


def _table_body(table: Mapping[str, object], depth: int) -> bytes:
    _check_depth(depth)
    parts: list[bytes] = []
    for name, value in table.items():
        parts += (short_string(name), encode_value(value, depth + 1))
    return b"".join(parts)


def _tagged(code: bytes, body: bytes) -> bytes:
    return _TAGGED_LENGTH.pack(code, len(body)) + body


# Subclasses stand before their bases: the first entry that fits is taken.
_BY_TYPE: dict[type, tuple[str, Callable[[Any, int], bytes]]] = {
    bool: ("bool", lambda value, _: b"t\x01" if value else b"t\x00"),
    Timestamp: ("timestamp", _encode_timestamp),
    LongInt: ("long", _encode_long),
    int: ("signedint", _encode_int),
    float: ("double", lambda value, _: _TAGGED_F64.pack(b"d", value)),
    str: ("longstr", lambda value, _: _tagged(b"S", utf8(value))),
    bytes: ("binary", lambda value, _: _tagged(b"x", value)),
    bytearray: ("binary", lambda value, _: _tagged(b"x", value)),
    type(None): ("void", lambda value, _: b"V"),
    Decimal: ("decimal", _encode_decimal),
    list: ("array", _encode_array),
    tuple: ("array", _encode_array),
    dict: ("table", lambda value, depth: _tagged(b"F", _table_body(value, depth))),
    Mapping: ("table", lambda value, depth: _tagged(b"F", _table_body(value, depth))),
}
_WIDTHS = {code: layout.size for code, (layout, _) in _FIXED.items()}
