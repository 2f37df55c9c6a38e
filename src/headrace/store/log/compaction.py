"""Compaction: live messages of mostly dead segments move to cold ones, so that space comes back.

It goes in small steps between which traffic runs. Copies become valid only when they are on disk;
until then, and after a crash at any moment, the originals count. A message copied twice by such a
crash is found twice and taken once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from headrace.model.intervals import join_ranges
from headrace.store.api.message_log import DurabilityLevel, OutgoingMessages, RecordDestination
from headrace.store.failpoints import failpoint
from headrace.store.log import record as r
from headrace.store.log.appender import Appender
from headrace.store.log.log_index import LogIndex
from headrace.store.log.queue_index import IndexEntry, QueueEntry, entry_weight
from headrace.store.log.record_reader import RecordReader
from headrace.store.log.segment import Segment
from headrace.store.log.segment_list import SegmentList

STEP_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class CompactionRule:
    """Which segments are worth it: big enough, and less than that share of it alive."""

    messages: int = 2000
    size: int = 8 << 20
    alive: float = 0.5

    def fits(self, segment: Segment) -> bool:
        big = segment.total >= self.messages or segment.used >= self.size
        by_bytes = segment.live_bytes < self.alive * max(segment.used, 1)
        by_count = segment.live < self.alive * max(segment.total, 1)
        return big and segment.live > 0 and (by_bytes or by_count)


@dataclass(slots=True)
class SegmentMove:
    """One segment on its way out."""

    segment: Segment
    records: Iterator[tuple[int, list[QueueEntry]]]
    entries: dict[int, list[IndexEntry]] = field(
        default_factory=dict
    )  # by queue: where they are now
    end: int = 0  # job to wait for
    copied: bool = False
    messages: int = 0


class Compactor:
    """Drives one move at a time."""

    def __init__(
        self,
        index: LogIndex,
        segments: SegmentList,
        reader: RecordReader,
        rule: CompactionRule,
        *,
        idle: Callable[[], list[Segment]],
        commit: Callable[[Callable[[], None]], None],
    ) -> None:
        """``idle`` returns the segments written to the end. ``commit`` has everything appended to
        ``cold`` written and synced, and then calls back."""
        self._index = index
        self._segments = segments
        self._reader = reader
        self.rule = rule
        self._idle = idle
        self._commit = commit
        self._full: list[Segment] = []  # cold ones whose copies do not count yet
        self.cold = Appender(segments, self._full.append, cold=True)
        self._move: SegmentMove | None = None
        self.moved = 0  # messages, since the start

    def needs(self, segment: Segment) -> bool:
        """Whether it must stay although nothing in it is alive: it is being read, or filled."""
        is_read = self._move is not None and segment is self._move.segment
        return is_read or segment in self._full

    def step(self) -> bool:
        """Do a little; False when there is nothing to do."""
        if self._move is None:
            fitting = [one for one in self._idle() if self.rule.fits(one)]
            segment = min(fitting, key=lambda one: one.live_bytes, default=None)
            if segment is None:
                self._seal_dead_copies()
                return False
            failpoint("compaction.begin")
            self._move = SegmentMove(segment, self._records_in(segment))
        if not self._move.copied:
            self._copy(self._move)
        return True

    def _records_in(self, segment: Segment) -> Iterator[tuple[int, list[QueueEntry]]]:
        """Positions of records that are still needed, and in which queues they are."""
        holders: dict[int, list[QueueEntry]] = {}
        for queue, entry in self._index.entries_in(segment):
            holders.setdefault(entry.position, []).append((queue, entry))
        return iter(sorted(holders.items()))

    def _seal_dead_copies(self) -> None:
        """A cold segment in which nothing is alive any more need not wait until it is full."""
        if self.cold.segment is not None and not self.cold.segment.live:
            self.cold.seal()
            self._index_full()

    # -- copying --------------------------------------------------------------------------------

    def _copy(self, move: SegmentMove) -> None:
        size = 0
        for position, holders in move.records:
            size += self._copy_record(move, position, holders)
            if size >= STEP_BYTES:
                return
        move.copied = True
        failpoint("compaction.copied")
        self._commit(lambda: self._swap(move))

    def _copy_record(self, move: SegmentMove, position: int, holders: list[QueueEntry]) -> int:
        messages, contents = self._reader.read_record(position)
        copied = 0
        self._report_damage(position, holders, contents)
        for start, stop, queues in self._alive(holders, contents):
            placed = [
                RecordDestination(queue, entry.first + start, stop - start)
                for queue, entry in queues
            ]
            out = OutgoingMessages(
                [content for content in contents[start:stop] if content is not None],
                placed,
                DurabilityLevel.FSYNC,
                exchange=messages.exchange,
                key=messages.key,
                channel_number=messages.channel_number,
                ttl_ms=messages.ttl_ms,
            )
            for queue, entry in self._append(out, messages.time):
                move.entries.setdefault(queue, []).append(entry)
            move.messages += stop - start
            copied += sum(map(len, out.contents))
        return copied

    def _append(self, out: OutgoingMessages, time: int) -> list[QueueEntry]:
        """Copy messages to the cold segment; they count from the swap on."""
        position, size = self.cold.append(
            lambda seed, synced: r.messages_parts(out, seed=seed, time=time, synced=synced)
        )
        weight = entry_weight(size, len(out.contents), len(out.placed))
        return [
            (one.queue, IndexEntry(one.first, one.first + one.count, position, weight, time))
            for one in out.placed
        ]

    def _report_damage(
        self, position: int, holders: list[QueueEntry], contents: list[bytes | None]
    ) -> None:
        """What cannot be read cannot be moved: it is lost here, so it is reported here."""
        for queue, entry in holders:
            lost = [
                (offset, offset + 1)
                for number, offset in enumerate(range(entry.first, entry.stop))
                if (number >= len(contents) or contents[number] is None)
                and self._index.must_keep(queue, offset)
            ]
            if lost:
                why = f"the record at {position} is damaged"
                self._reader.report_damage(queue, join_ranges(lost), why)

    def _alive(
        self, holders: list[QueueEntry], contents: list[bytes | None]
    ) -> Iterator[tuple[int, int, list[QueueEntry]]]:
        """Stretches of a record's messages that are whole, and alive in the same queues."""
        count = len(contents)
        if len(holders) == 1 and None not in contents:
            # By far the most frequent case, and much faster than message by message.
            queue, entry = holders[0]
            for first, stop in self._index.kept(queue, entry.first, entry.stop):
                yield first - entry.first, stop - entry.first, holders
            return
        previous: list[QueueEntry] = []
        start = 0
        for number in range(count + 1):
            queues = [
                (queue, entry)
                for queue, entry in holders
                if number < count
                and contents[number] is not None
                and entry.first + number < entry.stop
                and self._index.must_keep(queue, entry.first + number)
            ]
            if queues != previous:
                if previous:
                    yield start, number, previous
                start, previous = number, queues

    # -- the copies are on disk -----------------------------------------------------------------

    def _swap(self, move: SegmentMove) -> None:
        """From now on they are the messages."""
        failpoint("compaction.synced")
        self._index.swap(move.segment, move.entries)
        self._index_full()
        self.moved += move.messages
        self._move = None
        failpoint("compaction.swapped")

    def _index_full(self) -> None:
        for segment in self._full:
            self._segments.index_later(segment)
        self._full.clear()  # not a new list: the appender adds to this one
