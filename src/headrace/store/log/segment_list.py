"""The segments of the log by position: which one holds a record, which have no live message."""

from __future__ import annotations

import logging
from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Container, Iterator

from headrace.store.disk import Disk
from headrace.store.failpoints import failpoint
from headrace.store.log.segment import Segment, index_name, segment_name
from headrace.wire.record_layout import segment_seed

logger = logging.getLogger(__name__)

_BEHIND_ALL = 1 << 64  # positions are numbers of 64 bits
REMOVED_AT_ONCE = 32  # files; the loop must not wait long


class SegmentList:
    """A position is given once: a new segment begins behind all that there ever were."""

    def __init__(
        self,
        disk: Disk,
        found: list[Segment],
        *,
        start: int,
        size: int,
        format_2_from: int | None = 0,
    ) -> None:
        self._disk = disk
        self._size = size
        self._all = found
        self.bases = [segment.base for segment in found]  # look, do not touch
        ends = (one.base + max(one.capacity, 8) for one in found)
        self.next_base = max([start, format_2_from or 0, *ends])
        # A directory of version 1 has the whole seed from now on.
        self.format_2_from = self.next_base if format_2_from is None else format_2_from
        self._unindexed: list[Segment] = []  # waiting for their index files
        self._removals: deque[str] = deque()  # names of files that are still to be removed
        self._failed_removals: set[str] = set()  # those that could not be

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def at(self, position: int) -> Segment:
        """The one whose positions include ``position``."""
        return self._all[bisect_right(self.bases, position) - 1]

    def runs(self, positions: array[int]) -> Iterator[tuple[Segment, int, int]]:
        """(segment, low, high): positions[low:high] are in that segment."""
        low = 0
        while low < len(positions):
            place = bisect_right(self.bases, positions[low])
            base = self.bases[place - 1]
            end = self.bases[place] if place < len(self.bases) else _BEHIND_ALL
            high = bisect_left(positions, end, low)
            part = positions[low:high]
            if not part or min(part) < base or max(part) >= end:
                high = low  # they do not rise: some are copies of compaction
                while high < len(positions) and base <= positions[high] < end:
                    high += 1
            yield self._all[place - 1], low, high
            low = high

    def new(self, size: int) -> Segment:
        """One behind the others, large enough for a record of ``size``; the writer makes its file.

        An unusually large record gets a segment of its own.
        """
        capacity = max(self._size, size)
        seed = segment_seed(self.next_base, self.format_2_from)
        segment = Segment(self.next_base, capacity, seed=seed)
        self.next_base += segment.capacity
        self._all.append(segment)
        self.bases.append(segment.base)
        return segment

    # -- sealed ones ----------------------------------------------------------------------------

    def index_later(self, segment: Segment) -> None:
        """It is complete: the next checkpoint writes its index file."""
        self._unindexed.append(segment)

    @property
    def has_unindexed(self) -> bool:
        return bool(self._unindexed)

    def take_unindexed(self) -> list[Segment]:
        taken, self._unindexed = self._unindexed, []
        return taken

    def idle(self, unfinished: Container[int]) -> list[Segment]:
        """Those written to the end; ``unfinished`` are bases for which bytes are waiting."""
        return [
            segment
            for segment in self._all
            if segment.sealed and segment.file is not None and segment.base not in unfinished
        ]

    def dead(self, position: int) -> list[Segment]:
        """Those with nothing alive whose records a checkpoint at ``position`` takes over."""
        return [
            segment
            for segment in self._all
            if not segment.live
            and segment.sealed
            # A cold segment holds only copies, nothing a checkpoint would have to take over.
            and (segment.cold or segment.end <= position)
            and segment.file is not None
        ]

    # -- files ----------------------------------------------------------------------------------

    def remove(self, segments: list[Segment]) -> None:
        """Delete their files. Nothing may need them any more, after a crash neither."""
        for segment in segments:
            failpoint("segment.remove")
            where = bisect_left(self.bases, segment.base)
            del self._all[where], self.bases[where]
            assert segment.file is not None
            segment.file.close()
            self._removals += (index_name(segment.base), segment_name(segment.base))
        self.remove_files()

    def remove_files(self) -> bool:
        """Delete some files; True when it should go on soon.

        Those that cannot be deleted are tried again. After a restart they are found dead, as the
        checkpoint says.
        """
        removed = 0
        for _ in range(min(REMOVED_AT_ONCE, len(self._removals))):
            name = self._removals.popleft()
            if self._is_removed(name):
                removed += 1
                self._failed_removals.discard(name)
            else:
                self._removals.append(name)
        return removed > 0 and bool(self._removals)

    def _is_removed(self, name: str) -> bool:
        try:
            self._disk.remove(name)
            failpoint("segment.removed")
        except FileNotFoundError:
            return True
        except OSError as error:
            if name not in self._failed_removals:
                self._failed_removals.add(name)
                logger.warning("%s cannot be removed, will retry: %s", name, error)
            return False
        return True

    def close(self) -> None:
        for segment in self._all:
            if segment.file is not None:
                segment.file.close()
