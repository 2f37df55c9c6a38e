"""Requests: their fields, and what is to happen around them. No I/O."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any, Generic, NamedTuple, TypeVar

from headrace.client.core.checks import checked_body, checked_key
from headrace.client.properties import Properties, properties_map
from headrace.wire.native.payloads import Op

T = TypeVar("T")
Made = TypeVar("Made", bound=Callable[..., Any])
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
    failed: Callable[[Exception], None] | None = None
    first: ClientRequest[Any] | None = None
    """One that has to succeed before this one is sent."""


class QueueInfo(NamedTuple):
    """What the broker says about a queue when it is declared."""

    name: str
    messages: int
    consumers: int


def described(call: Made, build: Callable[..., object]) -> Made:
    """``call``, documented like the method that builds its request, and with the result of that."""
    update_wrapper(call, build, assigned=("__name__", "__doc__"))
    signature = inspect.signature(build)
    result = str(signature.return_annotation).removesuffix(" | None")
    result = result.removeprefix("ClientRequest[").removesuffix("]")
    call.__signature__ = signature.replace(return_annotation=result)  # type: ignore[attr-defined]
    return call


def nothing(reply: Reply) -> None:
    """For a reply without a result."""


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
