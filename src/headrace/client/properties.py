"""The properties of a message: what a publisher sets, and what a consumer is told besides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

TRANSIENT, PERSISTENT = 1, 2

_SENT = (
    "content_type",
    "content_encoding",
    "headers",
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "timestamp",
    "type",
    "user_id",
    "app_id",
)
_KNOWN = frozenset(_SENT)


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


Properties = BasicProperties | Mapping[str, Any] | None
"""What the publishing calls take."""


def properties_map(properties: Properties) -> dict[str, Any]:
    """What goes over the wire; TypeError for a name that is no property."""
    if not properties:
        return {}
    if isinstance(properties, BasicProperties):
        pairs = ((name, getattr(properties, name)) for name in _SENT)
        return {name: value for name, value in pairs if value is not None}
    if not _KNOWN.issuperset(properties):
        unknown = ", ".join(sorted(map(str, set(properties) - _KNOWN)))
        raise TypeError(f"no such property: {unknown}")
    return {name: value for name, value in properties.items() if value is not None}


def received_properties(row: Mapping[str, Any], tag: int) -> BasicProperties:
    """The properties of a delivery; what a newer broker adds is left out."""
    get = row["properties"].get
    return BasicProperties(  # by position: callbacks get one for every message
        get("content_type"),
        get("content_encoding"),
        get("headers"),
        get("delivery_mode"),
        get("priority"),
        get("correlation_id"),
        get("reply_to"),
        get("expiration"),
        get("message_id"),
        get("timestamp"),
        get("type"),
        get("user_id"),
        get("app_id"),
        get("routing_key"),
        row["exchange"],
        row.get("queue"),
        tag,
        row["redelivered"],
    )
