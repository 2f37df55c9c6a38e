"""The owner's writes: what changed since the last commit, and the commits themselves.

One commit at a time. A thread that finds nothing to commit waits for the one under way: it may
carry that thread's bytes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from headrace.errors import StoreError
from headrace.model.shard_ownership import CommitOutcome, OwnerLease, ShardRow, judge_commit
from headrace.retry import RetryPolicy
from headrace.store.shared.database import Change, PutBlock, ShardDatabase
from headrace.store.sql.faults import Fault, FaultKind

logger = logging.getLogger(__name__)

BLOCK: Final = 1 << 20
COMMIT_SIZE: Final = 8 << 20  # bytes; databases limit the size of a transaction
PENDING_SIZE: Final = 16 << 20
FULL: Final = (1021, 1114)  # disk full, table full
_PAUSES: Final = RetryPolicy(first_pause_s=0.01, max_pause_s=0.5)


class ShardLost(StoreError):
    """The shard is not this process's any more: nothing was committed, the process must end."""


def boottime() -> float:
    """Seconds of a clock that cannot be set and that counts suspended time."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class ShardWriter:
    """Everything that is stored goes through flush()."""

    def __init__(
        self, database: ShardDatabase, taken: ShardRow, lease: float, sent: float | None = None
    ) -> None:
        """``sent``: when the take-over was."""
        self._database = database
        self._done = taken  # the row as the last commit left it
        self.lease = OwnerLease(lease, boottime() if sent is None else sent)
        self._lock = threading.Lock()  # of what is pending
        self._pending: list[Change] = []
        self._size = 0
        self._generation = 0
        self._committing = threading.Lock()
        # Once a commit has failed for good: bytes of others were in it, so all that flush fail.
        self._failure: StoreError | None = None
        self._stopping = threading.Event()
        self._has_given_up = False
        self.on_full: Callable[[bool], None] = lambda is_full: None
        self.on_went_back: Callable[[], None] = lambda: None
        self.is_full = False
        self.committed_at = boottime()

    @property
    def done(self) -> ShardRow:
        return self._done

    def new_generation(self) -> int:
        """A number that no earlier owner has used."""
        with self._lock:
            self._generation += 1
            return (self._done.epoch << 32) + self._generation

    def put(self, *changes: Change) -> None:
        """To be made by the next commit, in this order."""
        with self._lock:
            self._pending += changes
            self._size += sum(len(one.data) for one in changes if isinstance(one, PutBlock))

    @property
    def is_behind(self) -> bool:
        """So much is pending that writers should flush before they put more."""
        return self._size > PENDING_SIZE

    def flush(self) -> None:
        """Return once everything that was put is committed; ShardLost when it never will be."""
        with self._committing:
            self._commit_pending()

    def renew(self) -> None:
        """Commit what waits for no sync; nothing at all too, once a second: it keeps the lease."""
        if self._committing.acquire(blocking=False):
            try:
                if not self._commit_pending() and boottime() - self.committed_at >= 1:
                    self._commit(())
            finally:
                self._committing.release()

    def _commit_pending(self) -> bool:
        if self._failure is not None:
            raise self._failure
        if self._has_given_up:
            raise StoreError("this node did not stop in time")
        with self._lock:
            changes, self._pending, self._size = self._pending, [], 0
        for part in divided(joined(changes)):
            self._commit(part)
        return bool(changes)

    def stop(self) -> None:
        """Do not wait any longer for a database that does not answer."""
        self._stopping.set()

    def give_up(self) -> None:
        """Commit nothing more, even if clients still publish, so that the lease ends."""
        self._has_given_up = True
        self._stopping.set()

    def release(self) -> None:
        """The last commit was made: hand the shard over."""
        with self._committing:
            if self._failure is None:
                try:
                    self._database.release(self._done)
                except Fault as fault:
                    logger.warning("a standby waits for the lease: cannot hand over: %s", fault)

    def _commit(self, changes: Sequence[Change]) -> None:
        try:
            self._commit_once(changes)
        except BaseException as error:
            # Of whatever kind: nothing may be stored behind what is missing now.
            if self._failure is None:
                reason = str(error) or type(error).__name__
                self._failure = StoreError(f"cannot commit to the database: {reason}")
            raise self._failure from error

    def _commit_once(self, changes: Sequence[Change]) -> None:
        is_unknown = False  # whether the last attempt was made
        # Of the first attempt: it may be the one that was made, and a standby has seen it then.
        sent = boottime()
        for pause in _PAUSES.pauses():
            try:
                is_done = not is_unknown and self._database.commit(self._done, changes)
                if not is_done:
                    is_done = self._is_done_after_all()
                    is_unknown = False
                    if not is_done:
                        continue
            except Fault as fault:
                is_unknown = is_unknown or fault.kind is not FaultKind.AGAIN
                self._set_full(fault.code in FULL)
                if self._stopping.is_set():
                    raise
                logger.log(
                    logging.DEBUG if fault.kind is FaultKind.AGAIN else logging.WARNING,
                    "the commit is repeated: %s", fault,
                )  # fmt: skip
                self._stopping.wait(pause)
                continue
            self._done = self._done._replace(seq=self._done.seq + 1)
            self.lease.committed(sent)
            self.committed_at = boottime()
            self._set_full(False)
            return

    def _is_done_after_all(self) -> bool:
        """Read what became of a commit without an answer; ShardLost ends everything."""
        row = self._database.status().row
        start = self._database.start_of(self._done.epoch + 1)
        outcome = judge_commit(row, self._done, start)
        if outcome is CommitOutcome.FENCED:
            self._failure = ShardLost("another node has taken the shard over")
            raise self._failure
        if outcome is CommitOutcome.WENT_BACK:
            logger.critical(
                "the database lost commits: it is at %s, this node had committed %s. The data "
                "directory of this node has everything; nothing more is stored", row, self._done,
            )  # fmt: skip
            self.on_went_back()
            self._failure = ShardLost("the database went back in time")
            raise self._failure
        return outcome is CommitOutcome.DONE

    def _set_full(self, is_full: bool) -> None:
        if is_full != self.is_full:
            self.is_full = is_full
            self.on_full(is_full)


def joined(changes: Sequence[Change]) -> Iterator[Change]:
    """Writes that follow each other become one block, larger ones several."""
    blocks: list[PutBlock] = []
    for change in changes:
        if isinstance(change, PutBlock):
            last = blocks[-1] if blocks else None
            if last is not None and (
                last[:2] != change[:2] or last.at + len(last.data) != change.at
            ):
                yield from _cut(blocks)
                blocks = []
            blocks.append(change)
        else:
            yield from _cut(blocks)
            blocks = []
            yield change
    yield from _cut(blocks)


def _cut(blocks: Sequence[PutBlock]) -> Iterator[PutBlock]:
    if not blocks:
        return
    first = blocks[0]
    data = b"".join([one.data for one in blocks])
    for start in range(0, len(data), BLOCK):
        yield first._replace(at=first.at + start, data=data[start : start + BLOCK])


def divided(changes: Iterator[Change]) -> Iterator[list[Change]]:
    """Commits of bounded size. A file is seen by others once its PutFile is committed."""
    part: list[Change] = []
    size = 0
    for change in changes:
        part.append(change)
        size += len(change.data) if isinstance(change, PutBlock) else 0
        if size >= COMMIT_SIZE:
            yield part
            part, size = [], 0
    if part:
        yield part
