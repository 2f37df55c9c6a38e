"""When checkpoints are written and what goes with them: index files before, dead segments after."""

from __future__ import annotations

import logging
from collections.abc import Callable

from headrace.store.disk import Disk
from headrace.store.log.books import Books
from headrace.store.log.checkpoint import checkpoint_bytes, write_checkpoint
from headrace.store.log.recovery import index_bytes, write_index
from headrace.store.log.segment import Segment
from headrace.store.log.segments import Segments

logger = logging.getLogger(__name__)


class Checkpointer:
    """Knows where the last checkpoint is. The log decides which commit carries the next one."""

    def __init__(
        self, disk: Disk, books: Books, segments: Segments, *, position: int, every: int
    ) -> None:
        self._disk = disk
        self._books = books
        self._segments = segments
        self._position = position
        self._every = every  # bytes of log

    def is_due(self, end: int) -> bool:
        return self._segments.has_unindexed or end - self._position >= self._every

    def begin(
        self, position: int, needed: Callable[[Segment], bool]
    ) -> tuple[Callable[[], None], Callable[[], None]]:
        """A checkpoint of the state as it is now, when the log ends at ``position``.

        Returns what the writer has to do once everything before the position is on disk, and what
        the loop has to do after that. ``needed`` segments stay although nothing in them is alive.
        """
        data = checkpoint_bytes(position, self._books.queues, clean=False)
        # Asked now: what is settled from now on may not be on disk when the checkpoint is.
        dead = [one for one in self._segments.dead(position) if not needed(one)]
        indexes = self._take_indexes()

        def write() -> None:
            self._write_indexes(indexes)
            write_checkpoint(self._disk, data)

        def done() -> None:
            self._position = position
            self._segments.remove(dead)

        return write, done

    def unmark_clean_end(self) -> None:
        """At start: from now on only a close makes a clean end, also if nothing is appended."""
        data = checkpoint_bytes(self._position, self._books.queues, clean=False)
        try:
            write_checkpoint(self._disk, data)
        except OSError as error:
            # A full disk must not keep consumers from what is there.
            logger.error("after a crash duplicates would not be marked as such: %s", error)

    def finish(self, position: int, *, clean: bool) -> None:
        """The last checkpoint, at the end of the log: written here and now."""
        self._write_indexes(self._take_indexes())
        write_checkpoint(self._disk, checkpoint_bytes(position, self._books.queues, clean=clean))

    def _take_indexes(self) -> list[tuple[int, bytes]]:
        """Bases and contents of the index files to be written."""
        return [
            (segment.base, index_bytes(self._books.entries_in(segment), segment.used))
            for segment in self._segments.take_unindexed()
        ]

    def _write_indexes(self, indexes: list[tuple[int, bytes]]) -> None:
        for base, data in indexes:
            write_index(self._disk, base, data)
