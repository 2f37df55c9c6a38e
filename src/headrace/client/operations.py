"""Requests: their fields, and what is to happen around them. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from headrace.client.properties import Properties, properties_map
from headrace.wire.native.messages import Op

T = TypeVar("T")
Fields = dict[str, Any]
Reply = Mapping[str, Any]
Arguments = Mapping[str, Any] | None
BATCH_MESSAGES = 1000
BATCH_BYTES = 1 << 20
Message = tuple[str | None, str, Properties, bytes | str]
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


def binding_fields(
    kind: str, destination: str, source: str, key: str | None, arguments: Arguments
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
    return Call(Op.PUBLISH, fields, lambda reply: int(reply["routed"]), repeatable)


def publish_batches(messages: Iterable[Message], repeatable: bool) -> Iterator[Call[list[int]]]:
    """As many requests as it takes: a frame has a limit, and a shorter one is read sooner."""
    batch: list[Fields] = []
    size = 0
    for one in messages:
        fields = message_fields(*one)
        batch.append(fields)
        size += len(fields["body"])
        if len(batch) >= BATCH_MESSAGES or size >= BATCH_BYTES:
            yield Call(Op.PUBLISH, {"batch": batch}, _routed_list, repeatable)
            batch, size = [], 0
    if batch:
        yield Call(Op.PUBLISH, {"batch": batch}, _routed_list, repeatable)


def _routed_list(reply: Reply) -> list[int]:
    return list(reply["routed"])


def consume_fields(queue: str, tag: str, exclusive: bool, arguments: Arguments) -> Fields:
    """The broker never acknowledges by itself here: the client does, after the callback."""
    return {
        "queue": queue,
        "consumer_tag": tag,
        "auto_ack": False,
        "exclusive": exclusive,
        "arguments": dict(arguments or {}),
    }
