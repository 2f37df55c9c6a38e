"""The properties of a message: set by publishers, and what a delivery adds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from headrace.client.core.checks import checked_table

TRANSIENT, PERSISTENT = 1, 2


@dataclass(slots=True)
class BasicProperties:
    """AMQP's properties under their usual names; None = not set.

    ``timestamp`` is in milliseconds since 1970, ``expiration`` is a string of milliseconds. The
    fields of the last paragraph are set on what is delivered and ignored on what is published.
    """

    content_type: str | None = None
    content_encoding: str | None = None
    headers: dict[str, Any] | None = None
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

    routing_key: str | None = None
    exchange: str | None = None
    queue: str | None = None
    delivery_tag: int | None = None
    redelivered: bool = False


_FIELDS = tuple(field.name for field in fields(BasicProperties))
_SENT = _FIELDS[: _FIELDS.index("routing_key")]
_KNOWN = frozenset(_SENT)
_OF_MESSAGE = frozenset((*_SENT, "routing_key"))
_OF_DELIVERY = frozenset(("exchange", "queue", "redelivered"))
Properties = BasicProperties | Mapping[str, Any] | None
"""What the publishing calls take."""


def properties_map(properties: Properties) -> dict[str, Any]:
    """What goes over the wire; TypeError for a name that is no property."""
    if not properties:
        return {}
    if isinstance(properties, BasicProperties):
        pairs = ((name, getattr(properties, name)) for name in _SENT)
        return _checked({name: value for name, value in pairs if value is not None})
    if not isinstance(properties, Mapping):
        raise TypeError(f"properties must be BasicProperties or a mapping, not {properties!r:.80}")
    if not _KNOWN.issuperset(properties):
        unknown = ", ".join(sorted(map(str, set(properties) - _KNOWN)))
        raise TypeError(f"no such property: {unknown}")
    return _checked({name: value for name, value in properties.items() if value is not None})


def _checked(found: dict[str, Any]) -> dict[str, Any]:
    if "headers" in found:
        found["headers"] = checked_table("headers", found["headers"])
    return found


class ReceivedProperties(BasicProperties):
    """Those of a delivery. Each is looked up when it is first asked for: a callback gets them with
    every message, and asks for one or two."""

    __slots__ = ("_row",)
    _row: Mapping[str, Any]

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - of any field
        """Called for fields that are not filled in yet."""
        if name in _OF_MESSAGE:
            value = self._row["properties"].get(name)
        elif name in _OF_DELIVERY:
            value = self._row.get(name)
        else:
            raise AttributeError(f"no such property: {name}", name=name, obj=self)
        setattr(self, name, value)
        return value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BasicProperties):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _FIELDS)

    __hash__ = None  # type: ignore[assignment]


_new = ReceivedProperties.__new__


def received_properties(row: Mapping[str, Any], tag: int) -> BasicProperties:
    """The properties of a delivery; what a newer broker adds is left out."""
    found = _new(ReceivedProperties)
    found._row = row
    found.delivery_tag = tag
    found.message_id = row["properties"].get("message_id")  # needed to acknowledge
    return found
