"""Rows of the metadata store: one dataclass per kind of declaration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ExchangeRow:
    """A durable exchange."""

    vhost: str
    name: str
    kind: str
    auto_delete: bool = False
    internal: bool = False
    arguments: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A durable queue. ``id`` is its number in the log, never used twice; ``uuid`` distinguishes a
    queue from a later one of the same name."""

    id: int
    uuid: str
    vhost: str
    name: str
    auto_delete: bool = False
    arguments: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BindingRow:
    """A binding whose both ends are durable."""

    vhost: str
    source: str
    to_queue: bool
    destination: str
    key: str
    arguments: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic of the log engine. ``numbers`` are those of its tracks in the log, by
    `lane.partition`; ``highest`` is the highest of them, which is never given twice."""

    vhost: str
    name: str
    uuid: str
    queues: int
    created_at: int
    settings: Mapping[str, object] = field(default_factory=dict)
    numbers: Mapping[str, object] = field(default_factory=dict)
    highest: int = 0


@dataclass(frozen=True, slots=True)
class CursorRow:
    """How far a group, or a consumer on its own (an empty group), is in one track of a topic."""

    topic: str  # its uuid
    reader_group: str
    token: str
    lane: int
    partition: int
    kind: str = "claims"  # or: assigned
    floor: int = 0
    epoch: int = 0
    ranges: tuple[int, ...] = ()  # start, stop, start, stop: what is done above the floor


@dataclass(frozen=True, slots=True)
class RetryRow:
    """A message that a group has nacked: to be retried, or dead."""

    topic: str  # its uuid
    reader_group: str
    lane: int
    partition: int
    place: int  # its offset
    attempts: int = 1
    due: int = 0  # ms since 1970
    dead: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PinRow:
    """From where on the messages of a queue or topic are held for a reader outside."""

    vhost: str
    query: str
    kind: str  # queue or topic
    name: str
    uuid: str
    max_bytes: int
    updated_at: int  # ms since 1970
    positions: Mapping[str, object] = field(default_factory=dict)  # partition: offset
    lost: bool = False  # more had to be held than was allowed


@dataclass(frozen=True, slots=True)
class PolicyRow:
    vhost: str
    name: str
    pattern: str
    apply_to: str
    priority: int
    definition: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class UserRow:
    name: str
    password_hash: str = field(repr=False)
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SecretRow:
    """What a user signs requests with. Kept as it is: a signature cannot be checked with a hash."""

    user: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class PermissionRow:
    user: str
    vhost: str
    configure: str
    write: str
    read: str


@dataclass(frozen=True, slots=True)
class TopicPermissionRow:
    """Patterns over the routing keys of one exchange."""

    user: str
    vhost: str
    exchange: str
    write: str
    read: str


@dataclass(frozen=True, slots=True)
class UserLimitsRow:
    user: str
    limits: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class VhostLimitsRow:
    vhost: str
    limits: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ParameterRow:
    """A named value kept for clients; ``settings`` has it under "value"."""

    vhost: str  # "" when it belongs to no vhost
    component: str
    name: str
    settings: Mapping[str, object]


Row = (
    ExchangeRow
    | QueueRow
    | BindingRow
    | TopicRow
    | ParameterRow
    | CursorRow
    | RetryRow
    | PinRow
    | PolicyRow
    | UserRow
    | SecretRow
    | PermissionRow
    | TopicPermissionRow
    | UserLimitsRow
    | VhostLimitsRow
)
