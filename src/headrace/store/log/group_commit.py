"""Group commit: one thread writes and syncs the log, one write and sync for all waiting publishers.

While a commit runs, the loop collects the next one. Invariants:

- At most one job is under way; jobs are written in the order of their positions.
- A sync covers everything written before it, so ``synced`` never passes over unsynced bytes.
- A segment's file exists, and its name is durable, before its first byte is written.
- A failed sync ends the writer: the pages may be lost, and only a restart can find out what is on
  disk. A full disk does not: the reserve is freed and the same bytes are written again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from itertools import chain
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TypeVar

from headrace.store.disk import FULL, NO_DESCRIPTOR, Disk, File
from headrace.store.failpoints import failpoint
from headrace.store.log.segment import Segment

T = TypeVar("T")

logger = logging.getLogger(__name__)

RETRY_SECONDS = 0.25
RESERVE = "reserve"  # the file that it is

Buffer = bytes | Callable[[], list[bytes]]  # what takes long to encode is encoded by the writer


class SegmentWrite:
    """Bytes for one segment, to be written from ``offset`` on."""

    __slots__ = ("buffers", "offset", "segment", "stop")

    def __init__(self, segment: Segment, offset: int) -> None:
        self.segment = segment
        self.offset = self.stop = offset  # behind its last byte, once it is complete
        self.buffers: list[Buffer] = []

    def encode(self) -> bytes:
        try:
            return b"".join(self.buffers)  # type: ignore[arg-type]
        except TypeError:  # some are not encoded yet: too rare to look for them each time
            pieces = [[one] if isinstance(one, bytes) else one() for one in self.buffers]
            self.buffers = list(chain.from_iterable(pieces))
            return self.encode()


@dataclass(slots=True, eq=False, repr=False)
class CommitJob:
    """One commit. ``then`` runs on the loop once it is done."""

    chunks: list[SegmentWrite]
    end: int
    _: KW_ONLY
    sync: bool
    then: Callable[[CommitJob], None]
    task: Callable[[], None] | None = None  # of the disk, after the chunks; can be done again
    done: Callable[[], None] | None = None  # of a checkpoint
    after: Callable[[], None] | None = None  # of a compaction
    ends: dict[int, int] = field(default_factory=dict)  # by queue: behind its last message
    began: float = 0.0  # when the first of its messages was appended, else when it was made
    is_timed: bool = False  # it has messages
    size: int = 0
    write_seconds: float = 0.0
    sync_seconds: float = 0.0


class DiskReserve:
    """Space set aside beside the segments: a file of ``size`` bytes, removed when the disk is full.

    Without it a full disk stays full: segments are freed by acknowledgements, and those have to be
    written first.
    """

    def __init__(self, disk: Disk, size: int) -> None:
        self._disk = disk
        self._size = size

    def set_aside(self) -> bool:
        """See that the space is set aside; False when the disk has too little."""
        try:
            if RESERVE not in self._disk.names():
                self._disk.create(RESERVE, self._size).close()
        except OSError as error:
            if error.errno not in (*FULL, *NO_DESCRIPTOR):
                raise
            return False
        return True

    def free(self) -> bool:
        """Free the space; False when there is none any more."""
        try:
            self._disk.remove(RESERVE)
        except FileNotFoundError:
            return False
        except OSError as error:
            logger.warning("%s cannot be removed: %s", RESERVE, error)
            return False
        return True


class LogWriter:
    """Takes jobs in order."""

    def __init__(
        self,
        disk: Disk,
        call_soon: Callable[[Callable[[], None]], object],
        on_failure: Callable[[Exception], None],
        on_full: Callable[[bool], None],
    ) -> None:
        self._disk = disk
        self._call_soon = call_soon
        self._on_failure = on_failure
        self._on_full = on_full
        self._jobs: SimpleQueue[CommitJob | None] = SimpleQueue()
        self._stopping = threading.Event()
        self.error: Exception | None = None
        self.reserve: DiskReserve | None = None
        self._is_full = False
        self._unsynced: dict[int, File] = {}  # by base: written since the last sync
        self._thread = threading.Thread(target=self._run, name="headrace-journal", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, job: CommitJob) -> None:
        self._jobs.put(job)

    def stop(self, timeout: float | None = None) -> None:
        """Finish what was submitted, then end."""
        self._stopping.set()
        self._jobs.put(None)
        self._thread.join(timeout)

    def _run(self) -> None:
        try:
            self._check_space()
            while (job := self._next_job()) is not None:
                self.execute(job)
                if self._is_full:
                    self._check_space()
                self._call_soon(partial(self._finished, job))
        except Exception as error:
            logger.critical("cannot write the log: %s", error)
            self.error = error
            self._call_soon(lambda error=error: self._on_failure(error))  # type: ignore[misc]

    def _finished(self, job: CommitJob) -> None:
        """On the loop. A log whose bookkeeping failed must stop, not wait silently."""
        try:
            job.then(job)
        except Exception as error:
            logger.critical("the log failed after a commit", exc_info=error)
            self.error = error
            self._jobs.put(None)
            self._on_failure(error)

    def _next_job(self) -> CommitJob | None:
        while self._is_full:
            try:
                return self._jobs.get(timeout=RETRY_SECONDS)
            except Empty:
                self._check_space()
        return self._jobs.get()

    def execute(self, job: CommitJob) -> None:
        """Write, sync; raises when the disk fails."""
        began = monotonic()
        for chunk in job.chunks:
            file = chunk.segment.file
            if file is None:
                file = self._retry_while_full(partial(chunk.segment.create, self._disk))
            failpoint("journal.write")
            data = chunk.encode()
            job.size += len(data)
            self._retry_while_full(partial(file.write, data, chunk.offset))
            failpoint("journal.written")
            self._unsynced[chunk.segment.base] = file
        written = monotonic()
        job.write_seconds = written - began
        if job.sync:
            # Also what jobs before this one have left: a sync covers everything before its end.
            for file in self._unsynced.values():
                file.sync()
            self._unsynced.clear()
            job.sync_seconds = monotonic() - written
            failpoint("journal.synced")
        if job.task is not None:
            self._retry_while_full(job.task)

    def _retry_while_full(self, action: Callable[[], T]) -> T:
        """Try again while there is no room or no descriptor; anything else is an error."""
        while True:
            try:
                return action()
            except OSError as error:
                if error.errno not in (*FULL, *NO_DESCRIPTOR):
                    raise
                if error.errno in FULL:
                    self._set_full(True)
                    if self.reserve is not None and self.reserve.free():
                        continue
                else:  # the alarm finds no descriptor either
                    self._call_soon(lambda: self._on_full(self._is_full))
                if self._stopping.is_set():
                    raise
            self._stopping.wait(RETRY_SECONDS)

    def _check_space(self) -> None:
        """The disk is full no longer when what was given up can be set aside again."""
        self._set_full(self.reserve is not None and not self.reserve.set_aside())

    def _set_full(self, full: bool) -> None:
        if full == self._is_full:
            return
        self._is_full = full
        if full:
            logger.error("the disk is full; publishers are blocked")
        else:
            logger.warning("the log is writable again")
        self._call_soon(lambda: self._on_full(full))
