"""Storage as the core uses it: commit log, metadata and paging files, and what waits for them.

A confirm waits until the messages are on disk and so are the queues they are in. A declaration's
answer waits until the declaration is on disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from time import monotonic
from uuid import uuid4

from headrace.core.clock import Timers
from headrace.core.loop_turn import Flushable, LoopTurn
from headrace.store.api.message_log import DurabilityLevel, MessageLog
from headrace.store.api.metadata import Metadata
from headrace.store.api.rows import CursorRow, QueueRow, RetryRow, Row
from headrace.store.paging_files import Scratch

logger = logging.getLogger(__name__)

BEHIND_LIMIT = 16 << 20  # bytes appended and not committed before publishers wait
BEHIND_CHANGES = 5000  # declarations that are not committed before clients that declare wait
TIDY_BUSY_MS = 20
TIDY_IDLE_MS = 2000

LEVELS = {
    "memory": DurabilityLevel.MEMORY,
    "os": DurabilityLevel.OS,
    "fsync": DurabilityLevel.FSYNC,
}


class Storage:
    """Log, metadata and paging files. Without a log and metadata everything is in memory."""

    def __init__(
        self,
        turn: LoopTurn,
        *,
        log: MessageLog | None = None,
        metadata: Metadata | None = None,
        scratch: Scratch | None = None,
        clean: bool = True,
    ) -> None:
        self.log = log
        self.scratch = scratch
        self.clean = clean  # the last end was an orderly one
        self._metadata = metadata
        self._turn = turn
        self._recording = False
        self.declared = 0  # metadata version of the last declaration; cursors do not count
        self.durable = log.durable if log is not None else 0
        self.synced = self.durable  # readers by offset see no further
        # (durable, synced, metadata version that they wait for)
        self._gated: list[tuple[int, int, int]] = []
        self._unread: list[tuple[int, Callable[[], None]]] = []  # position, who waits to read
        self._waiting: set[Flushable] = set()
        self._stalled: list[Callable[[], None]] = []
        self.has_failed = False
        self.on_failure: Callable[[Exception], None] = lambda error: None
        self._next_queue = 1
        self._timers: Timers
        self._before_tidying: Callable[[], None]
        turn.before_writing = self.flush  # the log begins its commit

    # -- metadata -------------------------------------------------------------------------------

    def record_from_now_on(self, next_queue: int) -> None:
        """Restoring is over: changes are new from here."""
        self._recording = True
        self._next_queue = next_queue

    def new_queue_number(self) -> int | None:
        """A number for a durable queue; None when nothing is stored."""
        if self.log is None or not self._recording:
            return None
        number = self._next_queue
        self._next_queue += 1
        return number

    def new_destination(self, vhost: str, name: str) -> QueueRow | None:
        """What has messages in the log and is no queue; None when nothing is stored."""
        number = self.new_queue_number()
        if number is None:
            return None
        row = QueueRow(number, uuid4().hex, vhost, name)
        self.save(row)
        return row

    @property
    def issued(self) -> int:
        return self._metadata.issued if self._metadata is not None else 0

    @property
    def committed(self) -> int:
        return self._metadata.committed if self._metadata is not None else 0

    def save(self, row: Row) -> None:
        if self._recording and self._metadata is not None:
            self._note(row, self._metadata.save(row))

    def delete(self, row: Row) -> None:
        if self._recording and self._metadata is not None:
            self._note(row, self._metadata.delete(row))

    def delete_reader(self, topic: str, reader_group: str, token: str) -> None:
        if self._recording and self._metadata is not None:
            self._metadata.delete_reader(topic, reader_group, token)

    def save_vhost(self, name: str) -> None:
        if self._recording and self._metadata is not None:
            self.declared = self._metadata.save_vhost(name)

    def delete_vhost(self, name: str) -> None:
        if self._recording and self._metadata is not None:
            self.declared = self._metadata.delete_vhost(name)

    def _note(self, row: Row, metadata_version: int) -> None:
        """Confirms wait for declarations. Offset commits only delay their own replies."""
        if not isinstance(row, (CursorRow, RetryRow)):
            self.declared = metadata_version

    # -- waiting --------------------------------------------------------------------------------

    def position(self) -> int:
        """Everything appended and settled so far is safe once ``durable`` is there."""
        return self.log.settled_position() if self.log is not None else 0

    def wait(self, session: Flushable) -> None:
        """Flush the session again when something has become safe."""
        self._waiting.add(session)

    def wait_for_commit(self, session: Flushable) -> None:
        """The same for what was just appended; timers append in turns that have no other end."""
        self._waiting.add(session)
        self._turn.request_end()

    @property
    def is_behind(self) -> bool:
        """The disk is slower than the publishers: they should wait."""
        log = self.log
        return log is not None and log.end - log.durable > BEHIND_LIMIT

    @property
    def waited_seconds(self) -> float:
        """How long the oldest work has been waiting for the log."""
        since = self.log.waiting_since if self.log is not None else None
        return monotonic() - since if since is not None else 0.0

    @property
    def is_behind_with_changes(self) -> bool:
        """Declarations come faster than they are stored: those who declare should wait."""
        return self.issued - self.committed > BEHIND_CHANGES

    def when_caught_up(self, callback: Callable[[], None]) -> None:
        self._stalled.append(callback)

    def metadata_committed(self, metadata_version: int) -> None:
        while self._gated and self._gated[0][2] <= metadata_version:
            self.durable, self.synced, _ = self._gated.pop(0)
        self._wake()
        if self._stalled:
            self._wake_stalled()

    def log_committed(self) -> None:
        assert self.log is not None
        durable, synced = self.log.durable, self.log.synced
        if self.declared > self.committed:
            # A queue that these messages are in may not be on disk yet.
            self._gated.append((durable, synced, self.declared))
        elif not self._gated:
            self.durable, self.synced = durable, synced
        else:
            self._gated.append((durable, synced, self._gated[-1][2]))
        self._wake()
        if self._stalled:
            self._wake_stalled()

    def _wake_stalled(self) -> None:
        if not self.is_behind and not self.is_behind_with_changes:
            stalled, self._stalled = self._stalled, []
            for callback in stalled:
                callback()

    def when_synced(self, callback: Callable[[], None]) -> None:
        """Call back once all that was written until now can be read by offset."""
        if self.log is None or self.synced >= self.durable:
            callback()
            return
        self._unread.append((self.durable, callback))
        self.log.flush(sync=True)

    def _wake(self) -> None:
        while self._unread and self._unread[0][0] <= self.synced:
            self._unread.pop(0)[1]()
        waiting, self._waiting = self._waiting, set()
        for session in waiting:
            if not session.marked:
                self._turn.mark_session(session)

    def failed(self, error: Exception) -> None:
        logger.critical("storage has failed, the broker stops: %s", error)
        self.has_failed = True
        self.on_failure(error)

    # -- commit log -----------------------------------------------------------------------------

    def atomic(self) -> AbstractContextManager[None]:
        return self.log.atomic() if self.log is not None else nullcontext()

    def flush(self) -> None:
        if self.log is not None:
            self.log.flush()

    def sync(self) -> None:
        """Do not leave it to the next sync of others: something waits for ``synced``."""
        if self.log is not None:
            self.log.flush(sync=True)

    def tidy(self) -> None:
        """Free space in the background: quickly while there is some to free."""
        busy = False
        try:
            self._before_tidying()
            self.flush()  # it may have settled messages, and no other commit is about to come
            busy = self.log is not None and self.log.compact_step()
        finally:  # an error is logged, and must not be the end of tidying
            self._timers.after(TIDY_BUSY_MS if busy else TIDY_IDLE_MS, self.tidy)

    def start_tidying(self, timers: Timers, before: Callable[[], None]) -> None:
        """Tidy from now on; ``before`` ends what retention ends, each time."""
        self._timers = timers
        self._before_tidying = before
        self.tidy()

    def close(self) -> None:
        """Everything safe, files closed."""
        try:
            if self.log is not None:
                self.log.close()
        finally:
            if self._metadata is not None:
                self._metadata.close()
            if self.scratch is not None:
                self.scratch.close()
