"""Checking one segment of the log: its records, their contents, and its index file."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import closing

from headrace.model.intervals import join_ranges
from headrace.store.data_directory import JOURNAL
from headrace.store.disk import Disk
from headrace.store.log import record as r
from headrace.store.log.queue_index import NO_INDEX, IndexEntry, QueueEntry
from headrace.store.log.recovery_state import LostRange, Range, lost_in, unaccounted
from headrace.store.log.segment import (
    Damage,
    Segment,
    SegmentRecord,
    index_name,
    parts_of,
    read_index,
    segment_name,
    used_length,
    walk,
)
from headrace.store.log.segment_scan import entries_of
from headrace.store.tools.findings import Findings, RepairAction, SegmentFindings
from headrace.wire.record_layout import GROUP, MESSAGES


class RecoveredIndex:
    """What recovery knows about the messages: which are alive, and where they are."""

    def __init__(self, findings: Findings, bases: list[int]) -> None:
        self._declared = findings.queues
        self._queues = findings.state.queues
        self._bases = bases
        self._by_base: dict[int, list[tuple[int, IndexEntry, int]]] = {}
        for number, index in self._queues.items():
            if not self.is_declared(number):
                continue
            for entry in index.entries():
                live = index.settled.count_missing(entry.first, entry.stop)
                if live:
                    base = bases[bisect_right(bases, entry.position) - 1]
                    self._by_base.setdefault(base, []).append((number, entry, live))

    def is_declared(self, queue: int) -> bool:
        return self._declared is None or queue in self._declared

    def alive_in(self, base: int) -> list[tuple[int, IndexEntry, int]]:
        """(queue, entry, live messages) of a segment."""
        return self._by_base.get(base, [])

    def lost(self, ranges: list[Range], position: int | None = None) -> list[Range]:
        """Those messages that are not settled, and not found at another position."""
        found: dict[int, list[tuple[int, int]]] = {}
        for queue, first, stop in ranges:
            if not self.is_declared(queue):
                continue
            index = self._queues.get(queue, NO_INDEX)
            found.setdefault(queue, []).extend(unaccounted(index, first, stop, position))
        return [(queue, low, high) for queue in found for low, high in join_ranges(found[queue])]


class SegmentCheck:
    """``used`` is how far recovery goes in it; what follows is an unfinished write, or damage."""

    def __init__(
        self, disk: Disk, base: int, used: int, findings: Findings, books: RecoveredIndex
    ) -> None:
        self._disk = disk
        self._base = base
        self._used = used
        self._findings = findings
        self._books = books
        self._name = f"{JOURNAL}/{segment_name(base)}"
        with closing(disk.open(segment_name(base))) as file:
            segment = Segment(base, file.size(), file)
            self._data = segment.read(base, file.data_end())
        for low, high in segment.unreadable:
            what = "the disk cannot read it"
            findings.add(self._name, what, RepairAction.COPY, low, high - low)
        self._entries: set[QueueEntry] = set()  # as the records say
        self._index_used = 0
        self._index = self._read_index()

    def run(self) -> SegmentFindings:
        state = self._findings.state
        end = 0
        for step in walk(self._data, self._base, state.seed(self._base)):
            at = step.position - self._base
            if at >= self._used:
                break
            if step.position in state.torn:
                self._findings.notes.append(f"{self._name}: an unfinished write at {at}")
            elif isinstance(step, Damage):
                self._damaged(at, step.size, "no record can be read here")
            else:
                self._check_record(step)
            end = at + (step.size if isinstance(step, Damage) else step.head.size)
        self._check_tail(end)
        found = SegmentFindings(self._base, len(self._data), end)
        found.messages = sum(entry.stop - entry.first for _, entry in self._entries)
        for _, entry, live in self._books.alive_in(self._base):
            found.live += live
            found.live_bytes += live * entry.weight
        self._check_index(found)
        return found

    # -- records --------------------------------------------------------------------------------

    def _check_record(self, step: SegmentRecord) -> None:
        group = step.head.kind == GROUP
        whole = not group or r.group_is_good(step.data, step.head, step.at)
        if not whole and step.position >= self._findings.position:
            # All or nothing: what is good in it does not count either.
            affected = [one for part in parts_of(step) for one in _ranges(entries_of(part))]
            what = "a group of records is incomplete, so none of them counts"
            self._damaged(step.at, step.head.size, what, affected)
            return
        if group and whole and not step.head.items:
            return  # left by a repair: it says nothing
        end = step.at + step.head.head_size if group else step.at
        for part in parts_of(step):
            self._check_part(part)
            end = part.at + part.head.size
        if end < step.at + step.head.size:
            left = step.at + step.head.size - end
            self._damaged(end, left, "records of a group cannot be read here")

    def _check_part(self, part: SegmentRecord) -> None:
        if part.head.kind != MESSAGES:
            return  # the sum of the head, which the walk has checked, is over all of it
        entries = list(entries_of(part))
        self._entries.update(entries)
        messages = r.decode_messages(part.data, part.head, part.at)
        if messages is None:
            self._damaged(part.at, part.head.size, "the sizes in a record are inconsistent")
            return
        contents = r.contents_of(part.data, messages, part.at)
        for number, (start, stop, is_good) in enumerate(contents):
            if not is_good:
                self._check_content(part, number, (start, stop - start), entries)

    def _check_content(
        self, part: SegmentRecord, number: int, where: tuple[int, int], entries: list[QueueEntry]
    ) -> None:
        holders = [
            (queue, one.first + number, one.first + number + 1)
            for queue, one in entries
            if one.first + number < one.stop
        ]
        at, size = where
        lost = self._books.lost(holders, part.position)
        if lost:
            what = "the content of a message is not what was stored"
            self._findings.add(self._name, what, RepairAction.SETTLE, at, size, lost)
        else:
            self._findings.notes.append(
                f"{self._name}: a message at {at} is damaged, but it was already settled"
            )

    def _damaged(self, at: int, size: int, what: str, affected: Iterable[Range] = ()) -> None:
        """Bytes that have to go; what was in them is known from the index, if at all."""
        low, high = self._base + at, self._base + at + size
        inside = [one for one in self._index or () if low <= one[1].position < high]
        lost = self._books.lost([*affected, *_ranges(inside)])
        self._findings.add(self._name, what, RepairAction.FILL, at, size, lost)

    def _check_tail(self, used: int) -> None:
        """What lies behind the last good record."""
        left = used_length(self._data) - used
        known = max(self._index_used, self._used)  # recovery keeps what is damaged
        if self._base <= self._findings.position < self._base + len(self._data):
            # Written to when the checkpoint was taken, and that comes after everything before it.
            known = max(known, self._findings.position - self._base)
        if known > used:
            beyond = [one for one in self._index or () if one[1].position >= self._base + used]
            what = "the end of the segment cannot be read"
            size = max(0, min(len(self._data), max(known, used + left)) - used)
            lost = self._books.lost([*_ranges(beyond)])
            if self._index is None:
                lost = lost_in(
                    LostRange(self._base, used, known - used, what), self._findings.state
                )
            self._findings.add(self._name, what, RepairAction.CUT, used, size, lost)
        elif left > 0:
            self._findings.notes.append(
                f"{self._name}: {left} bytes at {used} are an unfinished write"
            )

    # -- index ----------------------------------------------------------------------------------

    def _read_index(self) -> list[QueueEntry] | None:
        if index_name(self._base) not in self._disk.names():
            return None
        segment = Segment(self._base, len(self._data))
        found = read_index(self._disk, segment)
        self._index_used = segment.used
        return found

    def _check_index(self, found: SegmentFindings) -> None:
        if self._index is None:
            if index_name(self._base) in self._disk.names():
                found.index = "damaged"
                self._bad_index("its checksum is wrong; the broker builds it again")
            return
        listed = {_place(*one) for one in self._index}
        missing = [
            (queue, entry.first, entry.stop)
            for queue, entry, _ in self._books.alive_in(self._base)
            if _place(queue, entry) not in listed
        ]
        found.index = "damaged" if missing or not self._is_true(listed) else "good"
        if missing:
            count = sum(stop - first for _, first, stop in missing)
            self._bad_index(f"{count} messages of the segment are not in it")
        elif found.index == "damaged":
            self._bad_index("it lists messages that are not in the segment")

    def _is_true(self, listed: set[tuple[int, int, int, int]]) -> bool:
        """Whether the index names only records that are there, damaged places aside."""
        damaged = [
            (self._base + one.offset, self._base + one.offset + one.size)
            for one in self._findings.places
            if one.file == self._name
        ]
        return all(
            any(low <= position < high for low, high in damaged)
            for *_, position in listed - {_place(*one) for one in self._entries}
        )

    def _bad_index(self, what: str) -> None:
        name = f"{JOURNAL}/{index_name(self._base)}"
        size = len(self._index or ())
        self._findings.add(name, what, RepairAction.RENEW, size=size)


def _ranges(entries: Iterable[QueueEntry]) -> Iterator[Range]:
    for queue, entry in entries:
        yield queue, entry.first, entry.stop


def _place(queue: int, entry: IndexEntry) -> tuple[int, int, int, int]:
    """What an index must have right; weight and time only help."""
    return queue, entry.first, entry.stop, entry.position
