"""Reading messages back: from the files, or from memory while they are not written yet.

Every content's sum is checked. What is damaged is logged, counted and settled, never delivered.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import accumulate, groupby, pairwise
from zlib import crc32

from headrace.model.intervals import Intervals
from headrace.store.api.message_log import OutgoingMessages, StoredRun
from headrace.store.log import record as r
from headrace.store.log.log_index import LogIndex
from headrace.store.log.queue_index import IndexEntry, QueueIndex
from headrace.store.log.record_group import RecordGroup
from headrace.store.log.segment import Segment
from headrace.store.log.segment_list import SegmentList
from headrace.wire.record_layout import MESSAGES, inner_seed

logger = logging.getLogger(__name__)

LOAD_BYTES = 1 << 18
_NOTHING = r.MessagesHead("", "", 0, None, 0, (), (), (), 0)


class RecordReader:
    """Finds messages by queue and offset, and records by position."""

    def __init__(
        self, index: LogIndex, segments: SegmentList, settle: Callable[[int, range], None]
    ) -> None:
        self._index = index
        self._segments = segments
        self._settle = settle
        # Position -> store time and messages. Entered by append.
        self.unwritten: dict[int, tuple[int, OutgoingMessages]] = {}
        self.unwritten_groups: list[RecordGroup] = []
        self.damaged = 0  # messages that could not be read
        self._lost: dict[int, Intervals] = {}  # by queue: those already reported

    def drop_written(self, position: int | None) -> None:
        """Everything before that position is in its file; None: everything is."""
        if position is None:
            self.unwritten.clear()
            self.unwritten_groups.clear()
        else:
            self.unwritten = {at: one for at, one in self.unwritten.items() if at >= position}
            self.unwritten_groups = [
                group for group in self.unwritten_groups if group.position >= position
            ]

    def _unwritten(self, position: int) -> tuple[int, OutgoingMessages] | None:
        """Store time and messages of a record that is not in its file yet."""
        found = self.unwritten.get(position)
        if found is None:
            for group in self.unwritten_groups:
                found = found or group.at(position)
        return found

    # -- by queue and offset --------------------------------------------------------------------

    def read(
        self,
        queue: int,
        start: int,
        stop: int,
        *,
        max_bytes: int = LOAD_BYTES,
        with_settled: bool = False,
    ) -> tuple[list[StoredRun], int]:
        """Messages of start .. stop - 1, record by record, about ``max_bytes`` of them.

        Returns them and the offset at which to go on. Damaged ones are counted and left out.
        """
        index = self._index.queues.get(queue)
        if index is None:
            return [], stop
        loaded: list[StoredRun] = []
        size = 0
        for entry in index.entries(start, stop):
            if size >= max_bytes:
                return loaded, entry.first
            low, high = max(start, entry.first), min(stop, entry.stop)
            ranges = [(low, high)] if with_settled else list(index.settled.missing(low, high))
            if ranges:
                found = self._load(queue, index, entry, ranges)
                size += sum(len(content) for one in found for content in one.contents)
                loaded += found
        return loaded, stop

    def _load(
        self, queue: int, index: QueueIndex, entry: IndexEntry, ranges: list[tuple[int, int]]
    ) -> list[StoredRun]:
        """Some messages of a record: stretches without holes, each delivered equally often."""
        unwritten = self._unwritten(entry.position)
        if unwritten is not None:
            time, out = unwritten
            route = (out.exchange, out.key, out.channel_number, out.ttl_ms, time)
            stretches = [
                (low, list(out.contents[low - entry.first : high - entry.first]))
                for low, high in ranges
            ]
        else:
            messages, stretches = self._read_stretches(queue, entry, ranges)
            route = messages[:5]
        found: list[StoredRun] = []
        for first, contents in stretches:
            offsets = range(first, first + len(contents))
            for start, stop, deliveries in index.deliveries_of(offsets.start, offsets.stop):
                part = slice(start - first, stop - first)
                found.append(StoredRun(*route, deliveries, offsets[part], contents[part]))
        return found

    def _read_stretches(
        self, queue: int, entry: IndexEntry, ranges: list[tuple[int, int]]
    ) -> tuple[r.MessagesHead, list[tuple[int, list[bytes]]]]:
        """(first offset, contents) for the ranges; a damaged message ends its stretch."""
        segment = self._segments.at(entry.position)
        messages = _read_head(segment, entry.position)
        if messages is None:
            self.report_damage(queue, ranges, f"the record at {entry.position} is damaged")
            return _NOTHING, []
        stretches: list[tuple[int, list[bytes]]] = []
        for first, stop in ranges:
            low, high = first - entry.first, stop - entry.first
            contents = _read_contents(segment, entry.position, messages, low, high)
            crcs = messages.crcs[low:high]
            # All at once first: checking one by one costs more than everything else here.
            if [*map(crc32, contents)] == [*crcs]:
                stretches.append((first, contents))
                continue
            good = [crc32(content) == crc for content, crc in zip(contents, crcs, strict=True)]
            at = 0
            for is_good, group in groupby(good):
                n = len(list(group))
                if is_good:
                    stretches.append((first + at, contents[at : at + n]))
                else:
                    damaged = (first + at, first + at + n)
                    self.report_damage(queue, [damaged], "its checksum is wrong")
                at += n
        return messages, stretches

    # -- by position ----------------------------------------------------------------------------

    def read_record(self, position: int) -> tuple[r.MessagesHead, list[bytes | None]]:
        """A whole record that is in its file; None for each damaged message."""
        segment = self._segments.at(position)
        messages = _read_head(segment, position)
        if messages is None:
            return _NOTHING, []
        contents = _read_contents(segment, position, messages, 0, len(messages.lengths))
        return messages, [
            content if crc32(content) == crc else None
            for content, crc in zip(contents, messages.crcs, strict=True)
        ]

    # -- damage ---------------------------------------------------------------------------------

    def report_damage(self, queue: int, ranges: list[tuple[int, int]], why: str) -> None:
        """These messages cannot be read and are lost. Each is reported and counted once."""
        lost = self._lost.setdefault(queue, Intervals())
        for start, stop in [new for one in ranges for new in lost.missing(*one)]:
            lost.add(start, stop)
            self.damaged += stop - start
            logger.error(
                "messages %d to %d of queue number %d are lost: %s", start, stop - 1, queue, why
            )
            self._settle(queue, range(start, stop))


def _read_head(segment: Segment, position: int) -> r.MessagesHead | None:
    """None unless there is a sound head of messages, alone or in a group."""
    data = segment.read(position, 4096)
    head = r.read_head(data)
    if head is None or head.kind != MESSAGES:
        return None
    if head.head_size > len(data):
        data = segment.read(position, head.head_size)
    seed = segment.seed
    if not r.head_is_good(data, head, seed) and not r.head_is_good(data, head, inner_seed(seed)):
        return None
    return r.decode_messages(data, head)


def _read_contents(
    segment: Segment, position: int, messages: r.MessagesHead, low: int, high: int
) -> list[bytes]:
    """Messages low .. high - 1 of a record, as they are."""
    lengths = messages.lengths
    start = position + messages.head_size + sum(lengths[:low])
    data = segment.read(start, sum(lengths[low:high]))
    edges = [0, *accumulate(lengths[low:high])]
    return [data[begin:end] for begin, end in pairwise(edges)]
