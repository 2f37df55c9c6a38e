"""The writer thread: few commits for many changes, and what happens when one fails."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from handover import Handover
from headrace.errors import StoreError
from headrace.store.api import ExchangeRow, QueueRow
from headrace.store.sqlite import SqliteMetadata
from headrace.store.sqlite.metadata import Change


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
        self._commit: Callable[[Sequence[Change]], None] = store._commit
        store._commit = self.commit  # type: ignore[method-assign]

    def commit(self, changes: Sequence[Change]) -> None:
        self.batches.append(len(changes))
        self.reached.set()
        assert self.opened.wait(10)
        self._commit(changes)


def fail(changes: Sequence[Change]) -> None:
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


def test_a_failed_commit_is_told_once_and_ends_everything(
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
    store._queue(Change(("INSERT INTO vhosts (name) VALUES (NULL)",), {}))
    store.save(exchange("c"))
    gate.opened.set()
    loop.wait_for_failure()
    store.close()

    assert gate.batches == [1, 3]
    assert loop.commits == [1]
    assert names(tmp_path) == ["a"]


def test_a_full_disk_keeps_what_was_committed(store: SqliteMetadata, tmp_path: Path) -> None:
    (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    loop = Handover()
    loop.start(store)
    loop.wait_for_commit(store.save(exchange("small")))
    store.save(ExchangeRow("/", "large", "direct", arguments={"x": "y" * 100_000}))

    assert "full" in str(loop.wait_for_failure())
    store.close()
    assert names(tmp_path) == ["small"]


def test_any_error_of_the_writer_is_a_failure(
    store: SqliteMetadata, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bug(changes: Sequence[Change]) -> None:
        raise ZeroDivisionError("a bug")

    loop = Handover()
    monkeypatch.setattr(store, "_commit", bug)
    loop.start(store)
    store.save_vhost("/")

    assert str(loop.wait_for_failure()).endswith("a bug")
