"""The log index: which messages of each queue are in the log, and how much of each segment is live.

It is all that is known of the log in memory, and recovery builds it from the files alone. No I/O.
For every queue (QueueIndex):

- Entries are in the order of their offsets and do not overlap: an offset is in one record.
- ``settled`` and ``gone`` are sets of offsets below ``next_offset``. ``gone`` is a subset of
  ``settled``: what neither an unsettled message, nor retention, nor a pin keeps. Without retention
  and pin the two are the same object.
- ``next_offset`` only rises, also when messages are lost: an offset is never used twice.
- ``synced_end`` is at most ``next_offset``; offsets below it survive a power cut.
- Entries before the first that has an offset outside of ``gone`` are released.
- ``size`` is the bytes of all entries, ``kept`` those of offsets in ``settled`` but not ``gone``.

For every segment:

- ``live`` is the number of (queue, offset) pairs in its records that are not in the queue's
  ``gone``; ``live_bytes`` is the sum of their weights. Each change of ``gone``, of entries or of
  the set of queues changes both counts in the same call.
- ``spans`` has, for each queue with a record in it, a range that includes all offsets there.
- A segment is removed only when ``live`` is 0 and two checkpoints have recorded that.

Between calls on the loop all of this holds. Copies made by compaction are no entries until they are
synced; ``swap`` then replaces all entries of the old segment at once.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.model.intervals import Intervals
from headrace.model.log_epochs import current_epoch, with_epoch
from headrace.model.retention import Retention
from headrace.store.api.message_log import OutgoingMessages
from headrace.store.log.queue_index import (
    NO_INDEX,
    IndexEntry,
    QueueEntry,
    QueueIndex,
    entry_weight,
)
from headrace.store.log.record_group import RecordGroup
from headrace.store.log.segment import Segment
from headrace.store.log.segment_list import SegmentList


class LogIndex:
    """The queues' indexes, and LogSpace. Whatever changes them changes the counts of the segments
    with them."""

    def __init__(self, queues: dict[int, QueueIndex], segments: SegmentList) -> None:
        self.queues = queues  # read by checkpoints and reads
        self._segments = segments
        self.grown: dict[int, int] = {}  # queues with messages that no job has taken, their ends
        for index in queues.values():
            index.synced_end = index.next_offset
        self.epoch = max((current_epoch(one.epochs) for one in queues.values()), default=0)
        for index in queues.values():
            index.epochs = index.epochs or self.first_epochs()
        self._is_restoring = True  # retention and pins are not restored yet

    # -- what is there --------------------------------------------------------------------------

    def stored_bytes(self, queue: int) -> int:
        return self.queues.get(queue, NO_INDEX).size

    def last_time(self) -> int:
        """The latest time at which anything was stored."""
        return max((index.last_time for index in self.queues.values()), default=0)

    def must_keep(self, queue: int, offset: int) -> bool:
        """Whether the message is not settled, or retained."""
        index = self.queues.get(queue)
        return index is not None and offset not in index.gone

    def kept(self, queue: int, first: int, stop: int) -> Iterable[tuple[int, int]]:
        """The ranges of first .. stop - 1 that are not settled, or retained."""
        index = self.queues.get(queue)
        return index.gone.missing(first, stop) if index is not None else ()

    def entries_in(self, segment: Segment) -> list[QueueEntry]:
        """(queue, entry) of the segment's records that are still needed."""
        return [
            (number, entry)
            for number, (first, stop) in segment.spans.items()
            if (index := self.queues.get(number)) is not None
            for entry in index.entries(first, stop)
            if segment.base <= entry.position < segment.end
        ]

    # -- messages come and go -------------------------------------------------------------------

    def enter(self, out: OutgoingMessages, position: int, size: int, time: int) -> None:
        """Messages were appended, as a record of ``size`` bytes."""
        segment = self._segments.at(position)
        weight = entry_weight(size, len(out.contents), len(out.placed))
        for one in out.placed:
            index = self.queues.get(one.queue)
            if index is None:
                index = self._new_index(one.queue)
            stop = one.first + one.count
            index.add(IndexEntry(one.first, stop, position, weight, time))
            self.grown[one.queue] = stop
            segment.note(one.queue, one.first, stop)
            segment.total += one.count
            segment.live += one.count
            segment.live_bytes += one.count * weight

    def enter_group(self, group: RecordGroup) -> None:
        """A group of records was appended."""
        segment = self._segments.at(group.position)
        for queue, columns in group.columns.items():
            index = self._known_or_new(queue)
            first, count = group.first_offsets[queue], group.counts[queue]
            index.extend(columns, first, group.position, group.time)
            stop = self.grown[queue] = first + columns.next_offset
            segment.note(queue, first, stop)
            segment.total += count
            segment.live += count
            segment.live_bytes += columns.size

    def synced(self, ends: dict[int, int]) -> None:
        """A sync covers the queues up to these ends, also what was settled meanwhile."""
        for queue, end in ends.items():
            index = self.queues.get(queue)
            if index is not None:
                index.synced_end = end

    def settle(self, ranges: list[tuple[int, int, int]]) -> None:
        """(queue, first, stop) each. Queues that are gone are passed over."""
        for queue, start, stop in ranges:
            index = self.queues.get(queue)
            if index is None:
                continue
            is_kept = index.gone is not index.settled
            for entry in index.entries(start, stop):
                low, high = max(start, entry.first), min(stop, entry.stop)
                count = index.settled.count_missing(low, high)
                if is_kept:
                    index.kept += count * entry.weight
                else:
                    self._lower(entry, count)
            index.settled.add(start, stop)
            index.release()

    def requeue(self, notes: list[tuple[int, int, int, int]]) -> None:
        """(queue, first, stop, deliveries) each."""
        for queue, start, stop, deliveries in notes:
            index = self.queues.get(queue)
            if index is not None:
                index.requeued.append((start, stop, deliveries))

    def delete_queue(self, queue: int) -> None:
        index = self.queues.pop(queue, None)
        if index is None:
            return
        for entry in index.entries():
            self._lower(entry, index.gone.count_missing(entry.first, entry.stop))

    def swap(self, segment: Segment, entries: dict[int, list[IndexEntry]]) -> None:
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

    def _lower(self, entry: IndexEntry, count: int) -> None:
        segment = self._segments.at(entry.position)
        segment.live -= count
        segment.live_bytes -= count * entry.weight

    # -- at start -------------------------------------------------------------------------------

    def raise_next_offset(self, queue: int, offset: int) -> None:
        """Offsets below ``offset`` were used, and what is not found of them is lost."""
        index = self._known_or_new(queue)
        if offset > index.next_offset:
            index.raise_next_offset(offset)

    def begin_epoch(self, now_ms: int, queues: Iterable[int]) -> None:
        """What comes from now on may get offsets that others had in another copy of this log."""
        self.epoch = max(self.epoch + 1, now_ms)
        for queue in queues:
            index = self.queues.setdefault(queue, QueueIndex())
            index.epochs = with_epoch(index.epochs, self.epoch, index.next_offset)

    def first_epochs(self) -> list[tuple[int, int]]:
        """Of a new queue: another copy of this log may have given it the same name and offsets."""
        return [(self.epoch, 0)] if self.epoch else []

    def _known_or_new(self, queue: int) -> QueueIndex:
        index = self.queues.get(queue)  # false when it has no message, and nothing to be replaced
        return self._new_index(queue) if index is None else index

    def _new_index(self, queue: int) -> QueueIndex:
        index = self.queues[queue] = QueueIndex()
        index.epochs = self.first_epochs()
        return index

    def mark_redelivered(self) -> None:
        """After a crash: deliveries are not logged, so every message may have been delivered."""
        for index in self.queues.values():
            stop = index.next_offset
            # First, so that a requeue that was logged counts more.
            others = [one for one in index.requeued if one[2] > 1 or one[1] > stop]
            index.requeued = [(index.settled.floor, stop, 1), *others]

    def retain_only(self, queues: set[int]) -> None:
        """Messages of queues that are not declared are dead."""
        for number in set(self.queues) - queues:
            self.delete_queue(number)

    def release_settled(self) -> None:
        """Once every queue has said what it retains: the rest need not be indexed."""
        self._is_restoring = False
        for index in self.queues.values():
            index.release()

    # -- retention ------------------------------------------------------------------------------

    def set_retention(self, queue: int, retention: Retention | None) -> None:
        index = self._index_to_keep(queue, retention is not None)
        if index is not None:
            index.retention = retention
            self._keep(index, retention is not None or index.pinned_from is not None)

    def set_pin(self, queue: int, offset: int | None) -> None:
        index = self._index_to_keep(queue, offset is not None)
        if index is not None:
            index.pinned_from = offset
            self._keep(index, offset is not None or index.retention is not None)

    def kept_bytes(self, queue: int) -> int:
        return self.queues.get(queue, NO_INDEX).kept

    def _index_to_keep(self, queue: int, is_wanted: bool) -> QueueIndex | None:
        if is_wanted:
            return self._known_or_new(queue)
        return self.queues.get(queue)

    def _keep(self, index: QueueIndex, is_wanted: bool) -> None:
        """Begin or end to distinguish settled messages from lost ones."""
        if is_wanted == (index.gone is not index.settled):
            return
        gone = index.settled
        if is_wanted and self._is_restoring:
            gone = _not_found(index)  # what was kept is still in the files
        elif is_wanted:
            # What was settled before may have gone with its segment.
            gone = Intervals(gone.floor, gone.ranges())
        index.kept = 0
        for entry in index.entries():
            before = index.gone.count_missing(entry.first, entry.stop)
            after = gone.count_missing(entry.first, entry.stop)
            self._lower(entry, before - after)
            settled = index.settled.count_missing(entry.first, entry.stop)
            index.kept += (after - settled) * entry.weight
        index.gone = gone
        index.release()

    def end_retention(self, now: int) -> None:
        """Let go of settled messages that were kept long enough."""
        for index in self.queues.values():
            if index.gone is not index.settled:
                self._end_retention(index, now)

    def _end_retention(self, index: QueueIndex, now: int) -> None:
        retention, pinned_from = index.retention, index.pinned_from
        kept = index.size
        for entry in index.entries():
            if pinned_from is not None and entry.stop > pinned_from:
                break
            if index.settled.count_missing(entry.first, entry.stop):
                break
            if retention is not None and not retention.ends(
                stored_at=entry.time, now=now, kept=kept
            ):
                break
            count = index.gone.count_missing(entry.first, entry.stop)
            self._lower(entry, count)
            index.kept -= count * entry.weight
            index.gone.add(index.gone.floor, entry.stop)
            kept -= (entry.stop - entry.first) * entry.weight
        index.release()


def _not_found(index: QueueIndex) -> Intervals:
    """What was settled and is not stored any more."""
    at = next((entry.first for entry in index.entries()), index.next_offset)
    gone = Intervals(at)
    for first, stop in [*((one.first, one.stop) for one in index.entries()),
                        (index.next_offset, index.next_offset)]:  # fmt: skip
        if at < first and not index.settled.count_missing(at, first):
            gone.add(at, first)
        at = stop
    return gone
