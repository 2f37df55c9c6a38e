"""Messages put aside, invisible, until all of a batch are published in one step, once.

What is staged lies in unnamed files and does not survive a restart: whoever staged it does so
again. That a batch was published is part of the same atomic record as its messages: the journal
has a destination for each query, whose offsets are the numbers of the published batches.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from typing import BinaryIO
from uuid import uuid4

from headrace.core.clock import Timer, Timers
from headrace.core.storage import Storage
from headrace.errors import NotFound, PreconditionFailed
from headrace.store.api import Level, Placed, QueueRow

NAME_PREFIX = "amq.published."
MAX_BATCH_BYTES = 256 << 20  # they become one record
FORGET_AFTER_MS = 3_600_000

Key = tuple[str, int]  # query, batch
Prepare = Callable[[bytes], Callable[[], None]]  # checks; what it returns publishes


class _Pile:
    """What was staged for one batch, by attempt."""

    def __init__(self) -> None:
        self.attempts: dict[str, BinaryIO] = {}
        self.size = 0
        self.timer: Timer | None = None

    def close(self) -> None:
        for file in self.attempts.values():
            file.close()
        if self.timer is not None:
            self.timer.cancel()


class Staging:
    """All staged batches of a vhost, and which were published."""

    def __init__(self, vhost: str, storage: Storage, timers: Timers) -> None:
        self._vhost = vhost
        self._storage = storage
        self._timers = timers
        self._directory = storage.scratch.directory if storage.scratch is not None else None
        self._piles: dict[Key, _Pile] = {}
        self._rows: dict[str, QueueRow] = {}

    # -- staging --------------------------------------------------------------------------------

    def stage(self, query: str, batch: int, attempt: str, data: bytes) -> None:
        """Put encoded messages aside."""
        pile = self._piles.get((query, batch))
        if pile is None:
            pile = self._piles[query, batch] = _Pile()
        if pile.size + len(data) > MAX_BATCH_BYTES:
            self.discard(query, batch)
            raise PreconditionFailed(
                f"batch {batch} of '{query}' has more than {MAX_BATCH_BYTES} bytes: make smaller "
                "batches (maxRowsPerTrigger). What was staged of it is gone"
            )
        file = pile.attempts.get(attempt)
        if file is None:
            file = tempfile.TemporaryFile(dir=self._directory)  # noqa: SIM115 - kept open
            pile.attempts[attempt] = file
        file.write(len(data).to_bytes(4, "big") + data)
        pile.size += len(data)
        if pile.timer is not None:
            pile.timer.cancel()
        pile.timer = self._timers.after(FORGET_AFTER_MS, lambda: self.discard(query, batch))

    def discard(self, query: str, batch: int) -> None:
        """Forget what was staged; nothing there is no error."""
        pile = self._piles.pop((query, batch), None)
        if pile is not None:
            pile.close()

    # -- publishing -----------------------------------------------------------------------------

    def is_published(self, query: str, batch: int) -> bool:
        row, journal = self._rows.get(query), self._storage.journal
        return row is not None and journal is not None and journal.next_offset(row.id) > batch

    def publish(self, query: str, batch: int, attempts: list[str], prepare: Prepare) -> int:
        """Publish everything that these attempts staged, as one record with the batch's number.

        Returns the position of the journal to wait for. ``prepare`` gets what was staged, piece
        by piece, and may refuse it: nothing is published then.
        """
        journal = self._storage.journal
        if journal is None:
            raise PreconditionFailed("this broker stores nothing, so batches cannot be published")
        pile = self._piles.get((query, batch))
        missing = [one for one in attempts if pile is None or one not in pile.attempts]
        if missing:
            raise NotFound(
                f"nothing is staged for attempt '{missing[0]}' of batch {batch} of '{query}': the "
                "broker was restarted or an hour has passed. Stage the batch again"
            )
        files = [pile.attempts[attempt] for attempt in sorted(attempts)] if pile else []
        steps = [prepare(data) for file in files for data in _pieces(file)]
        row = self._row(query)
        last = journal.next_offset(row.id)
        with self._storage.atomic():
            for step in steps:
                step()
            if last:
                journal.settle(row.id, range(last - 1, last))
            position = journal.append(
                exchange="",
                key="",
                origin=0,
                ttl_ms=None,
                contents=[b"%d" % batch],
                placed=[Placed(row.id, batch, 1)],
                level=Level.FSYNC,
            )
        self.discard(query, batch)
        return position

    def _row(self, query: str) -> QueueRow:
        row = self._rows.get(query)
        if row is None:
            number = self._storage.new_queue_number()
            assert number is not None, "numbers are given as long as there is a journal"
            row = QueueRow(number, uuid4().hex, self._vhost, NAME_PREFIX + query)
            self._storage.save(row)
            self._rows[query] = row
        return row

    def restore(self, row: QueueRow) -> None:
        """A query found at start."""
        self._rows[row.name.removeprefix(NAME_PREFIX)] = row

    def close(self) -> None:
        for pile in self._piles.values():
            pile.close()
        self._piles.clear()


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    file.seek(0)
    while head := file.read(4):
        yield file.read(int.from_bytes(head, "big"))
