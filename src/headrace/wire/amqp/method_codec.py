"""Methods of AMQP 0-9-1 to frames and back, by the layout that their declarations give. No I/O."""

from dataclasses import dataclass, field
from inspect import get_annotations
from struct import Struct
from typing import Any, ClassVar, dataclass_transform

from headrace.errors import InternalError, MalformedError
from headrace.wire.amqp.method_fields import BIT, FieldCodec

_U32 = Struct(">I")
_FRAME_HEAD = Struct(">BHII")  # frame type, channel, payload size, class and method
_METHOD_FRAME = 1


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
