"""Reading the records of one segment: what counts, what is damaged, what a crash left unfinished.

A crash can leave the last writes incomplete: whole sectors of them are still the zeros of a new
file, which is never used again. Two things distinguish such a write from damage. What a sync is
known to cover was complete: checkpoints and the records themselves note how far that is. And a
write that lacks no sector was complete.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from headrace.store.failpoints import failpoint
from headrace.store.log import record as r
from headrace.store.log.queue_index import IndexEntry, QueueEntry, QueueIndex, entry_weight
from headrace.store.log.recovery_state import FOREIGN, LostRange, RecoveredState
from headrace.store.log.segment import Damage, Segment, SegmentRecord, parts_of, used_length, walk
from headrace.wire.record_layout import GROUP, MESSAGES, REQUEUED, SETTLED

SECTOR = 512


class SegmentScan:
    """``listed`` bytes of the segment must be there; it is whole when a checkpoint lies behind it,
    otherwise its end may be unfinished."""

    def __init__(
        self,
        segment: Segment,
        state: RecoveredState,
        *,
        listed: int,
        is_whole: bool,
        known: list[QueueEntry] | None,
    ) -> None:
        """``known`` is what an index says of it."""
        self._segment = segment
        self._state = state
        self._listed = listed
        self._known = known
        self._synced = listed  # bytes from the beginning that a sync covered
        if state.format_2_from is None:  # checkpoints of version 1 list nothing
            self._synced = max(0, min(segment.capacity, state.position - segment.base))
        assert segment.file is not None
        self._data = segment.read(segment.base, segment.file.data_end())
        # Copies are written to a segment that lies before what comes in meanwhile.
        is_older = state.format_2_from is None or used_length(self._data) <= listed
        self._is_whole = is_whole and is_older
        self.is_rubbish = False  # there is something, and no record in it
        self._entries: list[QueueEntry] = []
        self._used = 0
        self._unsure: deque[SegmentRecord] = deque()  # messages that no sync is known to cover
        self._gaps: list[Damage | SegmentRecord] = []  # no records; groups that are not whole

    def run(self) -> list[QueueEntry]:
        """What the segment adds to the index."""
        segment, report = self._segment, self._state.report
        report.scanned_bytes += len(self._data)
        for low, high in segment.unreadable:
            report.damaged(
                f"{high - low} bytes at {low} of segment {segment.base:020d} cannot be read"
            )
        start = self._state.position - segment.base
        for step in walk(self._data, segment.base, segment.seed):
            if isinstance(step, Damage) or not self._is_good(step, is_fresh=step.at >= start):
                self._gaps.append(step)
            else:
                self._take(step, is_fresh=step.at >= start)
        for gap in self._gaps:
            self._judge_gap(gap)
        while self._unsure:
            self._judge(self._unsure.pop())
        segment.used = self._used
        self._end()
        return self._entries

    def _is_good(self, step: SegmentRecord, *, is_fresh: bool) -> bool:
        """Behind the checkpoint the parts of a group count one by one, as in the books."""
        group = step.head.kind == GROUP
        return not (group and is_fresh) or r.group_is_good(self._data, step.head, step.at)

    def _take(self, step: SegmentRecord, *, is_fresh: bool) -> None:
        self._used = step.at + step.head.size
        for part in parts_of(step):
            if part.head.kind != GROUP:
                self._synced = max(self._synced, part.head.body_crc)
            if is_fresh:
                _apply(part, self._state)
            self._entries += entries_of(part)
        if step.head.kind == MESSAGES:
            self._unsure.append(step)
        while self._unsure and self._unsure[0].at + self._unsure[0].head.size <= self._synced:
            self._unsure.popleft()

    # -- damaged or unfinished ------------------------------------------------------------------

    def _judge_gap(self, gap: Damage | SegmentRecord) -> None:
        at = gap.position - self._segment.base
        group = gap if isinstance(gap, SegmentRecord) else None
        size = gap.head.size if isinstance(gap, SegmentRecord) else gap.size
        if self._is_torn(at, at + size):
            if at < self._used:
                self._state.report.unfinished(f"an unfinished write at {gap.position}")
                self._fill(at, size)
            return
        self._used = max(self._used, at + size)
        base = self._segment.base
        if group is None:
            self._state.add_lost(LostRange(base, at, size, "no record can be read there"))
            return
        entries = [one for part in parts_of(group) for one in entries_of(part)]
        self._state.add_lost(LostRange(base, at, size, "a group of records is incomplete", entries))
        self._write(at, bytes(r.HEAD_SIZE))  # also behind later checkpoints it does not count

    def _judge(self, step: SegmentRecord) -> None:
        """Messages that no sync is known to cover, the last ones first."""
        bad = list(self._bad_contents(step))
        if not bad:
            return
        if not any(self._is_torn(low, high) for _, low, high in bad):
            for number, low, high in bad:
                lost = [
                    (queue, one._replace(first=one.first + number, stop=one.first + number + 1))
                    for queue, one in entries_of(step)
                    if number < one.stop - one.first
                ]
                what = "the content of a message is not what was stored"
                self._state.add_lost(LostRange(self._segment.base, low, high - low, what, lost))
            return
        self._entries = [one for one in self._entries if one[1].position != step.position]
        if step.at + step.head.size == self._used:
            self._used = step.at  # and is cut off
        else:
            self._state.report.unfinished(f"an unfinished record at {step.position}")
            self._fill(step.at, step.head.size)

    def _bad_contents(self, step: SegmentRecord) -> Iterator[tuple[int, int, int]]:
        """Number in the record, start and stop of each content whose sum is wrong."""
        messages = r.decode_messages(self._data, step.head, step.at)
        if messages is None:
            return
        contents = r.contents_of(self._data, messages, step.at)
        for number, (start, stop, is_good) in enumerate(contents):
            if not is_good:
                yield number, start, stop

    def _is_torn(self, low: int, high: int) -> bool:
        """Whether a write there was not finished: no sync covers it, and a sector is missing."""
        if low < self._synced or self._is_whole:
            return False
        while low < high:
            stop = min(high, (low // SECTOR + 1) * SECTOR)
            if not self._data[low:stop].strip(b"\x00"):
                return True
            low = stop
        return False

    def _fill(self, at: int, size: int) -> None:
        """An empty group, so that what is left of the write is never taken for anything."""
        self._state.torn.add(self._segment.base + at)
        if size >= r.HEAD_SIZE:
            self._write(at, r.empty_group(size, seed=self._segment.seed))

    def _write(self, at: int, data: bytes) -> None:
        assert self._segment.file is not None
        self._segment.file.write(data, at)

    # -- the end --------------------------------------------------------------------------------

    def _end(self) -> None:
        segment, used = self._segment, self._used
        end = self._written_end()
        if used < self._listed or (end > used and not self._is_whole):
            is_foreign = not used and self._state.has_missing  # perhaps that one, misnamed
            if used >= self._listed and not is_foreign and self._is_torn(used, end):
                self._state.report.unfinished(
                    f"{end - used} bytes of an unfinished write at {segment.base + used}"
                )
            else:
                self._lose_end(used, max(self._listed, end))
        if self._is_whole:
            return
        assert segment.file is not None
        if segment.used < segment.capacity:
            failpoint("recovery.cut")
            segment.file.truncate(segment.used)
            segment.capacity = segment.used
        # Also when there is nothing to cut: after a crash of the broker alone, what was found may
        # be in the system's memory only, and from now on more is built on it.
        segment.file.sync()

    def _lose_end(self, used: int, end: int) -> None:
        segment = self._segment
        self.is_rubbish = not used
        segment.used = min(segment.capacity, end)
        what = "the end cannot be read" if used else FOREIGN
        known = self._known
        if known is not None:
            known = [one for one in known if one[1].position >= segment.base + used]
        self._state.add_lost(LostRange(segment.base, used, end - used, what, known))

    def _written_end(self) -> int:
        """Where the last write ended, as its head says or at least one byte shows."""
        used = self._used
        end = used_length(self._data)
        if end <= used:
            return used
        head = r.read_head(self._data, used)
        size = head.size if head is not None else r.HEAD_SIZE
        return max(end + -end % r.ALIGN, used + size)


def _apply(part: SegmentRecord, state: RecoveredState) -> None:
    """Acknowledgements and returns; messages are entered through the index."""
    if part.head.kind == SETTLED:
        for queue, first, stop in r.decode_ranges(part.data, part.head, part.at):
            index = state.queues.setdefault(queue, QueueIndex())
            index.settled.add(first, stop)
            index.next_offset = max(index.next_offset, stop)
    elif part.head.kind == REQUEUED:
        for queue, first, stop, count in r.decode_ranges(part.data, part.head, part.at):
            index = state.queues.setdefault(queue, QueueIndex())
            index.requeued.append((first, stop, count))
            index.next_offset = max(index.next_offset, stop)


def entries_of(part: SegmentRecord) -> Iterator[QueueEntry]:
    """What a record adds to the index, per queue."""
    if part.head.kind != MESSAGES:
        return
    messages = r.decode_messages(part.data, part.head, part.at)
    if messages is None:
        return
    weight = entry_weight(part.head.size, part.head.items, len(messages.placed))
    for one in messages.placed:
        yield (
            one.queue,
            IndexEntry(one.first, one.first + one.count, part.position, weight, part.head.time),
        )
