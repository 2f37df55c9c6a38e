"""Staged batches: messages that become visible in one step, once.

They are in unnamed files, one for each batch, and do not survive a restart: clients stage them
again. That a batch was published is part of the same atomic record as its messages: the
log has a destination for each query, whose offsets are the numbers of the published batches.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

from headrace.core.clock import Timer
from headrace.core.loop_turn import Steps
from headrace.core.publication import Publication
from headrace.core.routes import Routes
from headrace.core.vhost_services import VhostServices
from headrace.errors import NotFound, PreconditionFailed, ResourceError
from headrace.store.api.message_log import DurabilityLevel, OutgoingMessages, RecordDestination
from headrace.store.api.rows import QueueRow

NAME_PREFIX = "amq.published."
MAX_BATCH_BYTES = 256 << 20  # they become one record
MAX_USER_BATCHES = 256  # open at the same time, each with a file
MAX_USER_BYTES = 1 << 30
MIN_PIECE = 4096  # bytes that a request counts, however small: it is a few objects in memory too
FORGET_AFTER_MS = 3_600_000

Key = tuple[str, int]  # query, batch
Prepare = Callable[[Publication, bytes], None]  # checks what was staged, and adds it
Refusal = Callable[[int], str | None]  # why a file with this descriptor cannot stay open


class _StagedBatch:
    """What was staged for one batch: a file, and where in it the pieces of each attempt are."""

    def __init__(self, owner: str, directory: Path | None) -> None:
        self.owner = owner
        self.attempts: dict[str, list[tuple[int, int]]] = {}  # offset and length
        self.size = 0  # as counted against the limits
        self.timer: Timer | None = None
        self._file = tempfile.TemporaryFile(dir=directory, buffering=0)  # noqa: SIM115 - kept open
        self._end = 0

    @property
    def descriptor(self) -> int:
        return self._file.fileno()

    def add(self, attempt: str, pieces: Sequence[bytes]) -> None:
        """Raises OSError when the disk is full."""
        data = b"".join(pieces)
        view = memoryview(data)
        while view:
            view = view[os.pwrite(self.descriptor, view, self._end + len(data) - len(view)) :]
        for piece in pieces:
            self.attempts.setdefault(attempt, []).append((self._end, len(piece)))
            self._end += len(piece)
            self.size += max(len(piece), MIN_PIECE)

    def read(self, offset: int, length: int) -> bytes:
        return os.pread(self.descriptor, length, offset)

    def close(self) -> None:
        self._file.close()
        if self.timer is not None:
            self.timer.cancel()


class StagedBatches:
    """All staged batches of a vhost, and which were published."""

    def __init__(self, services: VhostServices) -> None:
        self._vhost = services.name
        self._storage = storage = services.storage
        self._timers = services.timers
        self._directory = storage.scratch.directory if storage.scratch is not None else None
        self._batches: dict[Key, _StagedBatch] = {}
        self._rows: dict[str, QueueRow] = {}

    # -- staging --------------------------------------------------------------------------------

    def stage(
        self,
        owner: str,
        query: str,
        batch: int,
        attempt: str,
        pieces: Sequence[bytes],
        refusal: Refusal,
    ) -> None:
        """Keep encoded messages of a user until they are published or discarded.

        All pieces or none. Each of them is prepared in one step of the publication.
        """
        size = sum(map(len, pieces))
        staged = self._batches.get((query, batch))
        if staged is None:
            staged = self._opened(owner, query, batch, refusal)
        if staged.size + size > MAX_BATCH_BYTES:
            self.discard(query, batch)
            raise PreconditionFailed(
                f"batch {batch} of '{query}' has more than {MAX_BATCH_BYTES} bytes: make smaller "
                "batches (maxRowsPerTrigger). What was staged of it is gone"
            )
        if sum(one.size for one in self._of(owner)) + size > MAX_USER_BYTES:
            raise PreconditionFailed(
                f"user '{owner}' has {MAX_USER_BYTES} bytes staged, which is the limit: publish or "
                "discard batches first"
            )
        try:
            staged.add(attempt, pieces)
        except OSError as error:
            raise ResourceError(f"cannot stage {size} bytes: {error.strerror}") from None
        if staged.timer is not None:
            staged.timer.cancel()
        staged.timer = self._timers.after(FORGET_AFTER_MS, lambda: self.discard(query, batch))

    def _of(self, owner: str) -> list[_StagedBatch]:
        return [staged for staged in self._batches.values() if staged.owner == owner]

    def _opened(self, owner: str, query: str, batch: int, refusal: Refusal) -> _StagedBatch:
        if len(self._of(owner)) >= MAX_USER_BATCHES:
            raise PreconditionFailed(
                f"user '{owner}' has {MAX_USER_BATCHES} staged batches, which is the limit: "
                "publish or discard some first"
            )
        try:
            staged = _StagedBatch(owner, self._directory)
        except OSError as error:
            raise ResourceError(f"cannot open a file for the batch: {error.strerror}") from None
        why = refusal(staged.descriptor)
        if why is not None:
            staged.close()
            raise ResourceError(f"cannot open a file for the batch: {why}")
        self._batches[query, batch] = staged
        return staged

    def discard(self, query: str, batch: int) -> None:
        """Forget what was staged; nothing there is no error."""
        staged = self._batches.pop((query, batch), None)
        if staged is not None:
            staged.close()

    # -- publishing -----------------------------------------------------------------------------

    def is_published(self, query: str, batch: int) -> bool:
        row, log = self._rows.get(query), self._storage.log
        return row is not None and log is not None and log.reads.next_offset(row.id) > batch

    def publish(
        self,
        routes: Routes,
        new: Callable[[], Publication],
        query: str,
        batch: int,
        attempts: list[str],
        prepare: Prepare,
    ) -> Generator[None, None, int | None]:
        """Publish everything that these attempts staged, as one record with the batch's number.

        Returns the position of the log to wait for; None: another request has published it
        meanwhile. ``prepare`` gets what was staged, piece by piece, and may refuse it: nothing is
        published then. So it is when the caller does not go on.
        """
        log = self._storage.log
        if log is None:
            raise PreconditionFailed("this broker stores nothing, so batches cannot be published")
        staged = self._batches.get((query, batch))
        missing = [one for one in attempts if staged is None or one not in staged.attempts]
        if missing:
            raise NotFound(
                f"nothing is staged for attempt '{missing[0]}' of batch {batch} of '{query}': the "
                "broker was restarted or an hour has passed. Stage the batch again"
            )
        places = [place for one in sorted(attempts) if staged for place in staged.attempts[one]]

        def prepared(publication: Publication) -> Steps:
            for place in places:
                if staged is None or self._batches.get((query, batch)) is not staged:
                    break
                prepare(publication, staged.read(*place))
                yield

        publication = yield from routes.prepared(new, prepared)
        if self.is_published(query, batch):
            publication.discard()
            return None
        if self._batches.get((query, batch)) is not staged:
            publication.discard()
            raise NotFound(f"batch {batch} of '{query}' was discarded during its publication")
        row = self._row(query)
        last = log.reads.next_offset(row.id)
        with self._storage.atomic():
            publication.publish()
            if last:
                log.settle(row.id, range(last - 1, last))
            position = log.append(
                OutgoingMessages(
                    [b"%d" % batch], [RecordDestination(row.id, batch, 1)], DurabilityLevel.FSYNC
                )
            )
        self.discard(query, batch)
        return position

    def _row(self, query: str) -> QueueRow:
        row = self._rows.get(query)
        if row is None:
            row = self._storage.new_destination(self._vhost, NAME_PREFIX + query)
            assert row is not None, "numbers are given as long as there is a log"
            self._rows[query] = row
        return row

    def restore(self, row: QueueRow) -> None:
        """A query found at start."""
        self._rows[row.name.removeprefix(NAME_PREFIX)] = row

    def close(self) -> None:
        for staged in self._batches.values():
            staged.close()
        self._batches.clear()
