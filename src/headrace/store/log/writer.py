"""The thread that writes and syncs the journal. One commit serves everybody who waits.

While a commit runs, the loop collects the next one; that is all there is to group commit. A failed
sync ends it: the pages may be gone, and only a restart tells what is on the disk. A full disk does
not: the same bytes are tried again until there is room.
"""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

from headrace.store.disk import Disk, File
from headrace.store.failpoints import passing
from headrace.store.log.segment import Segment

T = TypeVar("T")

logger = logging.getLogger(__name__)

RETRY_SECONDS = 0.25
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Chunk:
    """Bytes for one segment, to be written from ``offset`` on."""

    __slots__ = ("buffers", "offset", "segment")

    def __init__(self, segment: Segment, offset: int) -> None:
        self.segment = segment
        self.offset = offset
        self.buffers: list[bytes] = []


class Job:
    """One commit. ``then`` runs on the loop once it is done."""

    __slots__ = ("chunks", "end", "sync", "task", "then")

    def __init__(
        self,
        chunks: list[Chunk],
        end: int,
        *,
        sync: bool,
        then: Callable[[Job], None],
        task: Callable[[], None] | None = None,
    ) -> None:
        self.chunks = chunks
        self.end = end
        self.sync = sync
        self.then = then
        self.task = task  # other work of the disk, done after the chunks


class Writer:
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
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._stopping = threading.Event()
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="headrace-journal", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, job: Job) -> None:
        self._jobs.put(job)

    def stop(self, timeout: float | None = None) -> None:
        """Finish what was submitted, then end."""
        self._stopping.set()
        self._jobs.put(None)
        self._thread.join(timeout)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                self.carry_out(job)
            except Exception as error:
                logger.critical("the journal cannot be written: %s", error)
                self.error = error
                self._call_soon(lambda error=error: self._on_failure(error))  # type: ignore[misc]
                return
            self._call_soon(lambda job=job: job.then(job))  # type: ignore[misc]

    def carry_out(self, job: Job) -> None:
        """Write, sync; raises when the disk fails."""
        files: dict[int, File] = {}
        for chunk in job.chunks:
            file = chunk.segment.file
            if file is None:
                file = self._patiently(partial(chunk.segment.create, self._disk))
            passing("journal.write")
            self._patiently(partial(file.write, b"".join(chunk.buffers), chunk.offset))
            passing("journal.written")
            files[chunk.segment.base] = file
        if job.sync:
            for file in files.values():
                file.sync()
            passing("journal.synced")
        if job.task is not None:
            job.task()

    def _patiently(self, action: Callable[[], T]) -> T:
        """Try again while the disk is full; anything else is an error."""
        told = False
        while True:
            try:
                result = action()
            except OSError as error:
                if error.errno not in _FULL or self._stopping.is_set():
                    raise
                if not told:
                    told = True
                    logger.error("the disk is full; publishers wait")
                    self._call_soon(lambda: self._on_full(True))
                self._stopping.wait(RETRY_SECONDS)
                continue
            if told:
                logger.warning("there is room on the disk again")
                self._call_soon(lambda: self._on_full(False))
            return result
