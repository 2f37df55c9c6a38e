"""A log for tests: small segments, a clock and a writer by hand, on a disk that is given."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.store.api.message_log import (
    DurabilityLevel,
    OutgoingMessages,
    RecordDestination,
    StoredRun,
)
from headrace.store.disk import Disk
from headrace.store.log.commit_log import CommitLog
from headrace.store.log.compaction import CompactionRule
from support.storage import manual_writer

EAGER = CompactionRule(messages=1, size=1, alive=1.0)  # compacts whatever has anything dead in it


class LogStage:
    """A log that is open, and can be opened again on what it keeps."""

    def __init__(
        self, disk: Disk, segment_size: int = 4096, rule: CompactionRule | None = None
    ) -> None:
        self.disk = disk
        self.now = 1000
        self._segment_size = segment_size
        self._rule = rule
        self.open()

    def open(self) -> CommitLog:
        self.log = CommitLog(
            self.disk, lambda: self.now, segment_size=self._segment_size, compaction=self._rule
        )
        self.writer = manual_writer.start(self.log)
        return self.log

    def crash(self) -> CommitLog:
        """The broker dies: what was handed to the disk stays, the rest does not."""
        self._close_files()
        return self.open()

    def _close_files(self) -> None:
        for segment in self.log.segments:
            if segment.file is not None:
                segment.file.close()

    def restart(self) -> CommitLog:
        self.log.close()
        return self.open()

    def commit(self) -> None:
        """Write until nothing waits."""
        manual_writer.settle_down(self.log, self.writer)

    def checkpoint(self) -> None:
        self.commit()
        self.log.checkpoint()
        self.commit()

    def compact(self) -> None:
        """Tidy until there is nothing to tidy."""
        for _ in range(200):
            busy = self.log.compact_step()
            self.commit()
            if not busy:
                return
        raise AssertionError("compaction does not come to an end")

    def put(
        self,
        *contents: bytes,
        to: Sequence[int] = (1,),
        level: DurabilityLevel = DurabilityLevel.FSYNC,
        ttl_ms: int | None = None,
    ) -> int:
        """Append messages to queues, behind what is there; returns the position."""
        placed = [
            RecordDestination(one, self.log.reads.next_offset(one), len(contents)) for one in to
        ]
        return self.log.append(
            OutgoingMessages(
                list(contents),
                placed,
                level,
                exchange="ex",
                key="key",
                channel_number=3,
                ttl_ms=ttl_ms,
            )
        )

    def read(self, queue: int = 1, start: int = 0) -> list[StoredRun]:
        """All live messages of a queue."""
        found: list[StoredRun] = []
        stop = self.log.reads.next_offset(queue)
        while start < stop:
            stored, start = self.log.reads.read(queue, start, stop)
            found += stored
        return found

    def held(self, queue: int = 1) -> dict[int, bytes]:
        """Offset -> content of all live messages."""
        return {
            offset: content
            for one in self.read(queue)
            for offset, content in zip(one.offsets, one.contents, strict=True)
        }
