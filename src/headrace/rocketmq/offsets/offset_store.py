"""What every offset store offers, and the table of offsets in memory."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, field
from threading import Lock

from headrace.rocketmq.enums import ReadOffsetType
from headrace.rocketmq.errors import OffsetStoreError
from headrace.wire.remoting.message_queue import MessageQueue

NOT_FOUND = -1


def now_millis() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class OffsetEntry:
    """How far a queue is consumed, and since when."""

    queue: MessageQueue
    offset: int
    last_update_timestamp: int = field(default_factory=now_millis)


class OffsetStore(ABC):
    """Offsets of one group. The methods may be called from any thread; persisting may block."""

    @abstractmethod
    def load(self) -> None:
        """Read what was stored before."""

    @abstractmethod
    def update_offset(self, queue: MessageQueue, offset: int) -> None:
        """Remember an offset. Never waits for a disk or a broker."""

    @abstractmethod
    def persist(self, queue: MessageQueue) -> None:
        """Store the offset of a queue; an exception when that fails."""

    @abstractmethod
    def persist_all(self) -> None:
        """Store every offset that has changed; an exception when one fails."""

    @abstractmethod
    def read_offset(self, queue: MessageQueue, read_type: ReadOffsetType) -> int:
        """The offset, -1 without one; an exception when the store fails."""

    def remove_offset(self, queue: MessageQueue) -> None:  # noqa: B027 - need not be overridden
        """Forget a queue in memory, which another member has now; what is stored stays."""

    def entries(self) -> list[OffsetEntry]:
        """What is in memory, for reports to operators."""
        return []


class TableOffsetStore(OffsetStore):
    """A store with a table of offsets in memory in front of it, which knows what is not stored."""

    def __init__(self, most: int | None = None) -> None:
        """``most``: offsets in memory, as long as what is not stored leaves room."""
        self._lock = Lock()
        self._most = most
        self._offsets: dict[MessageQueue, OffsetEntry] = {}
        self._dirty: set[MessageQueue] = set()

    def update_offset(self, queue: MessageQueue, offset: int, increase_only: bool = False) -> None:
        if offset < 0:
            raise OffsetStoreError(f"offset {offset} of {queue} is negative; it was not taken")
        with self._lock:
            known = self._offsets.pop(queue, None)
            if known is not None and (
                known.offset == offset or (increase_only and known.offset > offset)
            ):
                self._offsets[queue] = known  # moves to the end: lately used
                return
            self._offsets[queue] = OffsetEntry(queue, offset)
            self._dirty.add(queue)
            self._trim()

    def _trim(self) -> None:
        """Forget the longest unused offsets above the limit, never one that is not stored."""
        if self._most is None or len(self._offsets) <= self._most:
            return
        stored = [one for one in self._offsets if one not in self._dirty]
        for queue in stored[: len(self._offsets) - self._most]:
            del self._offsets[queue]

    def persist(self, queue: MessageQueue) -> None:
        with self._lock:
            entries = [self._offsets[queue]] if queue in self._dirty else []
        if entries:
            self._save(entries)

    def read_offset(
        self,
        queue: MessageQueue,
        read_type: ReadOffsetType = ReadOffsetType.MEMORY_FIRST_THEN_STORE,
    ) -> int:
        if read_type is not ReadOffsetType.READ_FROM_STORE:
            with self._lock:
                entry = self._offsets.get(queue)
            if entry is not None:
                return entry.offset
            if read_type is ReadOffsetType.READ_FROM_MEMORY:
                return NOT_FOUND
        return self._stored_offset(queue)

    def remove_offset(self, queue: MessageQueue) -> None:
        with self._lock:
            self._offsets.pop(queue, None)
            self._dirty.discard(queue)

    def entries(self) -> list[OffsetEntry]:
        with self._lock:
            return list(self._offsets.values())

    # -- for subclasses ----------------------------------------------------------------------

    def _unsaved(self) -> list[OffsetEntry]:
        with self._lock:
            return [self._offsets[queue] for queue in sorted(self._dirty)]

    def _learn(self, queue: MessageQueue, offset: int) -> None:
        """What the store says; memory wins when it has something newer."""
        with self._lock:
            if queue not in self._dirty:
                self._offsets[queue] = OffsetEntry(queue, offset)
                self._trim()

    def _saved_all(self, entries: Collection[OffsetEntry]) -> None:
        """These are safe; an offset that has moved on meanwhile stays unsaved."""
        with self._lock:
            for entry in entries:
                known = self._offsets.get(entry.queue)
                if known is None or known.offset == entry.offset:
                    self._dirty.discard(entry.queue)
            self._trim()

    @abstractmethod
    def _save(self, entries: list[OffsetEntry]) -> None:
        """Store these; OffsetStoreError when it fails."""

    @abstractmethod
    def _stored_offset(self, queue: MessageQueue) -> int:
        """The stored offset, -1 without one."""
