"""The kinds of method arguments: how each is taken from a payload and put into one. No I/O.

The names at the end annotate the fields of the methods; each carries its kind with it.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as StructError
from typing import Annotated, Any, NamedTuple

from headrace.errors import FrameError, MalformedError
from headrace.wire.amqp.values import (
    decode_table,
    encode_table,
    short_string,
    take_long,
    take_short,
    utf8,
)

_U32 = Struct(">I")


class FieldCodec(NamedTuple):
    """How one argument is taken from a payload and put into one."""

    take: Callable[[bytes, int], tuple[Any, int]]
    put: Callable[[Any], bytes]


def _integer(code: str) -> FieldCodec:
    layout = Struct(code)

    def take(data: bytes, offset: int) -> tuple[int, int]:
        if offset + layout.size > len(data):
            raise MalformedError("the arguments of a method are cut short")
        return layout.unpack_from(data, offset)[0], offset + layout.size

    def put(value: int) -> bytes:
        try:
            return layout.pack(value)
        except StructError:
            raise MalformedError(f"{value!r} does not fit into {layout.size} bytes") from None

    return FieldCodec(take, put)


def _put_long(value: bytes) -> bytes:
    return _U32.pack(len(value)) + value


def _put_reason(text: str) -> bytes:
    """Encode a text for people: one that is too long is cut between two characters."""
    raw = utf8(text)
    cut = 255
    while len(raw) > 255 and cut > 252 and raw[cut] & 0xC0 == 0x80:
        cut -= 1
    return short_string(raw[:cut])


def _take_name(data: bytes, offset: int) -> tuple[str, int]:
    text, offset = take_short(data, offset)
    if not text.isascii() and any("\ud800" <= one <= "\udfff" for one in text):
        raise FrameError("Malformed UTF-8 in shortstr")
    return text, offset


_OCTET = _integer(">B")
BIT = _OCTET._replace()  # equal to an octet, but not the same: neighbours share one

Bit = Annotated[bool, BIT]
U8 = Annotated[int, _OCTET]
U16 = Annotated[int, _integer(">H")]
U32 = Annotated[int, _integer(">I")]
U64 = Annotated[int, _integer(">Q")]
Short = Annotated[str, FieldCodec(_take_name, short_string)]
Key = Annotated[str, FieldCodec(take_short, short_string)]  # beside a content any bytes will do
Reason = Annotated[str, FieldCodec(take_short, _put_reason)]
LongString = Annotated[bytes, FieldCodec(take_long, _put_long)]
Table = Annotated[dict[str, object], FieldCodec(decode_table, encode_table)]
