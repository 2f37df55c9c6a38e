"""Durable metadata: the loop queues changes, one thread commits all that is queued at once.

The connection belongs to the caller's thread until start(), then to the writer thread until it
ends, then to the caller of close(). The loop's thread never waits for the disk in between.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Condition, Thread
from typing import Any, NamedTuple

from headrace.errors import BrokerError, StoreError
from headrace.store.api.metadata import DamagedRow, Declarations
from headrace.store.api.rows import Row
from headrace.store.failpoints import failpoint
from headrace.store.sqlite import statements
from headrace.store.sqlite.checksums import (
    counter,
    damaged_row_values,
    load_damaged_rows,
    row_sum,
    scan,
)
from headrace.store.sqlite.database import (
    is_full,
    open_database,
    rebuild,
    reserve_space,
    store_error,
)
from headrace.store.sqlite.statements import Kept, row_values
from headrace.wire.amqp.values import utf8

logger = logging.getLogger(__name__)

FILE_NAME = "meta.db"
RESERVE = 5 << 20  # bytes; SQLite begins again in its -wal file after 1,000 pages, 4 MiB
RETRY_SECONDS = 0.25
ORPHAN = "journal"  # where messages are whose queue is missing; the rest of `origin` are tables


class PendingChange(NamedTuple):
    """The statements of one change, and the values they take by name."""

    statements: tuple[str, ...]
    values: Mapping[str, Kept]


def _save_change(row: Row) -> PendingChange:
    values = row_values(row)
    values["sum"] = row_sum(statements.TABLES[type(row)], *values.values())
    return PendingChange(statements.SAVE[type(row)], values)


def _save_vhost_change(name: str) -> PendingChange:
    kept = utf8(name)
    return PendingChange(statements.SAVE_VHOST, {"vhost": kept, "sum": row_sum("vhosts", kept)})


class SqliteMetadata:
    """The Metadata contract on ``meta.db`` in a directory. Opening fails, or the file is good."""

    def __init__(self, directory: Path) -> None:
        self.committed = 0
        self.issued = 0
        self.generation = 0  # of what is committed; an older copy of the file has a lower one
        self._path = directory / FILE_NAME
        self._connection = open_database(self._path)
        self._wake = Condition()
        self._queued: list[PendingChange] = []
        self._writer: Thread | None = None
        self._closed = False
        self._failure: StoreError | None = None
        self._is_full = False

    def load(self) -> Declarations:
        """Everything declared; StoreError when it is called too late or something is damaged."""
        if self._writer is not None or self._closed:
            raise StoreError("the catalogue is read before the metadata store starts")
        try:
            found = self._read_declarations()
            if found is None:
                self._connection.close()
                rebuild(self._path)
                self._connection = open_database(self._path)
                found = self._read_declarations()
            if found is None:
                raise sqlite3.DatabaseError("it cannot be rebuilt")
            return found
        except (sqlite3.Error, BrokerError) as error:
            raise store_error(self._path, error) from error

    def set_aside(self, strays: Iterable[tuple[Row, DamagedRow]], generation: int = 0) -> None:
        """Before start: move rows to where a repair finds them; ``generation``: at least that."""
        changes = []
        for row, one in strays:
            changes.append(PendingChange((statements.REMOVE[type(row)],), row_values(row)))
            changes.append(PendingChange((statements.SAVE_DAMAGED,), damaged_row_values(one)))
        self._commit_now(changes, generation)

    def save_orphans(self, numbers: Iterable[int]) -> None:
        """Before start: the messages of these stay until a repair, also when numbers are given
        that are higher."""
        noted = [DamagedRow(ORPHAN, "", (one,)) for one in numbers]
        self._commit_now(
            [PendingChange((statements.SAVE_DAMAGED,), damaged_row_values(one)) for one in noted]
        )

    def accept(self, rows: Iterable[Row], vhosts: Iterable[str], generation: int) -> None:
        """Before start: take rows as they are, and forget what was kept aside."""
        changes = [_save_change(row) for row in rows]
        changes += [_save_vhost_change(name) for name in vhosts]
        changes.append(PendingChange(("DELETE FROM damaged_rows",), {}))
        self._commit_now(changes, generation)

    def _commit_now(self, changes: list[PendingChange], generation: int = 0) -> None:
        if generation > self.generation:
            at_least: dict[str, Any] = {"name": "generation", "value": generation}
            changes.append(PendingChange((statements.RAISE_TO,), at_least))
            self.generation = generation
        try:
            if changes:
                self._commit(changes)
        except sqlite3.Error as error:
            raise store_error(self._path, error) from error

    def start(
        self,
        call_soon: Callable[[Callable[[], None]], None],
        on_commit: Callable[[int], None],
        on_failure: Callable[[Exception], None],
        on_full: Callable[[bool], None] = lambda full: None,
    ) -> None:
        """Begin to accept changes. ``call_soon`` is called on the writer thread and must only
        hand the callback over, as loop.call_soon_threadsafe does."""
        if self._writer is not None or self._closed:
            raise StoreError("a metadata store is started once")
        self._call_soon = call_soon
        self._on_commit = on_commit
        self._on_failure = on_failure
        self._on_full = on_full
        # A daemon: a broker that dies of something else must not wait for this thread.
        self._writer = Thread(target=self._write_all, name="headrace-metadata", daemon=True)
        self._writer.start()

    def save(self, row: Row) -> int:
        return self._queue(_save_change(row))

    def delete(self, row: Row) -> int:
        return self._queue(PendingChange(statements.DELETE[type(row)], row_values(row)))

    def delete_reader(self, topic: str, reader_group: str, token: str) -> int:
        names = {"topic": topic, "reader_group": reader_group, "token": token}
        values = {name: utf8(text) for name, text in names.items()}
        return self._queue(PendingChange(statements.DELETE_READER, values))

    def save_vhost(self, name: str) -> int:
        return self._queue(_save_vhost_change(name))

    def delete_vhost(self, name: str) -> int:
        return self._queue(PendingChange(statements.DELETE_VHOST, {"vhost": utf8(name)}))

    def close(self) -> None:
        """Commit what is queued, then stop; waits for both. on_failure reports a failure."""
        with self._wake:
            if self._closed:
                return
            self._closed = True
            self._wake.notify()
        if self._writer is not None:
            self._writer.join()
        try:
            if self._failure is None:
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            # Nothing is lost: what was committed is in the -wal file, and is read from there.
            logger.warning("%s: no checkpoint at the end: %s", self._path, error)
        finally:
            self._connection.close()

    # -- on the caller's thread -------------------------------------------------------------------

    def _queue(self, change: PendingChange) -> int:
        with self._wake:
            if self._failure is not None:
                raise StoreError(f"metadata is no longer stored: {self._failure}")
            if self._writer is None or self._closed:
                raise StoreError("the metadata store is not open for changes")
            self._queued.append(change)
            self.issued += 1
            self._wake.notify()
            return self.issued

    def _read_declarations(self) -> Declarations | None:
        """Everything declared; None when something in the file is damaged."""
        connection = self._connection
        scans = {table: scan(connection, table) for table in statements.KINDS}
        highest, generation = (
            counter(connection, one) for one in ("highest_queue_id", "generation")
        )
        if highest is None or generation is None or any(one.damaged for one in scans.values()):
            return None
        # As always, the oldest queue first; the order of everything else is that of its key.
        scans["queues"].good.sort(key=lambda one: (one[0][0], one[0][2], one[0][3]))
        rows: dict[str, Any] = {table: [row for _, row in one.good] for table, one in scans.items()}
        self.generation = generation
        aside = load_damaged_rows(connection)
        return Declarations(
            **rows,
            next_queue_id=highest + 1,
            generation=generation,
            damaged=[one for one in aside if one.table != ORPHAN],
            orphaned={int(str(one.values[0])) for one in aside if one.table == ORPHAN},
        )

    # -- on the writer thread ---------------------------------------------------------------------

    def _write_all(self) -> None:
        try:
            self._check_space()
            while changes := self._take():
                self._commit_when_space(changes)
                self.committed += len(changes)
                self._call_back(partial(self._on_commit, self.committed))
                if self._is_full:
                    self._check_space()
        except Exception as error:
            self._fail(error)

    def _take(self) -> list[PendingChange]:
        """All that is queued, at least one change; nothing when the store is closed."""
        with self._wake:
            while not self._queued and not self._closed:
                if not self._wake.wait(RETRY_SECONDS if self._is_full else None):
                    self._check_space()
            changes, self._queued = self._queued, []
            return changes

    def _commit_when_space(self, changes: Sequence[PendingChange]) -> None:
        """Try again while the disk is full; what is queued meanwhile comes after it."""
        while True:
            try:
                return self._commit(changes)
            except sqlite3.Error as error:
                if not is_full(self._path, error):
                    raise
                self._set_full(True)
                with self._wake:
                    if self._wake.wait_for(lambda: self._closed, RETRY_SECONDS):
                        raise

    def _check_space(self) -> None:
        self._set_full(not reserve_space(self._path, RESERVE))

    def _set_full(self, full: bool) -> None:
        if full != self._is_full:
            self._is_full = full
            logger.log(
                logging.ERROR if full else logging.WARNING,
                "%s: %s", self._path,
                "the disk is full; changes wait" if full else "there is room on the disk again",
            )  # fmt: skip
            self._call_back(partial(self._on_full, full))

    def _commit(self, changes: Sequence[PendingChange]) -> None:
        """Make all changes in one transaction. Tests put a failing disk here."""
        with self._transaction():
            for change in changes:
                for statement in change.statements:
                    self._connection.execute(statement, change.values)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        try:
            yield
            execute(statements.RAISE_GENERATION)
            failpoint("metadata.commit")
            execute("COMMIT")
        except BaseException:
            # Not in the database, rolled back or not; but another begin needs its end.
            with suppress(sqlite3.Error):
                self._connection.rollback()
            raise
        self.generation += 1
        failpoint("metadata.committed")

    def _fail(self, error: Exception) -> None:
        """The end: what was not committed is not tried again, and nothing later is accepted."""
        is_bug = not isinstance(error, sqlite3.Error | OSError)
        logger.error("%s: cannot commit: %s", self._path, error, exc_info=error if is_bug else None)
        failure = store_error(self._path, error)
        failure.__cause__ = error
        with self._wake:
            self._failure = failure
            self._queued.clear()
        self._call_back(partial(self._on_failure, failure))

    def _call_back(self, callback: Callable[[], None]) -> None:
        try:
            self._call_soon(callback)
        except RuntimeError:
            # The loop is closed: there is no one to notify. What is committed is committed.
            logger.debug("%s: the event loop is closed", self._path)
