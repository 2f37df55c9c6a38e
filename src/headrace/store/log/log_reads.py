"""Reads of the commit log by queue and offset, and where the records of a range are."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from operator import itemgetter

from headrace.model.intervals import Intervals
from headrace.model.log_epochs import Epochs
from headrace.model.readable_range import ReadableRange
from headrace.model.record_columns import RecordColumns
from headrace.store.api.message_log import LocatedRecords, StoredExtent
from headrace.store.log.log_index import LogIndex
from headrace.store.log.queue_index import NO_INDEX, QueueIndex
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

    def _of(self, queue: int) -> QueueIndex:
        return self._index.queues.get(queue, NO_INDEX)

    def next_offset(self, queue: int) -> int:
        return self._of(queue).next_offset

    def floor(self, queue: int) -> int:
        return self._of(queue).settled.floor

    def live(self, queue: int) -> tuple[int, int]:
        index = self._of(queue)
        count = size = 0
        for entry in index.entries():
            n = index.settled.count_missing(entry.first, entry.stop)
            count += n
            size += n * entry.weight
        return count, size

    def extents(self, queue: int, start: int = 0) -> Iterator[StoredExtent]:
        for one in self._of(queue).entries(start):
            yield StoredExtent(one.first, one.stop, one.time, (one.stop - one.first) * one.weight)

    def epochs(self, queue: int) -> Epochs:
        index = self._index.queues.get(queue)
        return index.epochs if index is not None else self._index.first_epochs()

    def first_at(self, queue: int, time: int) -> int:
        return self._of(queue).first_at(time)

    def readable_range(self, queue: int, synced: int) -> ReadableRange:
        index = self._of(queue)
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

    def locate(self, queue: int, start: int, stop: int, synced: int) -> LocatedRecords:
        located = LocatedRecords([], [], stop)
        index = self._of(queue)
        found = index.columns(start, stop, MAX_RECORDS)
        count = len(found.positions)
        following = found.high_offsets[-1] if count == MAX_RECORDS else stop
        while count and not self._is_safe(found.positions[count - 1], synced):
            count -= 1
        for segment, low, high in self._segments.runs(found.positions[:count]):
            if len(located.files) == MAX_SEGMENTS:
                following = found.first_offsets[low]
                break
            assert segment.file is not None, "what is synced has a file"
            part = found.map(itemgetter(slice(low, high)))
            part = part._replace(base=segment.base, seed=segment.seed)
            located.columns.append(_trimmed(part, index.gone, start, stop))
            located.files.append(segment.file)
        return located._replace(next_offset=max(start, min(following, stop)))


def _trimmed(
    part: RecordColumns[array[int]], gone: Intervals, start: int, stop: int
) -> RecordColumns[array[int]]:
    """What is wanted of the records: start .. stop - 1 without messages that are not needed any
    more, which may be missing later."""
    if gone.highest() <= max(start, part.first_offsets[0]):
        lows, highs = part.first_offsets[:], part.high_offsets[:]
        lows[0] = max(lows[0], start)
        highs[-1] = min(highs[-1], stop)
        return part._replace(low_offsets=lows, high_offsets=highs)
    columns = [array("Q") for _ in range(4)]
    for position, first, _, end in zip(*part[2:], strict=True):
        for low, high in gone.missing(max(first, start), min(end, stop)):
            for column, value in zip(columns, (position, first, low, high), strict=True):
                column.append(value)
    return RecordColumns(part.base, part.seed, *columns)
