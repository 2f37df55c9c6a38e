"""The calls of a channel as requests: fields, and what to make of the reply. No I/O.

Both clients build their calls here; they differ only in how they wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from headrace.client.properties import Properties, properties_map
from headrace.client.settings import ExchangeType

T = TypeVar("T")
Fields = dict[str, Any]
Reply = Mapping[str, Any]
Message = tuple[str, str, Properties, bytes]
"""Exchange, routing key, properties, body."""


@dataclass(slots=True)
class Call(Generic[T]):
    """One request and everything that is to happen around it."""

    op: int
    fields: Fields
    finish: Callable[[Reply], T]
    repeatable: bool = False
    """May be sent a second time when a connection was lost before the answer."""
    waits: bool = True
    """Waits for a connection when there is none; otherwise it fails at once."""
    prepare: Callable[[], None] | None = None
    """Runs just before the request is sent, while nobody else sends."""
    failed: Callable[[Exception], None] | None = field(default=None)


class QueueInfo(NamedTuple):
    """What the broker says about a queue when it is declared."""

    name: str
    messages: int
    consumers: int


def nothing(reply: Reply) -> None:
    """The reply says nothing but yes."""


# -- exchanges and queues --------------------------------------------------------------------


def exchange_fields(
    name: str,
    kind: ExchangeType | str,
    durable: bool,
    auto_delete: bool,
    internal: bool,
    arguments: Mapping[str, Any] | None,
) -> Fields:
    return {
        "name": name,
        "type": kind.value if isinstance(kind, ExchangeType) else kind,
        "durable": durable,
        "auto_delete": auto_delete,
        "internal": internal,
        "arguments": dict(arguments or {}),
    }


def queue_fields(
    name: str,
    durable: bool,
    exclusive: bool,
    auto_delete: bool,
    arguments: Mapping[str, Any] | None,
) -> Fields:
    return {
        "name": name,
        "durable": durable,
        "exclusive": exclusive,
        "auto_delete": auto_delete,
        "arguments": dict(arguments or {}),
    }


def binding_fields(
    kind: str, destination: str, source: str, key: str | None, arguments: Mapping[str, Any] | None
) -> Fields:
    """``kind`` is "queue" or "exchange"; no key only for unbinding."""
    fields: Fields = {kind: destination, "source": source}
    if key is not None:
        fields["key"] = key
        fields["arguments"] = dict(arguments or {})
    return fields


# -- messages --------------------------------------------------------------------------------


def message_fields(
    exchange: str | None, key: str, properties: Properties, body: bytes | str
) -> Fields:
    return {
        "exchange": exchange or "",
        "key": key,
        "properties": properties_map(properties) if properties else {},
        "body": body.encode() if isinstance(body, str) else body,
    }


def publish(fields: Fields, repeatable: bool) -> Call[int]:
    return Call(PUBLISH, fields, _routed, repeatable)


def publish_batch(messages: Iterable[Message], repeatable: bool) -> Call[list[int]]:
    batch = [message_fields(*one) for one in messages]
    return Call(PUBLISH, {"batch": batch}, _routed_list, repeatable)


def _routed(reply: Reply) -> int:
    return int(reply["routed"])


def _routed_list(reply: Reply) -> list[int]:
    return list(reply["routed"])
