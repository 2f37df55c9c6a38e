"""Requests: their fields, and what is to happen around them. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from headrace.client.core.checks import checked_body, checked_key, checked_table
from headrace.client.properties import Properties, properties_map
from headrace.wire.native.payloads import Op

T = TypeVar("T")
Fields = dict[str, Any]
Reply = Mapping[str, Any]
Arguments = Mapping[str, Any] | None
REPLY_TO = "amq.rabbitmq.reply-to"
"""Consume from it, publish with it as `reply_to`: answers come straight to the channel."""
BATCH_MESSAGES = 1000
BATCH_BYTES = 1 << 20
Message = tuple[str | None, str, Properties, bytes | str]
"""Exchange, routing key, properties, body."""


@dataclass(slots=True)
class ClientRequest(Generic[T]):
    """One request and everything that is to happen around it."""

    op: int
    fields: Fields
    finish: Callable[[Reply], T]
    repeatable: bool = False
    """May be sent a second time when a connection was lost before the answer."""
    waits: bool = True
    """Waits for a connection while reconnecting; otherwise it fails at once."""
    prepare: Callable[[], None] | None = None
    """Runs just before the request is sent, while no other is sent."""
    failed: Callable[[Exception], None] | None = field(default=None)


class QueueInfo(NamedTuple):
    """What the broker says about a queue when it is declared."""

    name: str
    messages: int
    consumers: int


def nothing(reply: Reply) -> None:
    """For a reply without a result."""


def binding_fields(
    kind: str, destination: str, source: str, key: str | None, arguments: Arguments
) -> Fields:
    """``kind`` is "queue" or "exchange"; no key only for unbinding."""
    fields: Fields = {kind: destination, "source": source}
    if key is not None:
        fields["key"] = key
        fields["arguments"] = checked_table("arguments", arguments)
    return fields


# -- messages --------------------------------------------------------------------------------


def message_fields(
    exchange: str | None, key: str, properties: Properties, body: bytes | str
) -> Fields:
    """TypeError for what is of another kind: the broker would end the connection."""
    if exchange is not None and not isinstance(exchange, str):
        raise TypeError(f"exchange must be a string or None, not {exchange!r:.80}")
    return {
        "exchange": exchange or "",
        "key": checked_key(key),
        "properties": properties_map(properties) if properties else {},
        "body": body if type(body) is bytes else checked_body(body),
    }


def publish(fields: Fields, repeatable: bool) -> ClientRequest[int]:
    return ClientRequest(Op.PUBLISH, fields, lambda reply: int(reply["routed"]), repeatable)


def publish_batches(
    messages: Iterable[Message], repeatable: bool
) -> Iterator[ClientRequest[list[int]]]:
    """As many requests as it takes: a frame has a limit, and a shorter one is read sooner."""
    batch: list[Fields] = []
    size = 0
    for one in messages:
        fields = message_fields(*one)
        batch.append(fields)
        size += len(fields["body"])
        if len(batch) >= BATCH_MESSAGES or size >= BATCH_BYTES:
            yield ClientRequest(Op.PUBLISH, {"batch": batch}, _routed_list, repeatable)
            batch, size = [], 0
    if batch:
        yield ClientRequest(Op.PUBLISH, {"batch": batch}, _routed_list, repeatable)


def _routed_list(reply: Reply) -> list[int]:
    return list(reply["routed"])


def consume_fields(queue: str, tag: str, exclusive: bool, arguments: Arguments) -> Fields:
    """The broker never acknowledges by itself here: the client does, after the callback.

    Only replies to requests are in no queue, and cannot be acknowledged.
    """
    return {
        "queue": queue,
        "consumer_tag": tag,
        "auto_ack": queue == REPLY_TO,
        "exclusive": exclusive,
        "arguments": checked_table("arguments", arguments),
    }
