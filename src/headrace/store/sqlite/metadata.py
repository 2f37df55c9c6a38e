"""Durable metadata: the loop queues changes, one thread commits all that is queued at once.

The connection belongs to the caller's thread until start(), then to the writer thread until it
ends, then to whoever calls close(). The loop's thread never waits for the disk in between.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Condition, Thread
from typing import NamedTuple

from headrace.errors import BrokerError, StoreError
from headrace.store.api import (
    BindingRow,
    Catalogue,
    CursorRow,
    ExchangeRow,
    ParameterRow,
    PermissionRow,
    PinRow,
    PolicyRow,
    QueueRow,
    RetryRow,
    Row,
    SecretRow,
    TopicPermissionRow,
    TopicRow,
    UserLimitsRow,
    UserRow,
    VhostLimitsRow,
)
from headrace.store.failpoints import passing
from headrace.store.rows import Kept, R, field_names, make_row, read_text, row_values
from headrace.store.sqlite import statements
from headrace.store.sqlite.database import open_database, store_error
from headrace.wire.amqp.values import utf8

logger = logging.getLogger(__name__)

FILE_NAME = "meta.db"


class Change(NamedTuple):
    """The statements of one change, and the values they take by name."""

    statements: tuple[str, ...]
    values: Mapping[str, Kept]


class SqliteMetadata:
    """The Metadata contract on ``meta.db`` in a directory. Opening fails, or the file is good."""

    def __init__(self, directory: Path) -> None:
        self.committed = 0
        self.issued = 0
        self._path = directory / FILE_NAME
        self._connection = open_database(self._path)
        self._wake = Condition()
        self._queued: list[Change] = []
        self._writer: Thread | None = None
        self._closed = False
        self._failure: StoreError | None = None

    def load(self) -> Catalogue:
        """Everything declared; StoreError when it is called too late or something is damaged."""
        if self._writer is not None or self._closed:
            raise StoreError("the catalogue is read before the metadata store starts")
        try:
            return self._read_catalogue()
        except (sqlite3.Error, BrokerError) as error:
            raise store_error(self._path, error) from error

    def start(
        self,
        call_soon: Callable[[Callable[[], None]], None],
        on_commit: Callable[[int], None],
        on_failure: Callable[[Exception], None],
    ) -> None:
        """Begin to accept changes. ``call_soon`` is called on the writer thread and must only
        hand the callback over, as loop.call_soon_threadsafe does."""
        if self._writer is not None or self._closed:
            raise StoreError("a metadata store is started once")
        self._call_soon = call_soon
        self._on_commit = on_commit
        self._on_failure = on_failure
        # A daemon: a broker that dies of something else must not wait for this thread.
        self._writer = Thread(target=self._write_all, name="headrace-metadata", daemon=True)
        self._writer.start()

    def save(self, row: Row) -> int:
        return self._queue(Change(statements.SAVE[type(row)], row_values(row)))

    def delete(self, row: Row) -> int:
        return self._queue(Change(statements.DELETE[type(row)], row_values(row)))

    def forget_reader(self, topic: str, reader_group: str, token: str) -> int:
        names = {"topic": topic, "reader_group": reader_group, "token": token}
        values = {name: utf8(text) for name, text in names.items()}
        return self._queue(Change(statements.FORGET_READER, values))

    def save_vhost(self, name: str) -> int:
        return self._queue(Change(statements.SAVE_VHOST, {"vhost": utf8(name)}))

    def delete_vhost(self, name: str) -> int:
        return self._queue(Change(statements.DELETE_VHOST, {"vhost": utf8(name)}))

    def close(self) -> None:
        """Commit what is queued, then stop; waits for both. A failure is told by on_failure."""
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

    def _queue(self, change: Change) -> int:
        with self._wake:
            if self._failure is not None:
                raise StoreError(f"metadata is no longer stored: {self._failure}")
            if self._writer is None or self._closed:
                raise StoreError("the metadata store is not open for changes")
            self._queued.append(change)
            self.issued += 1
            self._wake.notify()
            return self.issued

    def _read_catalogue(self) -> Catalogue:
        execute = self._connection.execute
        return Catalogue(
            vhosts=[read_text(name) for (name,) in execute(statements.SELECT_VHOSTS)],
            exchanges=self._read(ExchangeRow),
            queues=self._read(QueueRow),
            bindings=self._read(BindingRow),
            topics=self._read(TopicRow),
            parameters=self._read(ParameterRow),
            cursors=self._read(CursorRow),
            retries=self._read(RetryRow),
            pins=self._read(PinRow),
            policies=self._read(PolicyRow),
            users=self._read(UserRow),
            secrets=self._read(SecretRow),
            permissions=self._read(PermissionRow),
            topic_permissions=self._read(TopicPermissionRow),
            user_limits=self._read(UserLimitsRow),
            vhost_limits=self._read(VhostLimitsRow),
            next_queue_id=execute(statements.SELECT_HIGHEST_QUEUE_ID).fetchone()[0] + 1,
        )

    def _read(self, kind: type[R]) -> list[R]:
        found = self._connection.execute(statements.SELECT[kind])
        names = field_names(kind)  # the columns come in the order of the fields
        return [make_row(kind, dict(zip(names, row, strict=True))) for row in found]

    # -- on the writer thread ---------------------------------------------------------------------

    def _write_all(self) -> None:
        try:
            while changes := self._take():
                self._commit(changes)
                self.committed += len(changes)
                self._tell(partial(self._on_commit, self.committed))
        except Exception as error:
            self._fail(error)

    def _take(self) -> list[Change]:
        """All that is queued, at least one change; nothing when the store is closed."""
        with self._wake:
            while not self._queued and not self._closed:
                self._wake.wait()
            changes, self._queued = self._queued, []
            return changes

    def _commit(self, changes: Sequence[Change]) -> None:
        """Make all changes in one transaction. Tests put a failing disk here."""
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        for change in changes:
            for statement in change.statements:
                execute(statement, change.values)
        passing("metadata.commit")
        execute("COMMIT")
        passing("metadata.committed")

    def _fail(self, error: Exception) -> None:
        """The end: what was not committed is not tried again, and nothing later is accepted."""
        logger.error("%s: cannot commit", self._path, exc_info=error)
        failure = store_error(self._path, error)
        failure.__cause__ = error
        with self._wake:
            self._failure = failure
            self._queued.clear()
        try:
            if self._connection.in_transaction:
                self._connection.rollback()
        except sqlite3.Error:
            pass  # an unfinished transaction is not in the database, rolled back or not
        self._tell(partial(self._on_failure, failure))

    def _tell(self, callback: Callable[[], None]) -> None:
        try:
            self._call_soon(callback)
        except RuntimeError:
            # The loop is closed: nobody is left to be told. What is committed is committed.
            logger.debug("%s: the loop is gone", self._path)
