"""What every queue has in the log, and how much of each segment that keeps alive. No I/O."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.model.intervals import Intervals
from headrace.model.retention import Retention
from headrace.store.log import record as r
from headrace.store.log.index import Entry, QueueIndex, entry_weight
from headrace.store.log.segment import Segment
from headrace.store.log.segments import Segments


class Books:
    """The queues' indexes. Whatever changes them changes the counts of the segments with them."""

    def __init__(self, queues: dict[int, QueueIndex], segments: Segments) -> None:
        self.queues = queues  # for checkpoints: look, do not touch
        self._segments = segments

    # -- what is there --------------------------------------------------------------------------

    def live(self, queue: int) -> tuple[int, int]:
        """How many messages of the queue are alive, and about how many bytes."""
        index = self.queues.get(queue)
        if index is None:
            return 0, 0
        count = size = 0
        for entry in index.entries():
            n = index.settled.count_missing(entry.first, entry.stop)
            count += n
            size += n * entry.weight
        return count, size

    def next_offset(self, queue: int) -> int:
        index = self.queues.get(queue)
        return index.next_offset if index is not None else 0

    def must_keep(self, queue: int, offset: int) -> bool:
        """Whether the message is not settled, or retained."""
        index = self.queues.get(queue)
        return index is not None and offset not in index.gone

    def kept(self, queue: int, first: int, stop: int) -> Iterable[tuple[int, int]]:
        """The ranges of first .. stop - 1 that are not settled, or retained."""
        index = self.queues.get(queue)
        return index.gone.missing(first, stop) if index is not None else ()

    def entries_in(self, segment: Segment) -> list[tuple[int, Entry]]:
        """(queue, entry) of the segment's records that are still needed."""
        return [
            (number, entry)
            for number, (first, stop) in segment.spans.items()
            if (index := self.queues.get(number)) is not None
            for entry in index.entries(first, stop)
            if segment.base <= entry.position < segment.end
        ]

    # -- messages come and go -------------------------------------------------------------------

    def enter(self, out: r.Outgoing, position: int, size: int, time: int) -> None:
        """Messages were appended, as a record of ``size`` bytes."""
        segment = self._segments.at(position)
        weight = entry_weight(size, len(out.contents), len(out.placed))
        for one in out.placed:
            index = self.queues.get(one.queue)
            if index is None:
                index = self.queues[one.queue] = QueueIndex()
            stop = one.first + one.count
            index.add(Entry(one.first, stop, position, weight, time))
            segment.note(one.queue, one.first, stop)
            segment.total += one.count
            segment.live += one.count
            segment.live_bytes += one.count * weight

    def settle(self, ranges: list[tuple[int, int, int]]) -> None:
        """(queue, first, stop) each. Queues that are gone are passed over."""
        for queue, start, stop in ranges:
            index = self.queues.get(queue)
            if index is None:
                continue
            for entry in index.entries(start, stop):
                low, high = max(start, entry.first), min(stop, entry.stop)
                if index.retention is None:
                    self._lower(entry, index.settled.count_missing(low, high))
            index.settled.add(start, stop)
            index.release()

    def note_returned(self, notes: list[tuple[int, int, int, int]]) -> None:
        """(queue, first, stop, deliveries) each."""
        for queue, start, stop, deliveries in notes:
            index = self.queues.get(queue)
            if index is not None:
                index.returned.append((start, stop, deliveries))

    def forget(self, queue: int) -> None:
        """The queue is deleted: its messages are dead."""
        index = self.queues.pop(queue, None)
        if index is None:
            return
        for entry in index.entries():
            self._lower(entry, index.gone.count_missing(entry.first, entry.stop))

    def swap(self, segment: Segment, entries: dict[int, list[Entry]]) -> None:
        """Copies, by queue, take the place of what is left in ``segment``."""
        for number, span in segment.spans.items():
            index = self.queues.get(number)
            if index is None:
                continue
            moved = entries.get(number, [])
            index.replace(range(segment.base, segment.end), span, moved)
            for entry in moved:
                new = self._segments.at(entry.position)
                new.note(number, entry.first, entry.stop)
                live = index.gone.count_missing(entry.first, entry.stop)
                new.total += entry.stop - entry.first
                new.live += live
                new.live_bytes += live * entry.weight
            index.release()
        segment.live = segment.live_bytes = 0

    def _lower(self, entry: Entry, count: int) -> None:
        segment = self._segments.at(entry.position)
        segment.live -= count
        segment.live_bytes -= count * entry.weight

    # -- at start -------------------------------------------------------------------------------

    def suspect_all(self) -> None:
        """After a crash: nobody noted what was being delivered, so it may have been anything."""
        for index in self.queues.values():
            stop = index.next_offset
            # First, so that whatever was noted of a message counts more than the suspicion.
            others = [one for one in index.returned if one[2] > 1 or one[1] > stop]
            index.returned = [(index.settled.floor, stop, 1), *others]

    def release_settled(self) -> None:
        """Once every queue has said what it retains: the rest need not be indexed."""
        for index in self.queues.values():
            index.release()

    # -- retention ------------------------------------------------------------------------------

    def set_retention(self, queue: int, retention: Retention | None) -> None:
        """From now on, keep settled messages of the queue that long; None: not at all."""
        index = self.queues.get(queue)
        if index is None:
            if retention is None:
                return
            index = self.queues[queue] = QueueIndex()
        had, index.retention = index.retention, retention
        if (had is None) == (retention is None):
            return
        gone = index.settled if retention is None else Intervals(_first_offset(index))
        for entry in index.entries():
            before = index.gone.count_missing(entry.first, entry.stop)
            self._lower(entry, before - gone.count_missing(entry.first, entry.stop))
        index.gone = gone
        index.release()

    def end_retention(self, now: int) -> None:
        """Let go of settled messages that were kept long enough."""
        for index in self.queues.values():
            retention = index.retention
            if retention is None:
                continue
            kept = index.size
            for entry in index.entries():
                settled = index.settled.count_missing(entry.first, entry.stop) == 0
                if not settled or not retention.ends(stored_at=entry.time, now=now, kept=kept):
                    break
                self._lower(entry, index.gone.count_missing(entry.first, entry.stop))
                index.gone.add(index.gone.floor, entry.stop)
                kept -= (entry.stop - entry.first) * entry.weight
            index.release()


def _first_offset(index: QueueIndex) -> int:
    """The lowest offset that is still stored."""
    return next((entry.first for entry in index.entries()), index.next_offset)
