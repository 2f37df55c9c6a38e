"""Values of the topic engine interface: topics, entries, messages, consumers, lag."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple, overload

from headrace.errors import BadTopicValue
from headrace.model.readable_range import ReadableRange
from headrace.model.retention import Retention
from headrace.model.topics.message_priority import Priority

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
DEFAULT_LEASE_MS: Final = 30_000
MAX_ATTEMPTS: Final = 16
NO_PROPERTIES: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """The settings of a topic in a declaration."""

    name: str
    queues: int = 1
    retention: Retention | None = None  # None: kept until the topic is deleted
    options: Mapping[str, object] = field(default_factory=dict)  # the engine's own


def refuse_options(spec: TopicSpec, engine: str) -> None:
    """For engines that have none: who asks for keep_unread must not believe to have it."""
    if spec.options:
        raise BadTopicValue(
            f"topic option {sorted(map(str, spec.options))[0]!r} is unknown to engine {engine!r}, "
            "which has none; nothing was changed"
        )


@dataclass(frozen=True, slots=True)
class Part:
    """One partition of one priority: what can be read from it."""

    priority: Priority
    partition_index: int
    first: int  # the lowest id from which everything is there
    end: int  # one behind the last id that is safe to read
    first_time: int | None = None  # stored at, ms since 1970
    last_time: int | None = None


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic as it is. ``uuid`` differs from that of a later topic with the same name."""

    name: str
    uuid: str
    engine: str
    queues: int
    retention: Retention | None
    created_at: int
    parts: tuple[Part, ...] = ()


class Entry(NamedTuple):
    """A message to be appended. A tuple: there are many of them."""

    body: bytes
    priority: Priority = Priority.MIDDLE
    token: str = ""
    key: str | None = None  # ref_key: what it is about, e.g. an order number
    tags: str | None = None
    source_ip: str | None = None
    message_id: str | None = None
    born: int | None = None  # ms since 1970, by the producer's clock
    properties: Mapping[str, str] = NO_PROPERTIES


class UniformEntries(Sequence[Entry]):
    """Entries that have a body and are alike in everything else: the usual batch. Those who know
    it need not look at each; for the others it is a sequence like any."""

    __slots__ = ("bodies", "priority", "token")

    def __init__(
        self, bodies: Sequence[bytes], priority: Priority = Priority.MIDDLE, token: str = ""
    ) -> None:
        self.bodies = bodies
        self.priority = priority
        self.token = token

    def __len__(self) -> int:
        return len(self.bodies)

    @overload
    def __getitem__(self, at: int) -> Entry: ...
    @overload
    def __getitem__(self, at: slice) -> UniformEntries: ...
    def __getitem__(self, at: int | slice) -> Entry | UniformEntries:
        if isinstance(at, slice):
            return UniformEntries(self.bodies[at], self.priority, self.token)
        return Entry(self.bodies[at], self.priority, self.token)

    def __iter__(self) -> Iterator[Entry]:
        return (Entry(body, self.priority, self.token) for body in self.bodies)


class StoredMessage(NamedTuple):
    """A message read back. A tuple: there are many of them."""

    id: int
    priority: Priority
    partition_index: int
    time: int  # stored at, ms since 1970
    body: bytes
    token: str = ""
    key: str | None = None
    tags: str | None = None
    source_ip: str | None = None
    message_id: str | None = None
    born: int | None = None
    properties: Mapping[str, str] = NO_PROPERTIES
    attempts: int = 1  # how often it was handed out to this reader, this time included


@dataclass(frozen=True, slots=True)
class ConsumerSpec:
    """Who reads: alone when there is no group."""

    token: str
    group: str | None = None
    start: str = EARLIEST  # where a new reader or group begins
    lease_ms: int = DEFAULT_LEASE_MS
    min_share: int = 0  # percent of a batch that lower priorities get at least
    max_attempts: int = MAX_ATTEMPTS  # handed out more often than that: dead


class ReadResult(NamedTuple):
    """What one read() returns: the messages, and what to commit.

    ``claim`` is opaque to callers, plain data (it travels in msgpack), and empty when nothing was
    read.
    """

    messages: tuple[StoredMessage, ...] = ()
    claim: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class PriorityLag:
    """How far a reader is behind in one priority."""

    priority: Priority
    position: int  # the last id up to which everything is committed
    end: int
    messages: int  # not committed: unread, claimed, or waiting to be tried again
    claimed: int = 0
    retrying: int = 0
    dead: int = 0
    oldest_time: int | None = None  # stored at, of the oldest of them


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """A group (or, with an empty name, a consumer on its own) and who is in it."""

    group: str
    token: str  # of a consumer on its own
    members: tuple[str, ...]
    lag: tuple[PriorityLag, ...]


@dataclass(frozen=True, slots=True)
class TopicRanges:
    """What a bulk read may read of a topic now."""

    uuid: str
    ranges: Mapping[Priority, ReadableRange]
    at_time: Mapping[Priority, int] = field(default_factory=dict)
    """The first id stored at the requested time or later."""
    gap: str = ""
    """Which missing ids keep committed messages from being read, and why."""


@dataclass(frozen=True, slots=True)
class RangeQuery:
    """Statements for connectorx, which has connections of its own."""

    url: str = field(repr=False)
    rows: str
    uuid: str
    """Selects the uuid of the topic: rows count only while it is the same."""


@dataclass(frozen=True, slots=True)
class TopicPin:
    """The pin of a query on a topic of a database."""

    topic: str
    query: str
    positions: Mapping[Priority, int]
    """The last id that the query has read."""
    updated_at: int
