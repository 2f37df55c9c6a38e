"""What the broker asks of its storage engines, and nothing more.

Two things are stored: metadata (what is declared) and the journal (messages and what became of
them). Both are written by threads of their own; the event loop hands work over and is told, on the
loop, when it is safe on disk. An engine is correct when tests/contract passes on it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from headrace.model.retention import Retention


class Level(enum.IntEnum):
    """What a confirm of a queue promises."""

    MEMORY = 0  # the broker has it
    OS = 1  # the operating system has it: survives the broker, not a power cut
    FSYNC = 2  # the disk has it


# -- metadata -----------------------------------------------------------------------------------


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
    """A durable queue. ``id`` is its number in the journal, never given twice; ``uuid`` tells a
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
    password_hash: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PermissionRow:
    user: str
    vhost: str
    configure: str
    write: str
    read: str


Row = ExchangeRow | QueueRow | BindingRow | PolicyRow | UserRow | PermissionRow


@dataclass(slots=True)
class Catalogue:
    """Everything declared, as read at start."""

    vhosts: list[str] = field(default_factory=list)
    exchanges: list[ExchangeRow] = field(default_factory=list)
    queues: list[QueueRow] = field(default_factory=list)
    bindings: list[BindingRow] = field(default_factory=list)
    policies: list[PolicyRow] = field(default_factory=list)
    users: list[UserRow] = field(default_factory=list)
    permissions: list[PermissionRow] = field(default_factory=list)
    next_queue_id: int = 1


class Metadata(Protocol):
    """Declarations. Changes are queued, committed in batches in their order, each batch atomic.

    Every change returns a ticket; tickets rise. ``committed`` is the highest ticket on disk. A
    failed commit is fatal: nothing later is committed, and ``on_failure`` is called once.
    """

    committed: int
    issued: int  # the highest ticket given

    def load(self) -> Catalogue: ...

    def start(
        self,
        call_soon: Callable[[Callable[[], None]], None],
        on_commit: Callable[[int], None],
        on_failure: Callable[[Exception], None],
    ) -> None:
        """Begin to accept changes. Both callbacks are made through ``call_soon``."""

    def save(self, row: Row) -> int:
        """Insert, or replace the row of the same identity."""

    def delete(self, row: Row) -> int:
        """Remove the row of the same identity; deleting a queue or an exchange removes its
        bindings, deleting a user its permissions. Nothing there is no error."""

    def save_vhost(self, name: str) -> int: ...

    def delete_vhost(self, name: str) -> int:
        """Remove the vhost with everything in it."""

    def close(self) -> None:
        """Commit what is queued, then stop. Idempotent."""


# -- journal ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Placed:
    """Where messages of a batch went: ``count`` of them, from ``first`` on, in queue ``queue``."""

    queue: int
    first: int
    count: int


class Stored(NamedTuple):
    """Messages read back: of one record, delivered equally often."""

    exchange: str
    key: str
    origin: int
    ttl_ms: int | None
    time: int  # stored at, ms since 1970
    deliveries: int
    offsets: Sequence[int]
    contents: list[bytes]


class Journal(Protocol):
    """Messages and their fate. All methods are called on the loop; nothing here blocks on a sync.

    Positions rise with every append; ``durable`` is the position up to which everything is on
    disk as the levels ask. What is appended between two flush() calls may be written together.
    """

    end: int
    durable: int
    failed: Exception | None
    is_grouping: bool  # inside atomic(): what is appended cannot be read yet

    def live(self, queue: int) -> tuple[int, int]:
        """How many messages of the queue are alive, and about how many bytes."""

    def next_offset(self, queue: int) -> int:
        """The lowest offset never used in the queue."""

    def append(
        self,
        *,
        exchange: str,
        key: str,
        origin: int,
        ttl_ms: int | None,
        contents: Sequence[bytes],
        placed: Sequence[Placed],
        level: Level,
    ) -> int:
        """Store messages once for all their queues; returns the position to wait for."""

    def settle(self, queue: int, offsets: Sequence[int]) -> None:
        """The messages are done with (acknowledged, expired, dropped, purged)."""

    def returned(self, queue: int, offsets: Sequence[int], deliveries: int) -> None:
        """The messages were given back and have been delivered that often."""

    def settled_position(self) -> int:
        """The position to wait for, to know that all that was settled so far is on disk."""

    def atomic(self) -> AbstractContextManager[None]:
        """Everything appended inside is found again after a crash, or nothing of it."""

    def read_from(
        self,
        queue: int,
        start: int,
        stop: int,
        *,
        max_bytes: int = ...,
        with_settled: bool = False,
    ) -> tuple[list[Stored], int]:
        """Messages of start .. stop - 1 in order, about ``max_bytes`` of them, and where to go on.

        Damaged ones are reported and left out.
        """

    def set_retention(self, queue: int, retention: Retention | None) -> None:
        """From now on, keep settled messages of the queue that long; None: not at all."""

    def forget(self, queue: int) -> None:
        """The queue is deleted: its messages are dead."""

    def flush(self) -> None:
        """Hand what was appended to the writer, if it is free."""

    def tidy(self) -> bool:
        """Free space, a little at a time; False when there is nothing to do at present."""

    def close(self) -> None:
        """Write and sync everything, note a clean end. Idempotent."""
