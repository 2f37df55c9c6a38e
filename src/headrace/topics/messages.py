"""What programs read and write: messages, batches, how far behind a consumer is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import overload

from headrace.errors import BadTopicValue
from headrace.model.topics.message_priority import Priority, priority_named
from headrace.model.topics.source_address import ipv4_text
from headrace.store.topics import types as spi

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to be appended; all but the body may be left out."""

    body: bytes | str
    priority: str = "middle"
    ref_key: str | None = None
    source_ip: str | int | None = None
    """An address, or the number of an IPv4 address. Without it the address that the producer is
    connected from is stored."""
    tags: str | None = None
    properties: Mapping[str, str] | None = None
    message_id: str | None = None

    def entry(self, token: str, born: int) -> spi.Entry:
        """BadTopicValue for what is no message: bytes(7) would be seven zeros."""
        body = encoded("a body", self.body) if isinstance(self.body, str) else self.body
        if not isinstance(body, (bytes, bytearray, memoryview)):
            raise BadTopicValue(f"a body must be bytes or a string, not {type(body).__name__}")
        address = self.source_ip
        if address is not None:
            address = ipv4_text(address) if type(address) is int else text("source_ip", address)
        for name in ("ref_key", "tags", "message_id"):
            if (value := getattr(self, name)) is not None:
                text(name, value)
        return spi.Entry(
            bytes(body),
            priority_named(self.priority),
            token,
            self.ref_key,
            self.tags,
            address,
            self.message_id,
            born,
            {} if self.properties is None else properties(self.properties),
        )


@dataclass(frozen=True, slots=True)
class Message:
    """A message read. ``id`` is unique within its priority."""

    id: int
    priority: str
    body: bytes
    ref_key: str | None
    token: str
    """Of the producer."""
    source_ip: str | None
    created_at: datetime
    """When it was stored, by the clock of the store."""
    tags: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    attempts: int = 1
    """How often it was handed out to this consumer or group, this time included."""
    message_id: str | None = None
    born: datetime | None = None
    """When it was appended, by the clock of the producer."""
    queue: int = 0
    claim: tuple[object, ...] = field(default=(), repr=False, compare=False)
    """What the batch it came in was claimed with."""

    @property
    def text(self) -> str:
        """The body as UTF-8."""
        return self.body.decode()


class Batch(Sequence[Message]):
    """What one read gave, high priority first. Empty when there was nothing."""

    __slots__ = ("claim", "messages")

    def __init__(self, messages: Sequence[Message], claim: tuple[object, ...]) -> None:
        self.messages = tuple(messages)
        self.claim = claim

    def __len__(self) -> int:
        return len(self.messages)

    @overload
    def __getitem__(self, at: int) -> Message: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, at: int | slice) -> Message | tuple[Message, ...]:
        return self.messages[at]

    def __repr__(self) -> str:
        return f"<Batch of {len(self.messages)}>"


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a consumer or group is behind in one priority."""

    priority: str
    position: int
    """The last id up to which everything is committed."""
    end: int
    """One behind the last id that can be read."""
    messages: int
    """Not committed: unread, claimed, or waiting to be tried again."""
    claimed: int
    retrying: int
    dead: int
    oldest: datetime | None
    """When the oldest of them was stored."""


def when(ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=ms)


def millis(time: datetime | float) -> int:
    """Milliseconds since 1970; a time without a zone is local time, a number is seconds."""
    if not isinstance(time, datetime):
        return int(seconds("time", time) * 1000)
    return (time.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)


def message_of(found: spi.StoredMessage, claim: tuple[object, ...] = ()) -> Message:
    return Message(
        found.id,
        found.priority.label,
        found.body,
        found.key,
        found.token,
        found.source_ip,
        when(found.time),
        found.tags,
        found.properties,
        found.attempts,
        found.message_id,
        None if found.born is None else when(found.born),
        found.partition_index,
        claim,
    )


def batch_of(taken: spi.ReadResult) -> Batch:
    return Batch([message_of(one, taken.claim) for one in taken.messages], taken.claim)


def lag_of(found: spi.PriorityLag) -> Lag:
    return Lag(
        found.priority.label,
        found.position,
        found.end,
        found.messages,
        found.claimed,
        found.retrying,
        found.dead,
        None if found.oldest_time is None else when(found.oldest_time),
    )


def whole(name: str, value: object) -> int:
    if type(value) is not int:
        raise BadTopicValue(f"{name} is a whole number, not {value!r:.80}")
    return value


def seconds(name: str, value: object) -> float:
    """Not infinite: no clock reaches that."""
    if type(value) not in (int, float) or not math.isfinite(value):  # type: ignore[arg-type]
        raise BadTopicValue(f"{name} is a number of seconds, not {value!r:.80}")
    return value  # type: ignore[return-value]


def text(name: str, value: object) -> str:
    """Half of a surrogate pair is not text: it cannot be encoded as UTF-8."""
    if not isinstance(value, str):
        raise BadTopicValue(f"{name} must be a string, not {type(value).__name__}")
    if not value.isascii():
        encoded(name, value)
    return value


def encoded(name: str, value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise BadTopicValue(f"{name} is no text that UTF-8 can hold: {error}") from None


def properties(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise BadTopicValue(f"properties map strings to strings, not a {type(value).__name__}")
    for pair in value.items():
        for one in pair:
            text("a name or value of properties", one)
    return dict(value)


def positions_of(value: object) -> dict[Priority, int]:
    """Per priority, or one for all."""
    if isinstance(value, Mapping):
        return {priority_named(name): whole("a position", one) for name, one in value.items()}
    return dict.fromkeys(Priority, whole("a position", value))
