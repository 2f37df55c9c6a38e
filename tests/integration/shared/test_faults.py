"""What may go wrong between an owner, its cache and its database, one fault a test."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import pytest

from headrace.errors import ConfigError, StoreError
from headrace.model.shard_ownership import ShardRow
from headrace.store.api.rows import UserRow
from headrace.store.data_directory import DataDirectory
from headrace.store.shared import share
from headrace.store.shared.cache import ShardCache
from headrace.store.shared.database import Change, PutBlock, ShardDatabase, ShardSnapshot
from headrace.store.shared.metadata import SharedMetadata
from headrace.store.shared.share import Owner, ShareSettings, Standby
from headrace.store.shared.writer import ShardWriter
from headrace.store.sql.faults import Fault
from headrace.store.sql.url import parse_url
from headrace.store.sqlite.metadata import _save_change
from headrace.testing import wait_for
from support.mariadb import MariaDb
from support.storage.shard_owner import LEASE, TakeOvers

LOST = 2013


@pytest.fixture
def url(mariadb_server: MariaDb) -> str:
    name = f"faults_{uuid4().hex[:12]}"
    mariadb_server.create_database(name)
    return mariadb_server.url(name)


@pytest.fixture
def take_overs(tmp_path: Path, url: str) -> TakeOvers:
    return TakeOvers(tmp_path, url)


def settings(url: str, directory: Path, lease: float = LEASE) -> ShareSettings:
    return ShareSettings(url, "main", "a", "127.0.0.1:1", directory, lease)


class OwnerFile:
    """A file that an owner writes, and a copy of it that follows."""

    def __init__(self, tmp_path: Path, take_overs: TakeOvers) -> None:
        directory, self.files, self._writer = take_overs.next()
        self._path = directory / "log"
        self._path.write_bytes(b"")
        self.files.create("log", 0)
        self._database = take_overs.database()
        self._copies = [ShardCache(tmp_path / "follower", "main")]
        self._tmp_path = tmp_path

    def write(self, data: bytes, at: int) -> None:
        with self._path.open("r+b") as file:
            file.seek(at)
            file.write(data)
        self.files.write("log", data, at)
        self._writer.flush()
        for place in ("follower", uuid4().hex):
            copy = self._copies[0] if place == "follower" else ShardCache(
                self._tmp_path / place, "main")  # fmt: skip
            assert copy.update(self._database)
            found = (self._tmp_path / place / "log").read_bytes()
            assert found == self._path.read_bytes(), place


def test_bytes_written_over_others_replace_them(tmp_path: Path, take_overs: TakeOvers) -> None:
    """A block of the same place may be longer, and one behind it may begin inside."""
    file = OwnerFile(tmp_path, take_overs)
    file.write(b"a" * 100, 0)
    file.write(b"b" * 50, 100)
    file.write(b"c" * 20, 0)  # shorter than the block that began there
    file.write(b"d" * 60, 80)  # over the beginning of another
    file.write(b"e" * 10, 150)


def test_a_copy_of_lost_commits_is_not_mixed_with_what_came_instead(
    tmp_path: Path, take_overs: TakeOvers, mariadb_server: MariaDb, url: str
) -> None:
    _, files, owner = take_overs.next()
    (tmp_path / "n1" / "log").write_bytes(b"")
    files.create("log", 0)
    owner.flush()
    before = owner.done
    files.write("log", b"confirmed", 0)
    owner.flush()
    copy = ShardCache(tmp_path / "copy", "main")
    copy.update(take_overs.database())
    copy.save_marker()
    copy.locks.close()
    with mariadb_server.connect(parse_url(url).database) as connection:
        cursor = connection.cursor()
        cursor.execute("UPDATE hr_shard SET seq=%s", (before.seq,))
        cursor.execute("DELETE FROM hr_block")
        connection.commit()
    _, files, owner = take_overs.next()
    files.replace("log")
    for _ in range(3):
        files.write("log", b"x", 0)
        owner.flush()
    again = ShardCache(tmp_path / "copy", "main")
    with pytest.raises(StoreError, match="lost commits"):
        again.update(take_overs.database())
    assert (tmp_path / "copy" / "log").read_bytes() == b"confirmed"


def test_nothing_stays_of_a_copy_that_was_not_finished(
    tmp_path: Path, take_overs: TakeOvers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recovery would take a segment for one of the log that is none any more."""
    directory, files, owner = take_overs.next()
    copy = ShardCache(tmp_path / "copy", "main")
    for name in ("a", "b"):
        (directory / name).write_bytes(b"text")
        files.replace(name)
    owner.flush()
    read = ShardSnapshot.blocks

    def fails(self: ShardSnapshot, name: str, *args: int, **more: int) -> list[tuple[int, bytes]]:
        if name == "b":
            raise Fault(LOST, "the connection is lost")
        return read(self, name, *args, **more)

    monkeypatch.setattr(ShardSnapshot, "blocks", fails)
    with pytest.raises(Fault):
        copy.update(take_overs.database())
    monkeypatch.undo()
    files.remove("a")
    owner.flush()
    assert copy.update(take_overs.database())
    assert {one.name for one in (tmp_path / "copy").iterdir()} & {"a", "b"} == {"b"}


class FailingDatabase(ShardDatabase):
    failure: BaseException | None = None

    def commit(self, done: ShardRow, changes: Sequence[Change]) -> bool:
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        return super().commit(done, changes)


def test_no_flush_succeeds_after_one_that_failed(take_overs: TakeOvers, url: str) -> None:
    """Whatever it failed of: its bytes are not in the database, and the next ones lie behind."""
    _, _, first = take_overs.next()
    database = FailingDatabase(parse_url(url), "main", lease=LEASE)
    writer = ShardWriter(database, first.done, LEASE)
    writer.put(PutBlock("log", 1, 0, b"lost"))
    database.failure = MemoryError()
    with pytest.raises(StoreError, match="MemoryError"):
        writer.flush()
    writer.put(PutBlock("log", 1, 4, b"confirmed"))
    with pytest.raises(StoreError, match="MemoryError"):
        writer.flush()


class SilentDatabase(ShardDatabase):
    """Its answers do not come."""

    def __init__(self) -> None:
        self.answers = threading.Event()

    def commit(self, done: ShardRow, changes: Sequence[Change]) -> bool:
        self.answers.wait()
        return True


def test_an_idle_owner_notices_that_its_lease_is_over(tmp_path: Path) -> None:
    """Its own renewal is what waits for the database."""
    cache = ShardCache(tmp_path / "cache", "main")
    database = SilentDatabase()
    writer = ShardWriter(database, ShardRow(1, 1, "me"), 0.2)
    writer.committed_at -= 10  # a renewal is due
    owner = Owner(
        settings("", tmp_path, 0.2),
        writer,
        cache,
        beat=lambda report, row: None,
        leave=lambda: None,
    )
    kept: list[bool] = []
    failures: list[Exception] = []
    owner.attach(
        lambda callback: callback(), on_lease=kept.append, on_lost=failures.append,
        on_full=lambda is_full: None,
    )  # fmt: skip
    try:
        wait_for(lambda: kept == [False])
    finally:
        database.answers.set()
    wait_for(lambda: kept[:2] == [False, True])
    database.release = lambda done: True  # type: ignore[method-assign]
    owner.close()
    assert failures == []


class WillingDatabase(ShardDatabase):
    """Every commit succeeds at once."""

    def __init__(self) -> None:
        self.commits = 0

    def commit(self, done: ShardRow, changes: Sequence[Change]) -> bool:
        self.commits += 1
        return True


def test_a_node_whose_end_takes_too_long_keeps_the_lease_no_longer(tmp_path: Path) -> None:
    """It renewed the lease for ever, so that no standby could take over."""
    database = WillingDatabase()
    writer = ShardWriter(database, ShardRow(1, 1, "me"), 5)
    owner = Owner(
        settings("", tmp_path, 0.2),
        writer,
        ShardCache(tmp_path / "cache", "main"),
        beat=lambda report, row: None,
        leave=lambda: None,
    )
    writer.committed_at -= 10  # a renewal is due
    wait_for(lambda: database.commits == 1)

    owner.give_up_after(0)
    wait_for(lambda: not any(one.is_alive() for one in owner._threads))
    writer.put(PutBlock("log", 1, 0, b"of a client that is still connected"))
    with pytest.raises(StoreError, match="did not stop in time"):
        writer.flush()
    assert database.commits == 1
    database.release = lambda done: True  # type: ignore[method-assign]
    owner.close()


def test_a_directory_is_the_cache_of_one_process(tmp_path: Path) -> None:
    """Another one would clear it under its hands."""
    cache = ShardCache(tmp_path / "cache", "main")
    (tmp_path / "cache" / "meta.db").write_bytes(b"queues")
    with pytest.raises(ConfigError, match="in use"):
        ShardCache(tmp_path / "cache", "main")
    with pytest.raises(ConfigError, match="in use"):
        DataDirectory(tmp_path / "cache")
    assert (tmp_path / "cache" / "meta.db").exists()
    cache.locks.close()
    with pytest.raises(ConfigError, match="is the cache of a shard"):
        DataDirectory(tmp_path / "cache")


def test_the_lease_of_a_new_owner_began_with_the_take_over(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other standbys have watched the row since then, however long the copy took."""
    now = 1000.0
    monkeypatch.setattr("headrace.store.shared.writer.boottime", lambda: now)
    monkeypatch.setattr("headrace.store.shared.share.boottime", lambda: now)
    monkeypatch.setattr(Owner, "_keep", lambda self: None)
    monkeypatch.setattr(Owner, "_watch", lambda self: None, raising=False)
    update = ShardCache.update

    def takes_long(self: ShardCache, *args: ShardDatabase) -> bool:
        nonlocal now
        now += 2 * LEASE
        return update(self, *args)

    monkeypatch.setattr(ShardCache, "update", takes_long)
    owner = Standby(settings(url, tmp_path / "cache")).wait(threading.Event())
    assert owner is not None
    assert owner._writer.lease.is_over(now)
    owner.close()


def test_a_take_over_whose_answers_were_lost_is_recognized(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    standby = Standby(settings(url, tmp_path / "cache"))
    take_over, status = ShardDatabase.take_over, ShardDatabase.status
    left = 1

    def lossy(self: ShardDatabase, *args: object, **more: object) -> bool:
        nonlocal left
        done = take_over(self, *args, **more)  # type: ignore[arg-type]
        if left:
            left = 0
            monkeypatch.setattr(ShardDatabase, "status", unreachable)
            raise Fault(LOST, "the answer is lost")
        return done

    def unreachable(self: ShardDatabase) -> share.ShardRow:
        monkeypatch.setattr(ShardDatabase, "status", status)
        raise Fault(LOST, "there is no connection")

    monkeypatch.setattr(ShardDatabase, "take_over", lossy)
    began = threading.Event()
    owner = standby.wait(began)
    assert owner is not None
    assert owner._writer.done.epoch == 1
    owner.close()


def test_a_process_of_another_machine_is_not_taken_for_dead() -> None:
    """Machines may have the same name, and containers the same numbers."""
    ended = 4_194_305  # larger than any
    assert not share._is_dead_here(f"{socket.gethostname()}:{ended}:ab")
    name = share.process_name()
    assert share._is_dead_here(name.replace(f":{os.getpid()}:", f":{ended}:"))
    assert not share._is_dead_here(name)
    assert len(name) <= 64


def test_metadata_rolled_back_leaves_no_hole_in_what_is_shipped(take_overs: TakeOvers) -> None:
    """Its frames stay in SQLite's log, and the next ones are written over them."""
    directory, files, writer = take_overs.next()
    metadata = SharedMetadata(directory, files)
    metadata.load()
    metadata._connection.execute("PRAGMA cache_size=1")
    with pytest.raises(ZeroDivisionError), metadata._transaction():
        for number in range(200):
            change = _save_change(UserRow(f"nobody{number}", "x" * 4000))
            for statement in change.statements:
                metadata._connection.execute(statement, change.values)
        raise ZeroDivisionError
    metadata.start(lambda callback: callback(), lambda version: None, lambda error: None)
    for number in range(5):
        metadata.save(UserRow(f"user{number}", ""))
        wait_for(lambda number=number: metadata.committed == number + 1)  # type: ignore[misc]
    writer.flush()
    metadata.close()
    directory, files, _ = take_overs.next()
    again = SharedMetadata(directory, files)
    assert len(again.load().users) == 5
    again.close()


def test_a_disk_alarm_of_the_cache_ends(take_overs: TakeOvers) -> None:
    directory, files, _ = take_overs.next()
    metadata = SharedMetadata(directory, files)
    metadata.load()
    full: list[bool] = []
    metadata.start(
        lambda callback: callback(), lambda version: None, lambda error: None, full.append
    )
    metadata._set_full(True)
    metadata.save(UserRow("user", ""))
    wait_for(lambda: full == [True, False])
    metadata.close()


def test_a_standby_whose_disk_is_full_goes_on_watching(
    tmp_path: Path, take_overs: TakeOvers, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_overs.next()  # commits nothing more
    update = ShardCache.update
    looks = 0

    def full(self: ShardCache, database: ShardDatabase, taken: ShardRow | None = None) -> bool:
        nonlocal looks
        looks += 1
        if taken is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        return update(self, database, taken)

    monkeypatch.setattr(ShardCache, "update", full)
    owner = Standby(settings(url, tmp_path / "cache", 0.6)).wait(threading.Event())
    assert owner is not None
    assert looks > 1
    owner.close()


def test_only_sessions_of_its_own_database_are_ended(
    take_overs: TakeOvers, mariadb_server: MariaDb, url: str
) -> None:
    """The number in the row may be another session's since the server was restarted."""
    _, _, owner = take_overs.next()
    owner.put(PutBlock("log", 1, 0, b"text"))
    owner.flush()
    database = parse_url(url).database
    with (
        mariadb_server.connect(None) as innocent,
        mariadb_server.connect(database) as holder,
    ):
        cursor = holder.cursor()
        cursor.execute("UPDATE hr_shard SET connection=%s", (innocent.thread_id(),))
        holder.commit()
        cursor.execute("BEGIN")
        cursor.execute("UPDATE hr_shard SET address='held'")
        other = take_overs.database()
        seen = other.status().row
        with pytest.raises(Fault):
            other.take_over(seen, "new", node="b", address="", reason="a test")
        innocent.ping(reconnect=False)
        holder.rollback()


def test_a_shard_that_is_missing_is_named(take_overs: TakeOvers, url: str) -> None:
    take_overs.next()
    with pytest.raises(StoreError, match="no shard 'other'"):
        ShardDatabase(parse_url(url), "other", lease=LEASE).status()
