"""Commits of a shard's owner: lost answers, a new owner, a database that went back."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from uuid import uuid4

import pytest

from headrace.errors import ConfigError
from headrace.model.shard_ownership import ShardRow
from headrace.store.shared.cache import LABEL, MARKER, ShardCache
from headrace.store.shared.database import Change, PutBlock, PutFile, ShardDatabase
from headrace.store.shared.writer import BLOCK, COMMIT_SIZE, ShardLost, ShardWriter
from headrace.store.sql.faults import Fault
from headrace.store.sql.url import parse_url
from support.mariadb import MariaDb
from support.storage.shard_owner import LEASE, TakeOvers

LOST = 2013
TABLES = ("hr_shard", "hr_epoch", "hr_file", "hr_block")


@pytest.fixture
def database_name(mariadb_server: MariaDb) -> str:
    name = f"commits_{uuid4().hex[:12]}"
    mariadb_server.create_database(name)
    return name


@pytest.fixture
def take_overs(tmp_path: Path, mariadb_server: MariaDb, database_name: str) -> TakeOvers:
    return TakeOvers(tmp_path, mariadb_server.url(database_name))


class Restorable:
    """A database that can be put back to an earlier moment."""

    def __init__(self, server: MariaDb, name: str) -> None:
        self._server, self._name = server, name

    def _run(self, *statements: str) -> None:
        connection = self._server.connect(self._name)
        with connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            connection.commit()

    def save(self) -> None:
        self._run(*(f"CREATE TABLE old_{one} AS SELECT * FROM {one}" for one in TABLES))

    def go_back(self) -> None:
        self._run(*(f"DELETE FROM {one}" for one in TABLES),
                  *(f"INSERT INTO {one} SELECT * FROM old_{one}" for one in TABLES))  # fmt: skip


@pytest.fixture
def restorable(mariadb_server: MariaDb, database_name: str) -> Restorable:
    return Restorable(mariadb_server, database_name)


def put(writer: ShardWriter, text: bytes, at: int = 0) -> None:
    writer.put(PutBlock("log", 1, at, text))


def contents(take_overs: TakeOvers) -> bytes:
    with take_overs.database().snapshot() as snapshot:
        assert snapshot is not None
        found = bytearray()
        for at, data in snapshot.blocks("log", 1, since=-1):
            found[at : at + len(data)] = data
        return bytes(found)


class LossyDatabase(ShardDatabase):
    """Loses every other answer, after the commit or before it."""

    calls = 0

    def commit(self, done: ShardRow, changes: Sequence[Change]) -> bool:
        self.calls += 1
        if self.calls % 4 == 1:
            super().commit(done, changes)
            raise Fault(LOST, "the answer is lost")
        if self.calls % 4 == 3:
            raise Fault(LOST, "the commit is lost")
        return super().commit(done, changes)


def test_lost_answers_neither_lose_nor_repeat_a_commit(
    tmp_path: Path, take_overs: TakeOvers, mariadb_server: MariaDb, database_name: str
) -> None:
    _, _, first = take_overs.next()
    settings = parse_url(mariadb_server.url(database_name))
    writer = ShardWriter(LossyDatabase(settings, "main", lease=LEASE), first.done, LEASE)
    writer.put(PutFile("log", 1, 0))
    text = b""
    for number in range(20):
        put(writer, piece := b"%d;" % number, len(text))
        writer.flush()
        text += piece
        assert contents(take_overs) == text
    assert take_overs.database().status().row == writer.done
    assert writer.done.seq == first.done.seq + 20


def test_a_replaced_owner_commits_nothing_more(take_overs: TakeOvers) -> None:
    _, _, old = take_overs.next()
    put(old, b"old")
    old.flush()
    _, _, new = take_overs.next()
    put(old, b"zombie")
    for _ in range(2):
        with pytest.raises(ShardLost, match="another node"):
            old.flush()
    put(new, b"new")
    new.flush()
    assert contents(take_overs) == b"new"


def test_an_owner_stops_when_the_database_went_back(
    take_overs: TakeOvers, restorable: Restorable
) -> None:
    _, _, owner = take_overs.next()
    put(owner, b"one")
    owner.flush()
    restorable.save()
    put(owner, b"two", 3)
    owner.flush()
    restorable.go_back()
    put(owner, b"three", 6)
    kept: list[bool] = []
    owner.on_went_back = lambda: kept.append(True)
    with pytest.raises(ShardLost, match="went back"):
        owner.flush()
    assert contents(take_overs) == b"one"
    assert kept == [True]


def test_an_owner_sees_that_it_was_replaced_from_an_older_state(
    take_overs: TakeOvers, restorable: Restorable
) -> None:
    _, _, owner = take_overs.next()
    restorable.save()
    put(owner, b"confirmed")
    owner.flush()
    restorable.go_back()
    take_overs.next()  # knows nothing of it
    put(owner, b"more")
    with pytest.raises(ShardLost, match="went back"):
        owner.flush()


def test_large_writes_are_divided(take_overs: TakeOvers) -> None:
    _, _, owner = take_overs.next()
    before = owner.done.seq
    data = bytes(range(256)) * (3 * COMMIT_SIZE // 256)
    put(owner, data)
    owner.flush()
    assert owner.done.seq == before + 3
    assert contents(take_overs) == data


def test_a_flush_waits_for_the_one_that_carries_its_bytes(take_overs: TakeOvers) -> None:
    _, _, owner = take_overs.next()
    writers = [
        threading.Thread(target=_put_and_flush, args=(owner, number, take_overs))
        for number in range(8)
    ]
    for one in writers:
        one.start()
    for one in writers:
        one.join()
    assert len(contents(take_overs)) == 80
    assert FAILED == []


FAILED: list[int] = []


def _put_and_flush(owner: ShardWriter, number: int, take_overs: TakeOvers) -> None:
    put(owner, b"%10d" % number, number * 10)
    owner.flush()
    if b"%10d" % number not in contents(take_overs):
        FAILED.append(number)


# -- the cache ------------------------------------------------------------------------------------


def test_a_copy_follows_commits_and_replaced_files(tmp_path: Path, take_overs: TakeOvers) -> None:
    directory, files, owner = take_overs.next()
    copy = ShardCache(tmp_path / "copy", "main")

    def check() -> None:
        owner.flush()
        assert copy.update(take_overs.database())
        names = {one.relative_to(directory) for one in directory.rglob("*")
                 if one.is_file() and one.name not in (LABEL, "lock")}  # fmt: skip
        for name in names:
            assert (tmp_path / "copy" / name).read_bytes() == (directory / name).read_bytes()
        assert set(copy.files) == {str(name) for name in names}

    for name, text in [("a", b"first"), ("b", b"x" * (BLOCK + 7)), ("a", b"2nd"), ("c", b"")]:
        (directory / name).write_bytes(text)
        files.replace(name)
        check()
    (directory / "b").unlink()
    files.remove("b")
    check()


def test_a_copy_without_a_marker_of_this_boot_is_thrown_away(
    tmp_path: Path, take_overs: TakeOvers
) -> None:
    directory, files, owner = take_overs.next()
    (directory / "a").write_bytes(b"text")
    files.replace("a")
    owner.flush()
    copy = ShardCache(tmp_path / "copy", "main")
    copy.update(take_overs.database())
    copy.save_marker()
    copy.locks.close()
    again = ShardCache(tmp_path / "copy", "main")
    assert again.row == owner.done
    again.locks.close()

    marker = tmp_path / "copy" / MARKER
    marker.write_text(marker.read_text().replace('"boot": "', '"boot": "other-'))
    again = ShardCache(tmp_path / "copy", "main")
    assert (again.row.seq, (tmp_path / "copy" / "a").exists()) == (-1, False)
    assert again.update(take_overs.database())
    assert (tmp_path / "copy" / "a").read_bytes() == b"text"


def test_only_a_cache_is_cleared(tmp_path: Path) -> None:
    """Not the data directory of a broker, nor what is left when the database lost commits."""
    directory = tmp_path / "data"
    (directory / "journal").mkdir(parents=True)
    (directory / "meta.db").write_bytes(b"queues")
    with pytest.raises(ConfigError, match="not the cache of a shard"):
        ShardCache(directory, "main")
    assert (directory / "meta.db").exists()

    cache = ShardCache(tmp_path / "cache", "main")
    (tmp_path / "cache" / "meta.db").write_bytes(b"queues")
    cache.locks.close()
    with pytest.raises(ConfigError, match="cache of shard 'main'"):
        ShardCache(tmp_path / "cache", "other")
    cache.remove_label()
    with pytest.raises(ConfigError, match="not the cache of a shard"):
        ShardCache(tmp_path / "cache", "main")
    assert (tmp_path / "cache" / "meta.db").exists()


def test_a_lease_counts_from_the_first_attempt(
    take_overs: TakeOvers,
    mariadb_server: MariaDb,
    database_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The attempt whose answer was lost may be the one that a standby has seen."""
    _, _, first = take_overs.next()
    settings = parse_url(mariadb_server.url(database_name))
    ticks = count(1000.0, 100.0)  # each look at the clock is much later
    monkeypatch.setattr("headrace.store.shared.writer.boottime", lambda: next(ticks))
    writer = ShardWriter(LossyDatabase(settings, "main", lease=LEASE), first.done, LEASE)
    before = next(ticks)
    put(writer, b"text")
    writer.flush()  # its first answer is lost
    assert writer.lease.is_over(before + 100.0 + LEASE)


def test_an_owner_has_no_marker_while_it_writes(take_overs: TakeOvers) -> None:
    directory, _, _ = take_overs.next()
    assert not (directory / MARKER).exists()
