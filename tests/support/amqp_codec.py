"""AMQP 0-9-1 bytes for the tests: an encoder and decoder of their own.

It shares nothing with the package under test, keeps the type code of every field value, and lets a
test write what no decent client would.
"""

import struct
from dataclasses import dataclass, field
from typing import Any, NamedTuple

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
FRAME_END = 0xCE
PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"

# name, class, method, then the arguments in order as name:type.
# B u8, H u16, I u32, Q u64, s short string, S long string, b bit, T table.
_METHODS = """
connection.start 10 10 major:B minor:B properties:T mechanisms:S locales:S
connection.start-ok 10 11 properties:T mechanism:s response:S locale:s
connection.secure 10 20 challenge:S
connection.secure-ok 10 21 response:S
connection.tune 10 30 channel_max:H frame_max:I heartbeat:H
connection.tune-ok 10 31 channel_max:H frame_max:I heartbeat:H
connection.open 10 40 vhost:s reserved:s insist:b
connection.open-ok 10 41 reserved:s
connection.close 10 50 code:H text:s class_id:H method_id:H
connection.close-ok 10 51
connection.blocked 10 60 reason:s
connection.unblocked 10 61
channel.open 20 10 reserved:s
channel.open-ok 20 11 reserved:S
channel.flow 20 20 active:b
channel.flow-ok 20 21 active:b
channel.close 20 40 code:H text:s class_id:H method_id:H
channel.close-ok 20 41
access.request 30 10 realm:s exclusive:b passive:b active:b write:b read:b
access.request-ok 30 11 ticket:H
exchange.declare 40 10 ticket:H exchange:s type:s passive:b durable:b auto_delete:b internal:b \
nowait:b arguments:T
exchange.declare-ok 40 11
exchange.delete 40 20 ticket:H exchange:s if_unused:b nowait:b
exchange.delete-ok 40 21
exchange.bind 40 30 ticket:H destination:s source:s routing_key:s nowait:b arguments:T
exchange.bind-ok 40 31
exchange.unbind 40 40 ticket:H destination:s source:s routing_key:s nowait:b arguments:T
exchange.unbind-ok 40 51
queue.declare 50 10 ticket:H queue:s passive:b durable:b exclusive:b auto_delete:b nowait:b \
arguments:T
queue.declare-ok 50 11 queue:s message_count:I consumer_count:I
queue.bind 50 20 ticket:H queue:s exchange:s routing_key:s nowait:b arguments:T
queue.bind-ok 50 21
queue.purge 50 30 ticket:H queue:s nowait:b
queue.purge-ok 50 31 message_count:I
queue.delete 50 40 ticket:H queue:s if_unused:b if_empty:b nowait:b
queue.delete-ok 50 41 message_count:I
queue.unbind 50 50 ticket:H queue:s exchange:s routing_key:s arguments:T
queue.unbind-ok 50 51
basic.qos 60 10 prefetch_size:I prefetch_count:H global_:b
basic.qos-ok 60 11
basic.consume 60 20 ticket:H queue:s consumer_tag:s no_local:b no_ack:b exclusive:b nowait:b \
arguments:T
basic.consume-ok 60 21 consumer_tag:s
basic.cancel 60 30 consumer_tag:s nowait:b
basic.cancel-ok 60 31 consumer_tag:s
basic.publish 60 40 ticket:H exchange:s routing_key:s mandatory:b immediate:b
basic.return 60 50 code:H text:s exchange:s routing_key:s
basic.deliver 60 60 consumer_tag:s delivery_tag:Q redelivered:b exchange:s routing_key:s
basic.get 60 70 ticket:H queue:s no_ack:b
basic.get-ok 60 71 delivery_tag:Q redelivered:b exchange:s routing_key:s message_count:I
basic.get-empty 60 72 reserved:s
basic.ack 60 80 delivery_tag:Q multiple:b
basic.reject 60 90 delivery_tag:Q requeue:b
basic.recover-async 60 100 requeue:b
basic.recover 60 110 requeue:b
basic.recover-ok 60 111
basic.nack 60 120 delivery_tag:Q multiple:b requeue:b
confirm.select 85 10 nowait:b
confirm.select-ok 85 11
tx.select 90 10
tx.select-ok 90 11
tx.commit 90 20
tx.commit-ok 90 21
tx.rollback 90 30
tx.rollback-ok 90 31
"""

CONTENT_METHODS = {"basic.return", "basic.deliver", "basic.get-ok"}

# Flag bit and type of each basic property.
PROPERTIES = {
    "content_type": (15, "s"),
    "content_encoding": (14, "s"),
    "headers": (13, "T"),
    "delivery_mode": (12, "B"),
    "priority": (11, "B"),
    "correlation_id": (10, "s"),
    "reply_to": (9, "s"),
    "expiration": (8, "s"),
    "message_id": (7, "s"),
    "timestamp": (6, "Q"),
    "type": (5, "s"),
    "user_id": (4, "s"),
    "app_id": (3, "s"),
    "cluster_id": (2, "s"),
}

# Field values of fixed width; S, x, A, F and V are handled by hand.
_FIXED = {
    "t": ">?",
    "b": ">b",
    "B": ">B",
    "s": ">h",
    "u": ">H",
    "I": ">i",
    "i": ">I",
    "l": ">q",
    "L": ">q",
    "T": ">Q",
    "f": ">f",
    "d": ">d",
    "D": ">BI",
}


class Layout(NamedTuple):
    class_id: int
    method_id: int
    arguments: tuple[tuple[str, str], ...]


def _layouts() -> dict[str, Layout]:
    layouts = {}
    for line in _METHODS.strip().splitlines():
        name, class_id, method_id, *arguments = line.split()
        pairs = tuple((part.split(":")[0], part.split(":")[1]) for part in arguments)
        layouts[name] = Layout(int(class_id), int(method_id), pairs)
    return layouts


LAYOUTS = _layouts()
_NAMES = {(layout.class_id, layout.method_id): name for name, layout in LAYOUTS.items()}


class Typed(NamedTuple):
    """A field value together with its type code."""

    code: str
    value: Any


class Frame(NamedTuple):
    kind: int
    channel: int
    payload: bytes


@dataclass
class Content:
    """What follows a method which carries content; `raw_header` is kept as it came."""

    raw_header: bytes
    body: bytes = b""
    frame_sizes: list[int] = field(default_factory=list)

    @property
    def size(self) -> int:
        return int(struct.unpack_from(">Q", self.raw_header, 4)[0])

    @property
    def raw_properties(self) -> bytes:
        """Flags and values, without class, weight and body size."""
        return self.raw_header[12:]

    @property
    def properties(self) -> dict[str, Any]:
        return _take_properties(self.raw_properties)

    @property
    def headers(self) -> dict[str, Typed]:
        return self.properties.get("headers", {})


class Method:
    """A decoded method: its arguments are attributes, `content` is set where there is one."""

    def __init__(self, name: str, channel: int, arguments: dict[str, Any]) -> None:
        self.name = name
        self.channel = channel
        self.arguments = arguments
        self.content: Content | None = None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the type depends on the argument
        try:
            return self.__dict__["arguments"][name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def body(self) -> bytes:
        assert self.content is not None, f"{self.name} carries no content"
        return self.content.body

    def __repr__(self) -> str:
        return f"{self.name}({self.arguments})"


def short_string(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return bytes([len(raw)]) + raw


def long_string(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack(">I", len(raw)) + raw


def typed(value: Any) -> Typed:  # noqa: ANN401 - any Python value a header may hold
    """The type code which common clients choose for a plain Python value."""
    if isinstance(value, Typed):
        return value
    if isinstance(value, bool):
        return Typed("t", value)
    if isinstance(value, int):
        return Typed("I" if -(2**31) <= value < 2**31 else "l", value)
    by_type = {str: "S", bytes: "S", float: "d", list: "A", dict: "F", type(None): "V"}
    return Typed(by_type[type(value)], value)


def value_bytes(value: Any) -> bytes:  # noqa: ANN401
    """Type code and value."""
    code, inner = typed(value)
    tag = code.encode()
    if code in "Sx":
        return tag + long_string(inner)
    if code == "A":
        return tag + long_string(b"".join(value_bytes(item) for item in inner))
    if code == "F":
        return tag + table(inner)
    if code == "V":
        return tag
    fields = inner if isinstance(inner, tuple) else (inner,)
    return tag + struct.pack(_FIXED[code], *fields)


def table(values: dict[str, Any] | bytes) -> bytes:
    """A field table with its length; bytes are taken as a finished table body."""
    if isinstance(values, bytes):
        return long_string(values)
    return long_string(b"".join(short_string(k) + value_bytes(v) for k, v in values.items()))


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + bytes([FRAME_END])


def method_payload(name: str, **arguments: Any) -> bytes:  # noqa: ANN401
    """Class, method and arguments; whatever is not given is zero or empty."""
    layout = LAYOUTS[name]
    unknown = set(arguments) - {key for key, _ in layout.arguments}
    assert not unknown, f"{name} has no {unknown}"
    out = bytearray(struct.pack(">HH", layout.class_id, layout.method_id))
    bits: list[bool] = []
    for key, kind in layout.arguments:
        if kind == "b":
            bits.append(bool(arguments.get(key, False)))
            continue
        out += _bit_bytes(bits)
        bits = []
        out += _argument_bytes(kind, arguments.get(key))
    return bytes(out + _bit_bytes(bits))


def header_payload(size: int, properties: dict[str, Any] | bytes, class_id: int = 60) -> bytes:
    """A content header; `properties` as bytes are flags and values ready made."""
    start = struct.pack(">HHQ", class_id, 0, size)
    if isinstance(properties, bytes):
        return start + properties
    return start + properties_bytes(**properties)


def properties_bytes(**properties: Any) -> bytes:  # noqa: ANN401
    flags = 0
    values = b""
    for name, (bit, kind) in PROPERTIES.items():
        if name in properties:
            flags |= 1 << bit
            values += _argument_bytes(kind, properties[name])
    return struct.pack(">H", flags) + values


def decode_method(incoming: Frame) -> Method:
    class_id, method_id = struct.unpack_from(">HH", incoming.payload)
    name = _NAMES[class_id, method_id]
    arguments: dict[str, Any] = {}
    at, bit = 4, 0
    for key, kind in LAYOUTS[name].arguments:
        if kind == "b":
            arguments[key] = bool(incoming.payload[at] >> bit & 1)
            bit += 1
            continue
        at, bit = at + (bit > 0), 0
        arguments[key], at = _take_argument(kind, incoming.payload, at)
    assert at + (bit > 0) == len(incoming.payload), f"bytes left over after {name}"
    return Method(name, incoming.channel, arguments)


def plain(value: Any) -> Any:  # noqa: ANN401
    """The value without its type codes, all the way down."""
    if isinstance(value, Typed):
        return plain(value.value)
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return value


def _bit_bytes(bits: list[bool]) -> bytes:
    return bytes([sum(bit << i for i, bit in enumerate(bits))]) if bits else b""


def _argument_bytes(kind: str, value: Any) -> bytes:  # noqa: ANN401
    if kind == "s":
        return short_string(value or "")
    if kind == "S":
        return long_string(value or "")
    if kind == "T":
        return table(value or {})
    return struct.pack(">" + kind, value or 0)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _take_argument(kind: str, data: bytes, at: int) -> tuple[Any, int]:
    if kind == "s":
        end = at + 1 + data[at]
        return _text(data[at + 1 : end]), end
    if kind == "S":
        (size,) = struct.unpack_from(">I", data, at)
        return _text(data[at + 4 : at + 4 + size]), at + 4 + size
    if kind == "T":
        return _take_table(data, at)
    return struct.unpack_from(">" + kind, data, at)[0], at + struct.calcsize(">" + kind)


def _take_table(data: bytes, at: int) -> tuple[dict[str, Typed], int]:
    (size,) = struct.unpack_from(">I", data, at)
    at, end = at + 4, at + 4 + size
    values: dict[str, Typed] = {}
    while at < end:
        name, at = _take_argument("s", data, at)
        values[name], at = _take_value(data, at)
    return values, at


def _take_value(data: bytes, at: int) -> tuple[Typed, int]:
    code, at = chr(data[at]), at + 1
    if code in "Sx":
        text, at = _take_argument("S", data, at)
        return Typed(code, text), at
    if code == "F":
        inner, at = _take_table(data, at)
        return Typed(code, inner), at
    if code == "A":
        return _take_array(data, at)
    if code == "V":
        return Typed(code, None), at
    fields = struct.unpack_from(_FIXED[code], data, at)
    value = fields[0] if len(fields) == 1 else fields
    return Typed(code, value), at + struct.calcsize(_FIXED[code])


def _take_array(data: bytes, at: int) -> tuple[Typed, int]:
    (size,) = struct.unpack_from(">I", data, at)
    at, end = at + 4, at + 4 + size
    items = []
    while at < end:
        item, at = _take_value(data, at)
        items.append(item)
    return Typed("A", items), at


def _take_properties(data: bytes) -> dict[str, Any]:
    (flags,) = struct.unpack_from(">H", data)
    at = 2
    values: dict[str, Any] = {}
    for name, (bit, kind) in PROPERTIES.items():
        if flags >> bit & 1:
            values[name], at = _take_argument(kind, data, at)
    return values
