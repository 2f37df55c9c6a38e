"""When checkpoints are written and what goes with them: index files before, dead segments after."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from headrace.store.disk import Disk
from headrace.store.log.checkpoint_file import Checkpoint, checkpoint_bytes, write_checkpoint
from headrace.store.log.log_index import LogIndex
from headrace.store.log.recovery_state import RecoveredState
from headrace.store.log.segment import Segment, index_bytes, write_index
from headrace.store.log.segment_list import SegmentList

logger = logging.getLogger(__name__)


class Checkpointer:
    """Knows the last checkpoint. The log decides which commit carries the next one."""

    def __init__(
        self,
        disk: Disk,
        index: LogIndex,
        segments: SegmentList,
        state: RecoveredState,
        *,
        every: int,
    ) -> None:
        self._disk = disk
        self._index = index
        self._segments = segments
        self._position = state.position
        self._sequence = state.sequence
        self._listed_to = segments.next_base  # segments behind it are in no checkpoint yet
        self._every = every  # bytes of log
        self._dead: list[Segment] = []  # at the last checkpoint; the one before it needs them
        self.metadata_generation = state.metadata_generation  # of meta.db

    def is_due(self, end: int) -> bool:
        # A segment that no checkpoint lists would not be missed.
        is_listed = self._segments.next_base == self._listed_to
        is_far = end - self._position >= self._every
        return not is_listed or self._segments.has_unindexed or is_far

    @property
    def has_dead(self) -> bool:
        """Whether the next checkpoint removes segments."""
        return bool(self._dead)

    def begin(
        self, position: int, needed: Callable[[Segment], bool]
    ) -> tuple[Callable[[], None], Callable[[], None]]:
        """A checkpoint of the state as it is now, when the log ends at ``position``.

        Returns what the writer has to do once everything before the position is on disk, and what
        the loop has to do after that. ``needed`` segments stay although nothing in them is alive.
        """
        # Asked now: what is settled from now on may not be on disk when the checkpoint is.
        dead = [one for one in self._segments.dead(position) if not needed(one)]
        removable = [one for one in self._dead if one in dead]  # the others are listed again
        self._dead = [one for one in dead if one not in removable]
        data, sequence = self._encode(position, dead)
        indexes = self._take_indexes()

        def write() -> None:
            self._write_indexes(indexes)
            write_checkpoint(self._disk, data, sequence)

        def done() -> None:
            self._position = position
            self._segments.remove(removable)

        return write, done

    def _encode(
        self, position: int, dead: Sequence[Segment] = (), *, clean: bool = False
    ) -> tuple[bytes, int]:
        """The next checkpoint, and its number."""
        self._sequence += 1
        self._listed_to = self._segments.next_base
        found = Checkpoint(
            position,
            self._index.queues,
            clean,
            sequence=self._sequence,
            format_2_from=self._segments.format_2_from,
            metadata_generation=self.metadata_generation,
            segments={one.base: one.used for one in self._segments
                      if one.used and one not in dead},
        )  # fmt: skip
        return checkpoint_bytes(found), self._sequence

    def start(self, position: int) -> None:
        """Take over what recovery found: from now on only a close makes a clean end, and what is
        missing the next time was there now."""
        try:
            for _ in range(1 if self._sequence else 2):  # so that the loss of one is noticed
                write_checkpoint(self._disk, *self._encode(position))
        except OSError as error:
            # A full disk must not keep consumers from what is there.
            logger.error("after a crash duplicates would not be marked as such: %s", error)

    def finish(self, position: int, *, clean: bool) -> None:
        """The last checkpoint, at the end of the log: written here and now."""
        self._write_indexes(self._take_indexes())
        write_checkpoint(self._disk, *self._encode(position, clean=clean))

    def _take_indexes(self) -> list[tuple[int, bytes]]:
        """Bases and contents of the index files to be written."""
        return [
            (segment.base, index_bytes(self._index.entries_in(segment), segment.used))
            for segment in self._segments.take_unindexed()
        ]

    def _write_indexes(self, indexes: list[tuple[int, bytes]]) -> None:
        for base, data in indexes:
            write_index(self._disk, base, data)
