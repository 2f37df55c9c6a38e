"""Reads of the commit log by queue and offset, and where the records of a range are."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from itertools import groupby

from headrace.model.epochs import Epochs
from headrace.model.intervals import Intervals
from headrace.model.readable_range import ReadableRange
from headrace.store.api.message_log import StoredExtent, Stretch
from headrace.store.disk import File
from headrace.store.log.log_index import LogIndex
from headrace.store.log.queue_index import Columns, QueueIndex
from headrace.store.log.record_reader import RecordReader
from headrace.store.log.segment_list import SegmentList

MAX_RECORDS = 32_768  # of one answer: to find them must not take the loop long
MAX_SEGMENTS = 32  # their files are open at once


class CommitLogReads:
    """LogReads of a commit log; changes nothing."""

    def __init__(self, index: LogIndex, segments: SegmentList, reader: RecordReader) -> None:
        self._index = index
        self._segments = segments
        self.read = reader.read

    def next_offset(self, queue: int) -> int:
        index = self._index.queues.get(queue)
        return index.next_offset if index is not None else 0

    def floor(self, queue: int) -> int:
        index = self._index.queues.get(queue)
        return index.settled.floor if index is not None else 0

    def live(self, queue: int) -> tuple[int, int]:
        index = self._index.queues.get(queue)
        if index is None:
            return 0, 0
        count = size = 0
        for entry in index.entries():
            n = index.settled.count_missing(entry.first, entry.stop)
            count += n
            size += n * entry.weight
        return count, size

    def extents(self, queue: int, start: int = 0) -> Iterator[StoredExtent]:
        index = self._index.queues.get(queue)
        if index is not None:
            for one in index.entries(start):
                yield StoredExtent(
                    one.first, one.stop, one.time, (one.stop - one.first) * one.weight
                )

    def epochs(self, queue: int) -> Epochs:
        index = self._index.queues.get(queue)
        return index.epochs if index is not None else self._index.first_epochs()

    def first_at(self, queue: int, time: int) -> int:
        index = self._index.queues.get(queue)
        return index.first_at(time) if index is not None else 0

    def readable_range(self, queue: int, synced: int) -> ReadableRange:
        index = self._index.queues.get(queue)
        if index is None:
            return ReadableRange(0, 0, 0)
        first = last = None
        end = index.synced_end
        for entry in index.entries():
            first = entry
            break
        for entry in index.backwards():
            if self._is_safe(entry.position, synced):
                last = entry
                break
            end = min(end, entry.first)
        complete = max(index.gone.highest(), first.first if first is not None else end)
        return ReadableRange(
            first.first if first is not None else end,
            end,
            min(complete, end),
            first.time if first is not None else None,
            last.time if last is not None else None,
        )

    def _is_safe(self, position: int, synced: int) -> bool:
        """Copies of compaction count only when they are on disk, and lie behind everything that
        has come in since: their positions say nothing."""
        return position < synced or self._segments.at(position).cold

    def locate(self, queue: int, start: int, stop: int, synced: int) -> tuple[list[Stretch], int]:
        """The records that hold start .. stop - 1, as far as they are safe and needed by somebody,
        and the offset at which to go on: ``stop``, unless there were too many."""
        index = self._index.queues.get(queue)
        if index is None:
            return [], stop
        found = index.columns(start, stop, MAX_RECORDS)
        count = len(found.firsts)
        following = found.stops[-1] if count == MAX_RECORDS else stop
        while count and not self._is_safe(found.positions[count - 1], synced):
            count -= 1
        stretches: list[Stretch] = []
        for base, low, high in self._by_segment(found.positions[:count]):
            if len(stretches) == MAX_SEGMENTS:
                following = found.firsts[low]
                break
            part = Columns(*(column[low:high] for column in found))
            stretches.append(self._stretch(index, base, part, start, stop))
        return stretches, max(start, min(following, stop))

    def _by_segment(self, positions: array[int]) -> Iterator[tuple[int, int, int]]:
        bases = self._segments.bases
        low = 0
        for place, group in groupby([bisect_right(bases, one) for one in positions]):
            high = low + len(list(group))
            yield bases[place - 1], low, high
            low = high

    def _stretch(
        self, index: QueueIndex, base: int, part: Columns, start: int, stop: int
    ) -> Stretch:
        segment = self._segments.at(base)
        assert segment.file is not None, "what is synced has a file"
        where = (base, segment.seed, segment.file)
        if index.gone.highest() <= max(start, part.firsts[0]):
            lows, highs = part.firsts[:], part.stops[:]
            lows[0] = max(lows[0], start)
            highs[-1] = min(highs[-1], stop)
            return Stretch(*where, part.positions, part.firsts, lows, highs)
        return _without_gone(index.gone, where, part, start, stop)


def _without_gone(
    gone: Intervals, where: tuple[int, int, File], part: Columns, start: int, stop: int
) -> Stretch:
    """Messages that nobody needs may be missing tomorrow: they are not shown today."""
    columns = [array("Q") for _ in range(4)]
    for first, end, position in zip(*part, strict=True):
        for low, high in gone.missing(max(first, start), min(end, stop)):
            for column, value in zip(columns, (position, first, low, high), strict=True):
                column.append(value)
    return Stretch(*where, *columns)
