"""The message log: messages, and which of them are settled.

The event loop appends and never waits; a thread of the log writes. An implementation is correct
when tests/contract passes on it.
"""

from __future__ import annotations

import enum
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from headrace.model.histogram import Histogram
from headrace.model.log_epochs import Epochs
from headrace.model.readable_range import ReadableRange
from headrace.model.record_columns import RecordColumns
from headrace.model.retention import Retention


class DurabilityLevel(enum.IntEnum):
    """What a confirm of a queue promises."""

    MEMORY = 0  # the broker has it
    OS = 1  # the operating system has it: survives the broker, not a power cut
    FSYNC = 2  # the disk has it


class CommitTimings:
    """How long commits take: one entry per group commit, never per message."""

    __slots__ = ("bytes", "commits", "confirm", "sync", "syncs", "write_seconds")

    def __init__(self) -> None:
        self.confirm = Histogram()  # from the first append of a commit until it is on disk
        self.sync = Histogram()  # the disk's own part of it
        self.commits = 0
        self.syncs = 0
        self.bytes = 0
        self.write_seconds = 0.0


@dataclass(frozen=True, slots=True)
class RecordDestination:
    """Where messages of a batch went: ``count`` of them, from ``first`` on, in queue ``queue``."""

    queue: int
    first: int
    count: int


class OutgoingMessages(NamedTuple):
    """Messages to be stored, once for all their queues."""

    contents: Sequence[bytes]
    placed: Sequence[RecordDestination]
    level: int  # a DurabilityLevel
    exchange: str = ""
    key: str = ""
    channel_number: int = 0
    ttl_ms: int | None = None


class StoredRun(NamedTuple):
    """Messages read back: of one record, delivered equally often."""

    exchange: str
    key: str
    channel_number: int
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


class SegmentFile(Protocol):
    """A file of the log, for another process that reads it."""

    def descriptor(self) -> AbstractContextManager[int]:
        """Its descriptor."""


class LocatedRecords(NamedTuple):
    """Where the records of a range are: columns and the file of each segment."""

    columns: list[RecordColumns[array[int]]]
    files: list[SegmentFile]
    next_offset: int  # behind what was located


class LogReads(Protocol):
    """Messages by queue and offset. Called on the loop."""

    def next_offset(self, queue: int) -> int:
        """The lowest offset never used in the queue."""

    def floor(self, queue: int) -> int:
        """The lowest offset that is not settled."""

    def live(self, queue: int) -> tuple[int, int]:
        """How many messages of the queue are not settled, and about how many bytes."""

    def extents(self, queue: int, start: int = 0) -> Iterator[StoredExtent]:
        """What is stored of the queue from ``start`` on, in order."""

    def epochs(self, queue: int) -> Epochs:
        """The epochs of the queue, the current one last."""

    def first_at(self, queue: int, time: int) -> int:
        """The lowest offset stored at ``time`` or later."""

    def readable_range(self, queue: int, synced: int) -> ReadableRange:
        """What can be read by offset; ``synced`` as the whole storage sees it."""

    def read(
        self,
        queue: int,
        start: int,
        stop: int,
        *,
        max_bytes: int = ...,
        with_settled: bool = False,
    ) -> tuple[list[StoredRun], int]:
        """Messages of start .. stop - 1 in order, about ``max_bytes`` of them, and the next offset.

        Damaged messages are reported and left out.
        """

    def locate(self, queue: int, start: int, stop: int, synced: int) -> LocatedRecords:
        """The records that hold start .. stop - 1, as far as they are synced and still needed,
        for a process that maps the segments itself; ``next_offset`` is ``stop`` unless there were
        too many for one result."""


class LogSpace(Protocol):
    """What keeps settled messages on disk. Called on the loop."""

    def stored_bytes(self, queue: int) -> int:
        """About how many bytes the queue's messages take."""

    def kept_bytes(self, queue: int) -> int:
        """About how many bytes of settled messages are kept."""

    def set_retention(self, queue: int, retention: Retention | None) -> None:
        """From now on, keep settled messages of the queue that long; None: not at all."""

    def set_pin(self, queue: int, offset: int | None) -> None:
        """From now on, keep messages from ``offset`` on, settled or not; None: unpin."""

    def delete_queue(self, queue: int) -> None:
        """All messages of the queue are dead."""


class PreparedRecords(Protocol):
    """Messages for append_prepared(); offsets count from 0 in every queue."""

    def __len__(self) -> int: ...

    def add(self, out: OutgoingMessages) -> None: ...


class LogGroups(Protocol):
    """Records that apply all or not at all."""

    is_grouping: bool  # inside atomic(): what is appended cannot be read yet

    def after_group(self, callback: Callable[[], None]) -> None:
        """Inside atomic(): call back when what is appended can be read."""

    def atomic(self) -> AbstractContextManager[None]:
        """Everything appended inside is recovered after a crash, or nothing of it."""

    def prepare(self) -> PreparedRecords:
        """Records to fill over several loop turns: appending them takes hardly any time."""

    def append_prepared(self, records: PreparedRecords, first_offsets: Mapping[int, int]) -> None:
        """Inside atomic(), before anything else: store what was prepared, as one group.

        ``first_offsets``: by queue, the offset that stands for 0.
        """


class LogSettlement(Protocol):
    """What ends the life of messages, or counts their deliveries."""

    def settle_ranges(self, ranges: list[tuple[int, int, int]]) -> None:
        """(queue, first, stop) of messages that are settled; they do not overlap."""

    def settle(self, queue: int, offsets: Sequence[int]) -> None:
        """The messages are acknowledged, expired, dropped or purged."""

    def requeued(self, queue: int, offsets: Sequence[int], deliveries: int) -> None:
        """The messages were requeued and have been delivered that often."""

    def settled_position(self) -> int:
        """The position to wait for, to know that all that was settled so far is on disk."""


class MessageLog(LogGroups, LogSettlement, Protocol):
    """Appends messages and what settles them. Called on the loop; nothing here waits for a sync.

    Positions rise with every append; ``durable`` is the position up to which everything is on
    disk as the levels ask, ``synced`` the one up to which a sync covers it, whatever the level.
    Readers by offset see what is synced: no power cut takes it away, so an offset that they have
    stored never belongs to another message. What is appended between two flush() calls may be
    written together.
    """

    end: int
    durable: int
    synced: int
    timings: CommitTimings
    failed: Exception | None

    @property
    def reads(self) -> LogReads: ...

    @property
    def space(self) -> LogSpace: ...

    @property
    def waiting_since(self) -> float | None:
        """When the oldest work that is not on disk yet came, by the monotonic clock."""

    def append(self, out: OutgoingMessages) -> int:
        """Store messages once for all their queues; returns the position to wait for."""

    def flush(self, *, sync: bool = False) -> None:
        """Submit what was appended to the writer, if it is idle. ``sync``: soon sync also what was
        written without, for a reader by offset that waits."""

    def compact_step(self) -> bool:
        """Free space, a little at a time; False when there is nothing to do at present."""

    def close(self) -> None:
        """Write and sync everything, record a clean shutdown. Idempotent."""
