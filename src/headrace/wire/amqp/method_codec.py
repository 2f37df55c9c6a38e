"""Methods of AMQP 0-9-1 to frames and back, by the layout that their declarations give. No I/O."""

from collections.abc import Callable
from dataclasses import dataclass, field
from inspect import get_annotations
from struct import Struct
from struct import error as StructError
from typing import Annotated, Any, ClassVar, NamedTuple, dataclass_transform

from headrace.errors import FrameError, InternalError, MalformedError
from headrace.wire.amqp.values import (
    decode_table,
    encode_table,
    short_string,
    take_long,
    take_short,
    utf8,
)

_U32 = Struct(">I")
_FRAME_HEAD = Struct(">BHII")  # frame type, channel, payload size, class and method
_METHOD_FRAME = 1


# -- kinds of arguments -----------------------------------------------------------------------
# The names at the end annotate the fields of the methods; each carries its kind with it.


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


# -- methods ----------------------------------------------------------------------------------


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class _MethodType(type):
    """Makes a declaration with ``ids`` a frozen dataclass with slots and enters it into METHODS."""

    def __new__(
        mcs, name: str, bases: tuple[type, ...], body: dict[str, Any], ids: tuple[int, int] = (0, 0)
    ) -> Any:  # noqa: ANN401 - a class with the attributes of Method
        made: Any = super().__new__(mcs, name, bases, body)
        if ids == (0, 0):  # the base, or the copy with slots
            return made
        kinds = get_annotations(made)
        made = dataclass(frozen=True, slots=True)(made)
        made.layout = tuple((one, kind.__metadata__[0]) for one, kind in kinds.items())
        if "class_id" not in kinds:  # the close methods have arguments of these names
            made.class_id, made.method_id = ids
        made.wire_id = ids[0] << 16 | ids[1]
        made.name = _protocol_name(name)
        METHODS[made.wire_id] = made
        return made


class Method(metaclass=_MethodType):
    """One method with its arguments; ``ids``: of its class and its own."""

    __slots__ = ()

    class_id: ClassVar[int]
    method_id: ClassVar[int]
    wire_id: ClassVar[int]  # class_id << 16 | method_id
    name: ClassVar[str]  # as the specification writes it: "queue.declare-ok"
    layout: ClassVar[tuple[tuple[str, FieldCodec], ...]]


METHODS: dict[int, type[Method]] = {}


def _protocol_name(camel_case: str) -> str:
    dashed = "".join(f"-{c.lower()}" if c.isupper() else c for c in camel_case)
    return dashed[1:].replace("-", ".", 1)


# -- codec ------------------------------------------------------------------------------------


def decode_method(payload: bytes) -> Method:
    """Decode the payload of a method frame; it must hold one method and nothing else."""
    if len(payload) < 4:
        raise MalformedError("a method frame without a method")
    wire_id = _U32.unpack_from(payload)[0]
    cls = METHODS.get(wire_id)
    if cls is None:
        raise InternalError(f"unknown method {wire_id >> 16}.{wire_id & 0xFFFF}")
    values: list[Any] = []
    offset, bits, used = 4, 0, 0
    for _, kind in cls.layout:
        if kind is not BIT:
            value, offset = kind.take(payload, offset)
            used = 0
        else:  # bits in a row share an octet, lowest first; no method has more than eight
            if not used:
                bits, offset = kind.take(payload, offset)
            value = bool(bits >> used & 1)
            used += 1
        values.append(value)
    if offset != len(payload):
        raise MalformedError(f"{len(payload) - offset} bytes too many behind {cls.name}")
    return cls(*values)


def method_frame(channel: int, method: Method) -> bytes:
    """Encode ``method`` as a whole frame; the inverse of decode_method within its frame."""
    parts: list[bytes] = []
    bits, used = 0, 0
    for name, kind in method.layout:
        value = getattr(method, name)
        if kind is BIT:
            bits |= bool(value) << used
            used += 1
            continue
        if used:
            parts.append(BIT.put(bits))
            bits = used = 0
        parts.append(kind.put(value))
    if used:
        parts.append(BIT.put(bits))
    arguments = b"".join(parts)
    head = _FRAME_HEAD.pack(_METHOD_FRAME, channel, 4 + len(arguments), method.wire_id)
    return b"%b%b\xce" % (head, arguments)
