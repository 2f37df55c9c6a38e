"""Where a queue's messages are: offset -> record. In memory as arrays, 32 bytes per record."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

from headrace.model.intervals import Intervals
from headrace.model.record_columns import RecordColumns
from headrace.model.retention import Retention

_TRIM = 1024


class IndexEntry(NamedTuple):
    """Consecutive offsets of one queue in one record (its messages 0 .. count - 1)."""

    first: int
    stop: int
    position: int
    weight: int  # bytes that one message holds alive, its share of the record
    time: int


QueueEntry = tuple[int, IndexEntry]  # the number of its queue, and the entry


def entry_weight(size: int, count: int, destinations: int) -> int:
    """A message's share of its record, per queue that has it.

    Rounded up: a segment must never look emptier than it is, or compaction would never end.
    """
    return -(-size // max(1, count * destinations))


class QueueIndex:
    """One queue in the log: its records in order of offset, and what is settled."""

    __slots__ = (
        "_firsts",
        "_head",
        "_positions",
        "_stops",
        "_times",
        "_weights",
        "epochs",
        "gone",
        "kept",
        "next_offset",
        "pinned_from",
        "requeued",
        "retention",
        "settled",
        "size",
        "synced_end",
    )

    def __init__(self, next_offset: int = 0, settled: Intervals | None = None) -> None:
        self._firsts = array("Q")
        self._stops = array("Q")
        self._positions = array("Q")
        self._weights = array("L")
        self._times = array("Q")
        self._head = 0  # entries before it are released
        self.size = 0  # bytes of all that is indexed, settled or not
        self.next_offset = next_offset
        self.synced_end = next_offset  # behind the last message that a sync covers
        self.settled = Intervals() if settled is None else settled
        self.gone = self.settled  # what need not be kept; less than settled if there is retention
        self.retention: Retention | None = None
        self.pinned_from: int | None = None  # from there on everything is kept, settled or not
        self.kept = 0  # bytes that are settled and not gone
        self.epochs: list[tuple[int, int]] = []  # (number, first offset), see model.log_epochs
        self.requeued: list[tuple[int, int, int]] = []  # (first, stop, deliveries), latest last

    def __len__(self) -> int:
        return len(self._firsts) - self._head

    def add(self, entry: IndexEntry) -> None:
        """Note a record; offsets must rise from call to call."""
        self._firsts.append(entry.first)
        self._stops.append(entry.stop)
        self._positions.append(entry.position)
        self._weights.append(entry.weight)
        self._times.append(entry.time)
        self.size += (entry.stop - entry.first) * entry.weight
        if entry.stop > self.next_offset:
            self.next_offset = entry.stop

    def extend(self, columns: QueueIndex, first: int, position: int, time: int) -> None:
        """Note many records; their offsets and positions count from ``first`` and ``position``."""
        self._firsts.extend(map(first.__add__, columns._firsts))
        self._stops.extend(map(first.__add__, columns._stops))
        self._positions.extend(map(position.__add__, columns._positions))
        self._weights.extend(columns._weights)
        self._times.extend(array("Q", [time]) * len(columns))
        self.size += columns.size
        self.next_offset = max(self.next_offset, first + columns.next_offset)

    def raise_next_offset(self, offset: int) -> None:
        """Offsets below ``offset`` were used, and what is not found of them is lost."""
        self.settled.add(self.next_offset, offset)
        self.next_offset = self.synced_end = offset

    def entries(self, start: int = 0, stop: int | None = None) -> Iterator[IndexEntry]:
        """Entries that hold offsets of start .. stop - 1, in order."""
        where = max(bisect_right(self._firsts, start, self._head) - 1, self._head)
        while where < len(self._firsts):
            if stop is not None and self._firsts[where] >= stop:
                return
            if self._stops[where] > start:
                yield self._at(where)
            where += 1

    def backwards(self) -> Iterator[IndexEntry]:
        """All entries, the last one first."""
        return map(self._at, range(len(self._firsts) - 1, self._head - 1, -1))

    def _at(self, where: int) -> IndexEntry:
        return IndexEntry(
            self._firsts[where],
            self._stops[where],
            self._positions[where],
            self._weights[where],
            self._times[where],
        )

    def columns(self, start: int, stop: int, limit: int) -> RecordColumns[array[int]]:
        """The entries that hold offsets of start .. stop - 1, at most ``limit`` of them."""
        low = max(bisect_right(self._firsts, start, self._head) - 1, self._head)
        if low < len(self._stops) and self._stops[low] <= start:
            low += 1
        high = min(bisect_left(self._firsts, stop, low), low + limit)
        firsts, stops = self._firsts[low:high], self._stops[low:high]
        return RecordColumns(0, 0, self._positions[low:high], firsts, firsts, stops)

    def release(self) -> None:
        """Forget entries at the head whose messages need not be kept."""
        gone = self.gone
        head = self._head
        n = len(self._stops)
        while head < n and not any(gone.missing(self._firsts[head], self._stops[head])):
            self.size -= self._weigh(head)
            head += 1
        self._head = head
        if gone is self.settled:
            # Numbers in between belong to messages that were never stored. Without them the floor
            # rises, and a queue with all kinds of messages does not gather a range for each.
            gone.add(0, self._firsts[head] if head < n else self.next_offset)
        if head > _TRIM and head * 2 > n:
            for column in (self._firsts, self._stops, self._positions, self._weights, self._times):
                del column[:head]
            self._head = 0

    def replace(self, positions: range, span: tuple[int, int], entries: list[IndexEntry]) -> None:
        """Entries with records at ``positions`` give way to others; all lie within ``span``."""
        low = bisect_left(self._firsts, span[0], self._head)
        high = bisect_left(self._firsts, span[1], low)
        self.size -= sum(map(self._weigh, range(low, high)))
        kept = [one for one in map(self._at, range(low, high)) if one.position not in positions]
        merged = sorted(kept + entries, key=lambda one: one.first)
        self._firsts[low:high] = array("Q", [one.first for one in merged])
        self._stops[low:high] = array("Q", [one.stop for one in merged])
        self._positions[low:high] = array("Q", [one.position for one in merged])
        self._weights[low:high] = array("L", [one.weight for one in merged])
        self._times[low:high] = array("Q", [one.time for one in merged])
        self.size += sum(map(self._weigh, range(low, low + len(merged))))

    def _weigh(self, where: int) -> int:
        return (self._stops[where] - self._firsts[where]) * self._weights[where]

    def first_at(self, time: int) -> int:
        """The lowest offset stored at ``time`` or later; next_offset when there is none."""
        where = bisect_left(self._times, time, self._head)
        return self._firsts[where] if where < len(self._firsts) else self.next_offset

    @property
    def last_time(self) -> int:
        return self._times[-1] if self._times else 0

    def deliveries_of(self, start: int, stop: int) -> list[tuple[int, int, int]]:
        """start .. stop - 1 as (first, stop, deliveries): how often they have been delivered."""
        for number in range(len(self.requeued) - 1, -1, -1):
            first, end, deliveries = self.requeued[number]
            if first <= start and stop <= end:
                return [(start, stop, deliveries)]
            if first < stop and start < end:
                break
        else:
            return [(start, stop, 0)]
        each = [(offset, self._deliveries(offset)) for offset in range(start, stop)]
        groups = [list(group) for _, group in groupby(each, key=itemgetter(1))]
        return [(group[0][0], group[-1][0] + 1, group[0][1]) for group in groups]

    def _deliveries(self, offset: int) -> int:
        for first, stop, deliveries in reversed(self.requeued):
            if first <= offset < stop:
                return deliveries
        return 0

    def prune_requeued(self) -> None:
        """Forget notes about messages that are settled."""
        floor = self.settled.floor
        self.requeued = [one for one in self.requeued if one[1] > floor]


NO_INDEX: Final = QueueIndex()  # of a queue that is not known: empty, and never written to
