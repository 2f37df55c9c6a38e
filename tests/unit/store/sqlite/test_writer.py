"""The writer thread: few commits for many changes, and what happens when one fails."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from headrace.errors import StoreError
from headrace.store.api.rows import ExchangeRow, QueueRow
from headrace.store.sqlite import SqliteMetadata, database, metadata
from headrace.store.sqlite.metadata import PendingChange
from support.callback_queue import Handover


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteMetadata]:
    store = SqliteMetadata(tmp_path)
    yield store
    store.close()


class Gate:
    """Stands before the commit: counts the batches, and can keep the disk busy."""

    def __init__(self, store: SqliteMetadata) -> None:
        self.batches: list[int] = []
        self.opened = threading.Event()
        self.reached = threading.Event()
        self._commit: Callable[[Sequence[PendingChange]], None] = store._commit
        store._commit = self.commit  # type: ignore[method-assign]

    def commit(self, changes: Sequence[PendingChange]) -> None:
        self.batches.append(len(changes))
        self.reached.set()
        assert self.opened.wait(10)
        self._commit(changes)


def fail(changes: Sequence[PendingChange]) -> None:
    raise sqlite3.OperationalError("disk I/O error")


def names(directory: Path) -> list[str]:
    store = SqliteMetadata(directory)
    found = [row.name for row in store.load().exchanges]
    store.close()
    return found


def exchange(name: object) -> ExchangeRow:
    return ExchangeRow("/", str(name), "direct")


# -- group commit ---------------------------------------------------------------------------------


def test_what_is_queued_during_a_commit_is_committed_at_once(store: SqliteMetadata) -> None:
    gate, loop = Gate(store), Handover()
    loop.start(store)
    store.save_vhost("/")
    assert gate.reached.wait(10)
    for number in range(10_000):
        store.save(QueueRow(number + 1, "u", "/", f"q{number}"))
    assert (store.issued, store.committed) == (10_001, 0)

    gate.opened.set()
    loop.wait_for_commit(10_001)

    assert gate.batches == [1, 10_000]
    assert loop.commits == [1, 10_001]


def test_nothing_is_called_committed_before_it_is(store: SqliteMetadata) -> None:
    gate, loop = Gate(store), Handover()
    loop.start(store)
    ticket = store.save_vhost("/")
    assert gate.reached.wait(10)
    loop.run()
    assert (store.committed, loop.commits) == (0, [])

    gate.opened.set()
    loop.wait_for_commit(ticket)
    assert store.committed == ticket


def test_closing_commits_what_is_queued(store: SqliteMetadata, tmp_path: Path) -> None:
    gate, loop = Gate(store), Handover()
    loop.start(store)
    for number in range(100):
        store.save(exchange(f"{number:02}"))
    gate.opened.set()
    store.close()

    assert store.committed == store.issued == 100
    assert names(tmp_path) == [f"{number:02}" for number in range(100)]


def test_closing_ends_the_thread(store: SqliteMetadata) -> None:
    Handover().start(store)
    writer = store._writer
    store.close()

    assert writer is not None
    assert not writer.is_alive()


def test_a_store_is_started_once_and_read_before(store: SqliteMetadata) -> None:
    Handover().start(store)

    with pytest.raises(StoreError, match="started once"):
        Handover().start(store)
    with pytest.raises(StoreError, match="before"):
        store.load()


def test_a_loop_that_is_gone_does_not_stop_the_last_commit(
    store: SqliteMetadata, tmp_path: Path
) -> None:
    def closed_loop(callback: Callable[[], None]) -> None:
        raise RuntimeError("Event loop is closed")

    failures: list[Exception] = []
    store.start(closed_loop, lambda ticket: None, failures.append)
    store.save(exchange("a"))
    store.close()

    assert (store.committed, failures) == (1, [])
    assert names(tmp_path) == ["a"]


# -- failure --------------------------------------------------------------------------------------


def test_a_failed_commit_is_reported_once_and_the_store_refuses_changes(
    store: SqliteMetadata, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = Handover()
    loop.start(store)
    loop.wait_for_commit(store.save(exchange("kept")))
    monkeypatch.setattr(store, "_commit", fail)
    store.save(exchange("lost"))
    failure = loop.wait_for_failure()

    assert isinstance(failure, StoreError)
    assert isinstance(failure.__cause__, sqlite3.OperationalError)
    with pytest.raises(StoreError, match=r"no longer stored.*disk I/O error"):
        store.save(exchange("later"))
    with pytest.raises(StoreError, match="no longer stored"):
        store.delete_vhost("/")
    store.close()
    loop.run()
    assert (loop.failures, loop.commits) == ([failure], [1])
    assert (store.issued, store.committed) == (2, 1)
    assert names(tmp_path) == ["kept"]


def test_what_was_queued_behind_a_failed_commit_is_not_committed(
    store: SqliteMetadata, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, loop = Gate(store), Handover()
    monkeypatch.setattr(gate, "_commit", fail)
    loop.start(store)
    store.save(exchange("first"))
    assert gate.reached.wait(10)
    store.save(exchange("second"))
    gate.opened.set()
    store.close()
    loop.run()

    assert len(loop.failures) == 1
    assert (store.committed, gate.batches) == (0, [1])
    assert names(tmp_path) == []


def test_a_batch_is_committed_whole_or_not_at_all(store: SqliteMetadata, tmp_path: Path) -> None:
    gate, loop = Gate(store), Handover()
    loop.start(store)
    store.save(exchange("a"))
    assert gate.reached.wait(10)
    store.save(exchange("b"))
    store._queue(PendingChange(("INSERT INTO vhosts (name) VALUES (NULL)",), {}))
    store.save(exchange("c"))
    gate.opened.set()
    loop.wait_for_failure()
    store.close()

    assert gate.batches == [1, 3]
    assert loop.commits == [1]
    assert names(tmp_path) == ["a"]


# -- a full disk ----------------------------------------------------------------------------------


def large(name: str) -> ExchangeRow:
    return ExchangeRow("/", name, "direct", arguments={"x": "y" * 100_000})


class SmallDisk:
    """A store that may have only so many pages."""

    def __init__(self, store: SqliteMetadata) -> None:
        (self._pages,) = store._connection.execute("PRAGMA page_count").fetchone()
        self.store, self.loop = store, Handover()
        self.attempts = 0
        self._commit: Callable[[Sequence[PendingChange]], None] = store._commit
        store._commit = self.commit  # type: ignore[method-assign]
        self.is_full = True

    def commit(self, changes: Sequence[PendingChange]) -> None:
        self.attempts += 1
        pages = self._pages if self.is_full else self._pages + 1000
        self.store._connection.execute(f"PRAGMA max_page_count = {pages}")
        self._commit(changes)


def test_a_full_disk_makes_changes_wait_in_their_order(
    store: SqliteMetadata, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "RETRY_SECONDS", 0.001)
    disk = SmallDisk(store)
    loop = disk.loop
    loop.start(store)
    loop.wait_for_commit(store.save(exchange("small")))
    store.save(large("b"))
    loop.run_until(lambda: loop.alarms == [True])
    store.delete(exchange("b"))
    last = store.save(large("c"))
    before = disk.attempts
    loop.run_until(lambda: disk.attempts > before + 2, idle=True)
    assert (store.committed, loop.commits, loop.failures) == (1, [1], [])

    disk.is_full = False
    loop.wait_for_commit(last)

    loop.run_until(lambda: loop.alarms == [True, False])
    store.close()
    assert loop.failures == []
    assert names(tmp_path) == ["c", "small"]


def test_a_store_closed_on_a_full_disk_keeps_what_was_committed(
    store: SqliteMetadata, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SmallDisk(store)
    disk.loop.start(store)
    disk.loop.wait_for_commit(store.save(exchange("small")))
    store.save(large("large"))
    disk.loop.run_until(lambda: disk.loop.alarms == [True])

    store.close()

    assert "full" in str(disk.loop.wait_for_failure())
    assert "Traceback" not in caplog.text
    assert names(tmp_path) == ["small"]


@pytest.mark.parametrize(
    ("code", "room", "waits"),
    [
        (sqlite3.SQLITE_FULL, True, True),
        (sqlite3.SQLITE_IOERR_WRITE, False, True),
        (sqlite3.SQLITE_IOERR_SHMSIZE, False, True),
        (sqlite3.SQLITE_IOERR_WRITE, True, False),
        (sqlite3.SQLITE_IOERR_FSYNC, False, False),
        (sqlite3.SQLITE_CORRUPT, False, False),
    ],
)
def test_only_a_lack_of_room_is_waited_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, room: bool, waits: bool
) -> None:
    monkeypatch.setattr(database, "_has_room", lambda path: room)
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code

    assert database.is_full(tmp_path / "meta.db", error) == waits


def test_small_changes_fit_into_the_reserve(store: SqliteMetadata, tmp_path: Path) -> None:
    loop = Handover()
    loop.start(store)
    loop.wait_for_commit(store.save(exchange("a")))

    size = (tmp_path / "meta.db-wal").stat().st_size
    assert size >= metadata.RESERVE
    assert (tmp_path / "meta.db-wal").stat().st_blocks * 512 >= metadata.RESERVE
    for number in range(1500):  # more pages than it has; it is used again from its beginning
        loop.wait_for_commit(store.save(exchange(number % 3)))
    assert (tmp_path / "meta.db-wal").stat().st_size == size


def test_any_error_of_the_writer_is_a_failure(
    store: SqliteMetadata, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bug(changes: Sequence[PendingChange]) -> None:
        raise ZeroDivisionError("a bug")

    loop = Handover()
    monkeypatch.setattr(store, "_commit", bug)
    loop.start(store)
    store.save_vhost("/")

    assert str(loop.wait_for_failure()).endswith("a bug")
