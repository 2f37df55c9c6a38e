"""Arguments of exchanges, and whether a second declaration equals the first.

The texts of the errors are those RabbitMQ 3.10 gives, since people search for them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from headrace.errors import PreconditionFailed

TypeName = Callable[[object], str]

DELAYED_EXCHANGE: Final = "x-delayed-message"
DELAYED_KINDS: Final = ("direct", "fanout", "topic", "headers")


@dataclass(frozen=True, slots=True)
class Declaration:
    """The properties of a queue or an exchange that a second declaration must repeat."""

    durable: bool = False
    auto_delete: bool = False
    exclusive: bool = False  # queues
    internal: bool = False  # exchanges
    kind: str = ""  # exchanges: the type
    arguments: Mapping[str, object] = field(default_factory=dict)


# -- values ----------------------------------------------------------------------------------


def plain_type_name(value: object) -> str:
    """RabbitMQ's word for the type of a plain Python value, when the wire code is unknown."""
    if isinstance(value, bool):  # before int, of which it is a subclass
        return "bool"
    if isinstance(value, int):
        return "signedint" if -(2**31) <= value < 2**31 else "long"
    for python_type, name in _TYPE_NAMES:
        if isinstance(value, python_type):
            return name
    return type(value).__name__


_TYPE_NAMES: Final[tuple[tuple[type | tuple[type, ...], str], ...]] = (
    (str, "longstr"),
    ((bytes, bytearray, memoryview), "binary"),
    (float, "double"),
    (Decimal, "decimal"),
    ((list, tuple), "array"),
    (Mapping, "table"),
    (type(None), "void"),
)


def comparable(value: object) -> Hashable:
    """A hashable stand-in: two values are the same for RabbitMQ when their stand-ins are equal.

    Width and code do not matter (an int of any size, string or byte array, 1 and 1.0), the kind
    does: true is not 1, "1" is not 1, and a decimal equals decimals only. Inside arrays and tables
    RabbitMQ also distinguishes the codes, which is left out: clients cannot rely on it.
    """
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, Decimal):
        return ("decimal", value)
    if isinstance(value, (list, tuple)):
        return ("array", *map(comparable, value))
    if isinstance(value, Mapping):
        return ("table", frozenset((name, comparable(item)) for name, item in value.items()))
    if isinstance(value, Hashable):  # int, float, None, time stamps
        return value
    raise TypeError(f"no AMQP value: {type(value).__name__}")


# -- redeclaration -----------------------------------------------------------------------------


def check_equivalent_exchange(
    name: str, vhost: str, *, received: Declaration, current: Declaration, type_name: TypeName
) -> None:
    """Raise PreconditionFailed when the exchange exists with other properties."""
    what = f"exchange '{name}' in vhost '{vhost}'"
    check_same("type", what, received.kind, current.kind)
    check_same("durable", what, received.durable, current.durable)
    check_same("auto_delete", what, received.auto_delete, current.auto_delete)
    check_same("internal", what, received.internal, current.internal)
    keys = ["alternate-exchange"]
    if current.kind == DELAYED_EXCHANGE:
        keys.append("x-delayed-type")
    for key in keys:
        check_same_argument(key, what, received.arguments, current.arguments, type_name)


def check_same(key: str, what: str, received: object, current: object) -> None:
    # 10.0 matches 10 in a binding, but is no number of messages or milliseconds.
    same_kind = isinstance(received, float) == isinstance(current, float)
    if not same_kind or comparable(received) != comparable(current):
        raise PreconditionFailed(
            f"inequivalent arg '{key}' for {what}: "
            f"received '{_shown(received)}' but current is '{_shown(current)}'"
        )


_ABSENT: Final = object()


def check_same_argument(
    key: str,
    what: str,
    received: Mapping[str, object],
    current: Mapping[str, object],
    type_name: TypeName,
) -> None:
    new, old = received.get(key, _ABSENT), current.get(key, _ABSENT)
    if new is _ABSENT and old is _ABSENT:
        return
    if new is _ABSENT or old is _ABSENT:
        if key == "x-queue-type" and "classic" in (new, old):
            return
        raise PreconditionFailed(
            f"inequivalent arg '{key}' for {what}: "
            f"received {_described(new, type_name)} but current is {_described(old, type_name)}"
        )
    check_same(key, what, new, old)


def _described(value: object, type_name: TypeName) -> str:
    return (
        "none" if value is _ABSENT else f"the value '{_shown(value)}' of type '{type_name(value)}'"
    )


def _shown(value: object) -> str:
    if value is None:
        return "undefined"
    return str(value).lower() if isinstance(value, bool) else str(value)


def check_exchange_arguments(
    name: str,
    vhost: str,
    kind: str,
    arguments: Mapping[str, object],
    *,
    type_name: TypeName = plain_type_name,
) -> None:
    """Raise PreconditionFailed when a new exchange of this type cannot have these arguments."""
    what = f"exchange '{name}' in vhost '{vhost}'"
    alternate = arguments.get("alternate-exchange", "")
    if not isinstance(alternate, str):
        raise PreconditionFailed(
            f"invalid type '{type_name(alternate)}' for arg 'alternate-exchange' in {what}"
        )
    if kind == DELAYED_EXCHANGE and arguments.get("x-delayed-type") not in DELAYED_KINDS:
        raise PreconditionFailed(
            f"invalid arg 'x-delayed-type' for {what}: it must be one of {', '.join(DELAYED_KINDS)}"
        )
