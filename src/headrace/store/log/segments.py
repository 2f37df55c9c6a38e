"""The segments of the log in order of position: which one holds a record, which are done with."""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Container, Sequence

from headrace.store.disk import Disk
from headrace.store.failpoints import passing
from headrace.store.log.segment import Segment, index_name, segment_name

logger = logging.getLogger(__name__)


class Segments:
    """A position is given once: a new segment begins behind all that there ever were."""

    def __init__(self, disk: Disk, found: list[Segment], *, start: int, size: int) -> None:
        self._disk = disk
        self._size = size
        self._all = found
        self.bases = [segment.base for segment in found]  # look, do not touch
        ends = (one.base + max(one.capacity, 8) for one in found)
        self.next_base = max([start, *ends])
        self._unindexed: list[Segment] = []  # waiting for their index files
        self._leftovers: list[str] = []  # names of files that could not be removed yet

    def as_sequence(self) -> Sequence[Segment]:
        """For statistics: look, do not touch."""
        return self._all

    def at(self, position: int) -> Segment:
        """The one whose positions include ``position``."""
        return self._all[bisect_right(self.bases, position) - 1]

    def new(self, size: int) -> Segment:
        """One behind the others, large enough for a record of ``size``; the writer makes its file.

        An unusually large record gets a segment of its own.
        """
        segment = Segment(self.next_base, max(self._size, size))
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

    def remove(self, segment: Segment) -> None:
        """Delete its files. Nothing may need it any more, after a crash neither."""
        passing("segment.remove")
        self._all.remove(segment)
        self.bases.remove(segment.base)
        assert segment.file is not None
        segment.file.close()
        names = (index_name(segment.base), segment_name(segment.base))
        self._leftovers += [name for name in names if not self._is_removed(name)]
        passing("segment.removed")

    def remove_leftovers(self) -> None:
        """Try again. After a restart they are found dead, as the checkpoint says, and removed."""
        if self._leftovers:
            self._leftovers = [one for one in self._leftovers if not self._is_removed(one)]

    def _is_removed(self, name: str) -> bool:
        try:
            self._disk.remove(name)
        except FileNotFoundError:
            return True
        except OSError as error:
            if name not in self._leftovers:
                logger.warning("%s cannot be removed, it is tried again: %s", name, error)
            return False
        return True

    def close(self) -> None:
        for segment in self._all:
            if segment.file is not None:
                segment.file.close()
