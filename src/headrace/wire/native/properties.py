"""Property maps of the native protocol <-> the property lists inside a stored message.

Times are milliseconds here and seconds there. `routing_key` is shown to consumers, and ignored
when a publisher sends it back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, NamedTuple

from headrace.cache import BoundedCache
from headrace.errors import MalformedError, PreconditionFailed
from headrace.wire.amqp.properties import BASIC, HeaderTable, Properties
from headrace.wire.amqp.values import short_string

_SIZE_AND_FLAGS = Struct(">HHQH").pack  # class, weight, body size, flags
_FLAGS = Struct(">12xH").unpack_from
_HEADER_PAYLOAD = 14  # bytes before the values
MAX_CACHED = 256
_PLAIN = frozenset((int, str))
MAX_SECONDS = (1 << 64) // 1000 - 1


class EncodedProperties(NamedTuple):
    """Everything of a content header but the size of the body."""

    flags: int
    values: bytes
    persistent: bool

    def header(self, body_size: int) -> bytes:
        """The payload of the content header frame."""
        return _SIZE_AND_FLAGS(BASIC, 0, body_size, self.flags) + self.values


NONE = EncodedProperties(0, b"", False)


class PropertyEncoder:
    """Remembers the maps it has seen: most publishers send the same few again and again."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: BoundedCache[tuple[tuple[str, object], ...], EncodedProperties] = BoundedCache(
            MAX_CACHED
        )

    def encode(self, properties: Mapping[str, Any] | None) -> EncodedProperties:
        """PreconditionFailed when a property is unknown or has a value it cannot have."""
        if not properties:
            return NONE
        if "message_id" in properties or not _PLAIN.issuperset(map(type, properties.values())):
            # Hardly ever the same twice, not hashable, or wrong: 1 and True would be one key.
            return encode_properties(properties)
        identity = tuple(properties.items())
        found = self._known.get(identity)
        return found or self._known.keep(identity, encode_properties(properties))


def encode_properties(properties: Mapping[str, Any]) -> EncodedProperties:
    """The same without a memory."""
    found = Properties()
    for name, value in properties.items():
        if value is None:
            continue
        convert = _CONVERT.get(name)
        if convert is None:
            raise PreconditionFailed(f"unknown property '{name!s:.64}'")
        try:
            convert(found, name, value)
        except MalformedError as error:
            raise PreconditionFailed(f"property '{name}': {error}") from None
    payload = found.encode(0)
    return EncodedProperties(
        _FLAGS(payload)[0], payload[_HEADER_PAYLOAD:], found.delivery_mode == 2
    )


def _wrong(name: str, wanted: str) -> PreconditionFailed:
    return PreconditionFailed(f"property '{name}' must be {wanted}")


def _text(found: Properties, name: str, value: object) -> None:
    if type(value) is not str:
        raise _wrong(name, "a string")
    short_string(value)  # refuses what is too long
    setattr(found, name, value)


def _expiration(found: Properties, name: str, value: object) -> None:
    _text(found, name, str(value) if type(value) is int else value)


def _headers(found: Properties, name: str, value: object) -> None:
    if type(value) is not dict:
        raise _wrong(name, "a map")
    found.headers = HeaderTable.of(value)


def _whole(low: int, high: int) -> Callable[[Properties, str, object], None]:
    def convert(found: Properties, name: str, value: object) -> None:
        if type(value) is not int or not low <= value <= high:
            raise _wrong(name, f"a whole number from {low} to {high}")
        setattr(found, name, value)

    return convert


def _timestamp(found: Properties, name: str, value: object) -> None:
    if type(value) is not int or not 0 <= value < 1 << 64:
        raise _wrong(name, "milliseconds since 1970")
    found.timestamp = value // 1000


def _ignore(found: Properties, name: str, value: object) -> None:
    """Consumers are shown it, so it may come back."""


_CONVERT: dict[str, Callable[[Properties, str, object], None]] = {
    "content_type": _text,
    "content_encoding": _text,
    "headers": _headers,
    "delivery_mode": _whole(1, 2),
    "priority": _whole(0, 255),
    "correlation_id": _text,
    "reply_to": _text,
    "expiration": _expiration,
    "message_id": _text,
    "timestamp": _timestamp,
    "type": _text,
    "user_id": _text,
    "app_id": _text,
    "routing_key": _ignore,
}


def shown_properties(properties: Properties) -> dict[str, object]:
    """What a consumer is shown, without routing_key and message_id, which deliveries add."""
    shown = properties.as_dict()
    shown.pop("cluster_id", None)
    shown.pop("message_id", None)
    shown.setdefault("delivery_mode", 1)
    if properties.timestamp is not None:
        shown["timestamp"] = min(properties.timestamp, MAX_SECONDS) * 1000
    return shown
