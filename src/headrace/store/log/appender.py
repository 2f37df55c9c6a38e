"""An open segment and the bytes that wait to be written to it. When it is full the next begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headrace.store.log.group_commit import Buffer, SegmentWrite
from headrace.store.log.segment import Segment
from headrace.store.log.segment_list import SegmentList

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
