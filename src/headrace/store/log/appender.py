"""An open segment and the bytes that wait to be written to it. When it is full the next begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

from headrace.model.intervals import join_ranges
from headrace.store.api.message_log import OutgoingMessages
from headrace.store.log import record as r
from headrace.store.log.group_commit import Buffer, SegmentWrite
from headrace.store.log.record_group import RecordGroup
from headrace.store.log.segment import Segment
from headrace.store.log.segment_list import SegmentList
from headrace.wire.record_layout import REQUEUED, SETTLED, inner_seed

# Seed and synced bytes of a segment -> the record for it, in pieces, and its size, which does not
# depend on them.
Encode = Callable[[int, int], tuple[Sequence[Buffer], int]]


class Appender:
    """The log has two: one for what comes in, one for what compaction copies (``cold``)."""

    def __init__(
        self, segments: SegmentList, on_full: Callable[[Segment], None], *, cold: bool = False
    ) -> None:
        self._segments = segments
        self._on_full = on_full
        self._cold = cold
        self.segment: Segment | None = None
        self.chunks: list[SegmentWrite] = []  # not handed to the writer yet

    def append(self, encode: Encode) -> tuple[int, int]:
        """Add a record; returns its position and size."""
        segment = self.segment
        parts, size = encode(segment.seed, segment.synced) if segment is not None else encode(0, 0)
        if segment is None or segment.used + size > segment.capacity:
            self.seal()
            segment = self.segment = self._segments.new(size)
            segment.cold = self._cold
            parts, size = encode(segment.seed, 0)
        chunks = self.chunks
        if not chunks or chunks[-1].segment is not segment:
            chunks.append(SegmentWrite(segment, segment.used))
        chunks[-1].buffers += parts
        position = segment.base + segment.used
        segment.used += size
        return position, size

    def take_chunks(self) -> list[SegmentWrite]:
        taken, self.chunks = self.chunks, []
        for chunk in taken:
            chunk.stop = chunk.segment.used
        return taken

    def seal(self) -> None:
        """Nothing more goes into the segment."""
        segment, self.segment = self.segment, None
        if segment is not None:
            segment.sealed = True
            self._on_full(segment)

    def trim(self) -> Segment | None:
        """At a clean end: give unused space back, so that the next start need not look at it."""
        segment = self.segment
        if segment is None or segment.file is None:
            return None
        segment.file.truncate(segment.used)
        segment.file.sync()
        segment.capacity = segment.used
        return segment


class PendingAcks:
    """Messages that were settled and requeued."""

    __slots__ = ("joined", "requeued", "settled")

    def __init__(self) -> None:
        self.settled: dict[int, list[tuple[int, int]]] = {}  # by queue: ranges in any order
        self.joined: list[tuple[int, int, int]] = []  # settled too: queue, first, stop
        self.requeued: list[tuple[int, int, int, int]] = []  # queue, first, stop, deliveries

    def __bool__(self) -> bool:
        return bool(self.settled or self.joined or self.requeued)

    def settled_ranges(self) -> list[tuple[int, int, int]]:
        """(queue, first, stop) each, as few as possible."""
        joined = [
            (queue, start, stop)
            for queue, found in self.settled.items()
            for start, stop in join_ranges(found)
        ]
        return self.joined + joined if self.joined else joined

    def add(self, other: PendingAcks) -> None:
        for queue, ranges in other.settled.items():
            self.settled.setdefault(queue, []).extend(ranges)
        self.joined += other.joined
        self.requeued += other.requeued


class AtomicGroup:
    """What happens inside atomic(): one record, found again as a whole or not at all."""

    __slots__ = ("afterwards", "messages", "notes", "prepared", "settled", "spots")

    def __init__(self) -> None:
        self.afterwards: list[Callable[[], None]] = []
        self.prepared: RecordGroup | None = None  # records that come before the messages
        self.messages: list[OutgoingMessages] = []
        self.notes = PendingAcks()
        self.spots: list[tuple[int, int]] = []  # once measured: where the messages are, their sizes
        self.settled: list[tuple[int, int, int]] = []  # once measured: notes.settled_ranges()

    def measure(self) -> int:
        """The size of the record, once it is complete."""
        self.spots = []
        at = r.HEAD_SIZE + (self.prepared.size if self.prepared is not None else 0)
        for out in self.messages:
            size = r.messages_size(out)
            self.spots.append((at, size))
            at += size
        self.settled = self.notes.settled_ranges()
        for kind, ranges in self._ranges():
            at += r.ranges_size(kind, len(ranges)) if ranges else 0
        return r.check_size(at)

    def _ranges(self) -> tuple[tuple[int, Sequence[tuple[int, ...]]], ...]:
        return (SETTLED, self.settled), (REQUEUED, self.notes.requeued)

    def encode(self, seed: int, time: int, synced: int = 0) -> list[bytes]:
        """The record, once it is measured. The writer's thread does this: it may take long."""
        inner = inner_seed(seed)
        parts: list[bytes] = []
        prepared = self.prepared.placed() if self.prepared is not None else ()
        count = 0
        for out in chain(prepared, self.messages):
            parts += r.messages_parts(out, seed=inner, time=time, synced=synced)[0]
            count += 1
        for kind, ranges in self._ranges():
            if ranges:
                parts.append(r.ranges_bytes(kind, ranges, seed=inner, time=time))
                count += 1
        body = b"".join(parts)
        return [r.group_head(body, count, seed=seed, time=time), body]


def ranges_of(offsets: Sequence[int]) -> list[tuple[int, int]]:
    """Offsets in any order as ranges, stops exclusive; not joined."""
    if isinstance(offsets, range) and offsets.step == 1:
        return [(offsets.start, offsets.stop)] if offsets else []
    return [(offset, offset + 1) for offset in offsets]
