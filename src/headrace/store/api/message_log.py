"""What the broker asks of its storage engines, and nothing more.

Two things are stored: metadata (what is declared) and the journal (messages and what became of
them). Both are written by threads of their own; the event loop hands work over and is told, on the
loop, when it is safe on disk. An engine is correct when tests/contract passes on it.
"""

from __future__ import annotations

import enum
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields
from typing import NamedTuple, Protocol

from headrace.model.epochs import Epochs
from headrace.model.retention import Retention
from headrace.store.api.timings import CommitTimings
from headrace.store.disk import File


class DurabilityLevel(enum.IntEnum):
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
class TopicRow:
    """A topic of the log engine. ``numbers`` are those of its tracks in the journal, by
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
    """A message that a group has given back, or given up."""

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
    """A named value that somebody keeps in the broker; ``settings`` has it under "value"."""

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


NOT_THERE = "that is not there"


@dataclass(frozen=True, slots=True)
class DamagedRow:
    """A row that is not served and kept for a repair; without values: rows that are missing."""

    table: str
    reason: str
    values: tuple[object, ...] = field(default=(), repr=False)  # which may be secret

    @property
    def is_stray(self) -> bool:
        """The row itself is good; what it refers to is missing."""
        return self.reason.endswith(NOT_THERE)

    def __str__(self) -> str:
        return f"table {self.table}: {self.reason}"


@dataclass(slots=True)
class Declarations:
    """Everything declared, as read at start."""

    vhosts: list[str] = field(default_factory=list)
    exchanges: list[ExchangeRow] = field(default_factory=list)
    queues: list[QueueRow] = field(default_factory=list)
    bindings: list[BindingRow] = field(default_factory=list)
    topics: list[TopicRow] = field(default_factory=list)
    parameters: list[ParameterRow] = field(default_factory=list)
    cursors: list[CursorRow] = field(default_factory=list)
    retries: list[RetryRow] = field(default_factory=list)
    pins: list[PinRow] = field(default_factory=list)
    policies: list[PolicyRow] = field(default_factory=list)
    users: list[UserRow] = field(default_factory=list)
    secrets: list[SecretRow] = field(default_factory=list)
    permissions: list[PermissionRow] = field(default_factory=list)
    topic_permissions: list[TopicPermissionRow] = field(default_factory=list)
    user_limits: list[UserLimitsRow] = field(default_factory=list)
    vhost_limits: list[VhostLimitsRow] = field(default_factory=list)
    next_queue_id: int = 1
    generation: int = field(default=0, compare=False)  # raised with every commit
    damaged: list[DamagedRow] = field(default_factory=list)
    orphaned: set[int] = field(default_factory=set)  # numbers whose messages wait for a repair

    def tables(self) -> dict[str, list[Row]]:
        """The lists of rows by the names of their tables."""
        lists = {one.name: getattr(self, one.name) for one in fields(self)}
        others = ("vhosts", "next_queue_id", "generation", "damaged", "orphaned")
        return {name: rows for name, rows in lists.items() if name not in others}

    def orphans(self, numbers: Iterable[int]) -> set[int]:
        """Which numbers of the journal are neither declared nor deleted for certain. Deleted are
        those which a whole catalogue has given before and does not know any more."""
        unknown = set(numbers) - set(self.destinations())
        if self.damaged:
            return unknown
        return {one for one in unknown if one >= self.next_queue_id or one in self.orphaned}

    def destinations(self) -> dict[int, tuple[str, str]]:
        """Every number of the journal that something declared uses: its vhost and name."""
        queues = {queue.id: (queue.vhost, queue.name) for queue in self.queues}
        tracks = {
            int(str(number)): (topic.vhost, f"topic.{topic.name}/{track}")
            for topic in self.topics
            for track, number in topic.numbers.items()
        }
        return queues | tracks


class Metadata(Protocol):
    """Declarations. Changes are queued, committed in batches in their order, each batch atomic.

    Every change returns a ticket; tickets rise. ``committed`` is the highest ticket on disk. A
    full disk is waited out, and ``on_full`` called when it begins and ends. A commit that fails
    otherwise is fatal: nothing later is committed, and ``on_failure`` is called once.
    """

    committed: int
    issued: int  # the highest ticket given

    def load(self) -> Declarations: ...

    def start(
        self,
        call_soon: Callable[[Callable[[], None]], None],
        on_commit: Callable[[int], None],
        on_failure: Callable[[Exception], None],
        on_full: Callable[[bool], None] = ...,
    ) -> None:
        """Begin to accept changes. The callbacks are made through ``call_soon``."""

    def save(self, row: Row) -> int:
        """Insert, or replace the row of the same identity."""

    def delete(self, row: Row) -> int:
        """Remove the row of the same identity; deleting a queue or an exchange removes its
        bindings, deleting a user its permissions and limits, deleting a topic the progress of its
        readers. Nothing there is no error."""

    def forget_reader(self, topic: str, reader_group: str, token: str) -> int:
        """Remove all cursors and retries of a group, or of a consumer on its own."""

    def save_vhost(self, name: str) -> int: ...

    def delete_vhost(self, name: str) -> int:
        """Remove the vhost with everything in it."""

    def close(self) -> None:
        """Commit what is queued, then stop. Idempotent."""


# -- journal ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RecordDestination:
    """Where messages of a batch went: ``count`` of them, from ``first`` on, in queue ``queue``."""

    queue: int
    first: int
    count: int


class StoredRun(NamedTuple):
    """Messages read back: of one record, delivered equally often."""

    exchange: str
    key: str
    origin: int
    ttl_ms: int | None
    time: int  # stored at, ms since 1970
    deliveries: int
    offsets: Sequence[int]
    contents: list[bytes]


class StoredExtent(NamedTuple):
    """Messages that were stored together."""

    first: int
    stop: int
    time: int  # ms since 1970
    size: int  # bytes, about


@dataclass(frozen=True, slots=True)
class Stretch:
    """Records of one destination in one segment, as columns of 64-bit numbers."""

    base: int  # the position at which the segment begins
    seed: int  # of the sums of heads in it
    file: File
    positions: array[int]
    firsts: array[int]  # the offset of each record's first message
    lows: array[int]  # which offsets of each record are wanted: lows .. highs - 1
    highs: array[int]


@dataclass(frozen=True, slots=True)
class Bounds:
    """What can be read of a destination by offset."""

    first: int  # the lowest that is there
    complete: int  # the lowest from which on nothing was removed
    end: int  # behind the last that a sync covers
    first_time: int | None = None
    last_time: int | None = None


class MessageLog(Protocol):
    """Messages and their fate. All methods are called on the loop; nothing here blocks on a sync.

    Positions rise with every append; ``durable`` is the position up to which everything is on
    disk as the levels ask, ``synced`` the one up to which a sync covers it, whatever the level.
    Readers by offset see what is synced: a power cut takes nothing of it away, so no offset that
    they note ever belongs to another message. What is appended between two flush() calls may be
    written together.
    """

    end: int
    durable: int
    synced: int
    timings: CommitTimings
    failed: Exception | None
    is_grouping: bool  # inside atomic(): what is appended cannot be read yet

    @property
    def waiting_since(self) -> float | None:
        """When the oldest work that is not on disk yet came, by the monotonic clock."""

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
        placed: Sequence[RecordDestination],
        level: DurabilityLevel,
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
    ) -> tuple[list[StoredRun], int]:
        """Messages of start .. stop - 1 in order, about ``max_bytes`` of them, and where to go on.

        Damaged ones are reported and left out.
        """

    def floor(self, queue: int) -> int:
        """The lowest offset that is not settled."""

    def extents(self, queue: int, start: int = 0) -> Iterator[StoredExtent]:
        """What is stored of the queue from ``start`` on, in order."""

    def stored_bytes(self, queue: int) -> int:
        """About how many bytes the queue's messages take."""

    def bounds(self, queue: int, synced: int) -> Bounds:
        """What can be read by offset; ``synced`` as the whole storage sees it."""

    def epochs(self, queue: int) -> Epochs:
        """The epochs of the queue, the current one last."""

    def first_at(self, queue: int, time: int) -> int:
        """The lowest offset stored at ``time`` or later."""

    def locate(self, queue: int, start: int, stop: int, synced: int) -> tuple[list[Stretch], int]:
        """The records that hold start .. stop - 1, as far as they are safe and needed by somebody,
        for a process that maps the segments itself; and the offset at which to go on: ``stop``,
        unless there were too many for one answer."""

    def set_retention(self, queue: int, retention: Retention | None) -> None:
        """From now on, keep settled messages of the queue that long; None: not at all."""

    def hold(self, queue: int, offset: int | None) -> None:
        """From now on, keep messages from ``offset`` on, settled or not; None: not any more."""

    def kept_bytes(self, queue: int) -> int:
        """About how many bytes of settled messages are kept."""

    def forget(self, queue: int) -> None:
        """The queue is deleted: its messages are dead."""

    def flush(self) -> None:
        """Hand what was appended to the writer, if it is free."""

    def sync(self) -> None:
        """Soon sync what was written without, for a reader by offset that waits."""

    def tidy(self) -> bool:
        """Free space, a little at a time; False when there is nothing to do at present."""

    def close(self) -> None:
        """Write and sync everything, note a clean end. Idempotent."""
