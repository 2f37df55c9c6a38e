"""The methods of AMQP 0-9-1, both directions, and their frames. No state, no I/O.

Each method is declared once, as a class; the kinds of its fields, in order, are the layout that
both the decoder and the encoder follow. (Annotations are evaluated here on purpose: the layout
is read from them.)
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from inspect import get_annotations
from struct import Struct
from typing import Any, ClassVar, TypeVar, dataclass_transform

from headrace.errors import InternalError, MalformedError
from headrace.wire.amqp.method_fields import (
    BIT,
    U8,
    U16,
    U32,
    U64,
    Bit,
    FieldCodec,
    Key,
    LongString,
    Reason,
    Short,
    Table,
)

_U32 = Struct(">I")
_FRAME_HEAD = Struct(">BHII")  # frame type, channel, payload size, class and method
_METHOD_FRAME = 1


class Method:
    """One method with its arguments; the concrete classes are frozen dataclasses."""

    __slots__ = ()

    class_id: ClassVar[int]
    method_id: ClassVar[int]
    wire_id: ClassVar[int]  # class_id << 16 | method_id
    name: ClassVar[str]  # as the specification writes it: "queue.declare-ok"
    layout: ClassVar[tuple[tuple[str, FieldCodec], ...]]


METHODS: dict[int, type[Method]] = {}

_M = TypeVar("_M", bound=Method)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def _method(class_id: int, method_id: int) -> Callable[[type[_M]], type[_M]]:
    """Make a frozen dataclass of a declaration and enter it into METHODS."""

    def declare(plain: type[_M]) -> type[_M]:
        kinds = get_annotations(plain)
        cls = dataclass(frozen=True, slots=True)(plain)
        cls.layout = tuple((name, kind.__metadata__[0]) for name, kind in kinds.items())
        if "class_id" not in kinds:  # the close methods have arguments of these names
            cls.class_id, cls.method_id = class_id, method_id
        cls.wire_id = class_id << 16 | method_id
        cls.name = _protocol_name(cls.__name__)
        METHODS[cls.wire_id] = cls
        return cls

    return declare


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


# -- connection -------------------------------------------------------------------------------


@_method(10, 10)
class ConnectionStart(Method):
    version_major: U8 = 0
    version_minor: U8 = 9
    server_properties: Table = field(default_factory=dict)
    mechanisms: LongString = b""
    locales: LongString = b""


@_method(10, 11)
class ConnectionStartOk(Method):
    client_properties: Table = field(default_factory=dict)
    mechanism: Short = ""
    response: LongString = field(default=b"", repr=False)  # has the password
    locale: Short = ""


@_method(10, 20)
class ConnectionSecure(Method):
    challenge: LongString = b""


@_method(10, 21)
class ConnectionSecureOk(Method):
    response: LongString = field(default=b"", repr=False)  # has the password


@_method(10, 30)
class ConnectionTune(Method):
    channel_max: U16 = 0
    frame_max: U32 = 0
    heartbeat: U16 = 0


@_method(10, 31)
class ConnectionTuneOk(Method):
    channel_max: U16 = 0
    frame_max: U32 = 0
    heartbeat: U16 = 0


@_method(10, 40)
class ConnectionOpen(Method):
    virtual_host: Short = ""
    reserved_1: Short = ""
    insist: Bit = False


@_method(10, 41)
class ConnectionOpenOk(Method):
    reserved_1: Short = ""


@_method(10, 50)
class ConnectionClose(Method):
    """The ids name the method that caused the close; 0 and 0 when there is none."""

    reply_code: U16 = 0
    reply_text: Reason = ""
    class_id: U16 = 0  # type: ignore[misc]
    method_id: U16 = 0  # type: ignore[misc]


@_method(10, 51)
class ConnectionCloseOk(Method):
    pass


@_method(10, 60)
class ConnectionBlocked(Method):
    reason: Reason = ""


@_method(10, 61)
class ConnectionUnblocked(Method):
    pass


@_method(10, 70)
class ConnectionUpdateSecret(Method):
    new_secret: LongString = field(default=b"", repr=False)
    reason: Reason = ""


@_method(10, 71)
class ConnectionUpdateSecretOk(Method):
    pass


# -- channel ----------------------------------------------------------------------------------


@_method(20, 10)
class ChannelOpen(Method):
    reserved_1: Short = ""


@_method(20, 11)
class ChannelOpenOk(Method):
    reserved_1: LongString = b""


@_method(20, 20)
class ChannelFlow(Method):
    active: Bit = False


@_method(20, 21)
class ChannelFlowOk(Method):
    active: Bit = False


@_method(20, 40)
class ChannelClose(Method):
    """The ids name the method that caused the close; 0 and 0 when there is none."""

    reply_code: U16 = 0
    reply_text: Reason = ""
    class_id: U16 = 0  # type: ignore[misc]
    method_id: U16 = 0  # type: ignore[misc]


@_method(20, 41)
class ChannelCloseOk(Method):
    pass


# -- access -----------------------------------------------------------------------------------


@_method(30, 10)
class AccessRequest(Method):
    realm: Short = ""
    exclusive: Bit = False
    passive: Bit = False
    active: Bit = False
    write: Bit = False
    read: Bit = False


@_method(30, 11)
class AccessRequestOk(Method):
    ticket: U16 = 0


# -- exchange ---------------------------------------------------------------------------------


@_method(40, 10)
class ExchangeDeclare(Method):
    ticket: U16 = 0
    exchange: Short = ""
    type: Short = ""
    passive: Bit = False
    durable: Bit = False
    auto_delete: Bit = False
    internal: Bit = False
    nowait: Bit = False
    arguments: Table = field(default_factory=dict)


@_method(40, 11)
class ExchangeDeclareOk(Method):
    pass


@_method(40, 20)
class ExchangeDelete(Method):
    ticket: U16 = 0
    exchange: Short = ""
    if_unused: Bit = False
    nowait: Bit = False


@_method(40, 21)
class ExchangeDeleteOk(Method):
    pass


@_method(40, 30)
class ExchangeBind(Method):
    ticket: U16 = 0
    destination: Short = ""
    source: Short = ""
    routing_key: Short = ""
    nowait: Bit = False
    arguments: Table = field(default_factory=dict)


@_method(40, 31)
class ExchangeBindOk(Method):
    pass


@_method(40, 40)
class ExchangeUnbind(Method):
    ticket: U16 = 0
    destination: Short = ""
    source: Short = ""
    routing_key: Short = ""
    nowait: Bit = False
    arguments: Table = field(default_factory=dict)


@_method(40, 51)
class ExchangeUnbindOk(Method):
    pass


# -- queue ------------------------------------------------------------------------------------


@_method(50, 10)
class QueueDeclare(Method):
    ticket: U16 = 0
    queue: Short = ""
    passive: Bit = False
    durable: Bit = False
    exclusive: Bit = False
    auto_delete: Bit = False
    nowait: Bit = False
    arguments: Table = field(default_factory=dict)


@_method(50, 11)
class QueueDeclareOk(Method):
    queue: Short = ""
    message_count: U32 = 0
    consumer_count: U32 = 0


@_method(50, 20)
class QueueBind(Method):
    ticket: U16 = 0
    queue: Short = ""
    exchange: Short = ""
    routing_key: Short = ""
    nowait: Bit = False
    arguments: Table = field(default_factory=dict)


@_method(50, 21)
class QueueBindOk(Method):
    pass


@_method(50, 30)
class QueuePurge(Method):
    ticket: U16 = 0
    queue: Short = ""
    nowait: Bit = False


@_method(50, 31)
class QueuePurgeOk(Method):
    message_count: U32 = 0


@_method(50, 40)
class QueueDelete(Method):
    ticket: U16 = 0
    queue: Short = ""
    if_unused: Bit = False
    if_empty: Bit = False
    nowait: Bit = False


@_method(50, 41)
class QueueDeleteOk(Method):
    message_count: U32 = 0


@_method(50, 50)
class QueueUnbind(Method):
    ticket: U16 = 0
    queue: Short = ""
    exchange: Short = ""
    routing_key: Short = ""
    arguments: Table = field(default_factory=dict)


@_method(50, 51)
class QueueUnbindOk(Method):
    pass


# -- basic ------------------------------------------------------------------------------------


@_method(60, 10)
class BasicQos(Method):
    prefetch_size: U32 = 0
    prefetch_count: U16 = 0
    global_: Bit = False


@_method(60, 11)
class BasicQosOk(Method):
    pass


@_method(60, 20)
class BasicConsume(Method):
    ticket: U16 = 0
    queue: Short = ""
    consumer_tag: Short = ""
    no_local: Bit = False
    no_ack: Bit = False
    exclusive: Bit = False
    nowait: Bit = False
    arguments: Table = field(default_factory=dict)


@_method(60, 21)
class BasicConsumeOk(Method):
    consumer_tag: Short = ""


@_method(60, 30)
class BasicCancel(Method):
    consumer_tag: Short = ""
    nowait: Bit = False


@_method(60, 31)
class BasicCancelOk(Method):
    consumer_tag: Short = ""


@_method(60, 40)
class BasicPublish(Method):
    ticket: U16 = 0
    exchange: Key = ""
    routing_key: Key = ""
    mandatory: Bit = False
    immediate: Bit = False


@_method(60, 50)
class BasicReturn(Method):
    reply_code: U16 = 0
    reply_text: Reason = ""
    exchange: Key = ""
    routing_key: Key = ""


@_method(60, 60)
class BasicDeliver(Method):
    consumer_tag: Key = ""
    delivery_tag: U64 = 0
    redelivered: Bit = False
    exchange: Key = ""
    routing_key: Key = ""


@_method(60, 70)
class BasicGet(Method):
    ticket: U16 = 0
    queue: Short = ""
    no_ack: Bit = False


@_method(60, 71)
class BasicGetOk(Method):
    delivery_tag: U64 = 0
    redelivered: Bit = False
    exchange: Key = ""
    routing_key: Key = ""
    message_count: U32 = 0


@_method(60, 72)
class BasicGetEmpty(Method):
    reserved_1: Short = ""


@_method(60, 80)
class BasicAck(Method):
    delivery_tag: U64 = 0
    multiple: Bit = False


@_method(60, 90)
class BasicReject(Method):
    delivery_tag: U64 = 0
    requeue: Bit = False


@_method(60, 100)
class BasicRecoverAsync(Method):
    requeue: Bit = False


@_method(60, 110)
class BasicRecover(Method):
    requeue: Bit = False


@_method(60, 111)
class BasicRecoverOk(Method):
    pass


@_method(60, 120)
class BasicNack(Method):
    delivery_tag: U64 = 0
    multiple: Bit = False
    requeue: Bit = False


# -- confirm and tx ---------------------------------------------------------------------------


@_method(85, 10)
class ConfirmSelect(Method):
    nowait: Bit = False


@_method(85, 11)
class ConfirmSelectOk(Method):
    pass


@_method(90, 10)
class TxSelect(Method):
    pass


@_method(90, 11)
class TxSelectOk(Method):
    pass


@_method(90, 20)
class TxCommit(Method):
    pass


@_method(90, 21)
class TxCommitOk(Method):
    pass


@_method(90, 30)
class TxRollback(Method):
    pass


@_method(90, 31)
class TxRollbackOk(Method):
    pass
