"""Opening meta.db: private files, and files that must be left alone."""

from __future__ import annotations

import re
import shutil
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from headrace.errors import ConfigError, StoreError
from headrace.store.api.metadata import Declarations
from headrace.store.api.rows import ExchangeRow, SecretRow
from headrace.store.sqlite import SqliteMetadata, database
from headrace.store.sqlite.database import store_error
from headrace.store.sqlite.schema import MIGRATIONS
from support.callback_queue import Handover


def modes(directory: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}


def loaded(directory: Path) -> Declarations:
    store = SqliteMetadata(directory)
    try:
        return store.load()
    finally:
        store.close()


def fill(directory: Path, count: int = 300) -> None:
    store = SqliteMetadata(directory)
    Handover().start(store)
    for number in range(count):
        store.save(ExchangeRow("/", f"exchange {number}", "topic"))
    store.close()


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    store, loop = SqliteMetadata(tmp_path / "new" / "data"), Handover()
    loop.start(store)
    loop.wait_for_commit(store.save_vhost("/"))

    found = modes(tmp_path / "new" / "data")
    store.close()

    assert found == {"meta.db": 0o600, "meta.db-wal": 0o600, "meta.db-shm": 0o600}
    assert modes(tmp_path / "new")["data"] == 0o700


def test_files_that_others_could_read_are_made_private(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "meta.db").chmod(0o644)
    SqliteMetadata(tmp_path).close()

    assert modes(tmp_path) == {"meta.db": 0o600}


def test_a_closed_store_is_a_single_file_in_wal_mode(tmp_path: Path) -> None:
    fill(tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["meta.db"]
    with closing(sqlite3.connect(tmp_path / "meta.db")) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_commits_are_synced(tmp_path: Path) -> None:
    store = SqliteMetadata(tmp_path)
    (synchronous,) = store._connection.execute("PRAGMA synchronous").fetchone()
    store.close()

    assert synchronous == 2  # FULL


def test_a_directory_name_may_hold_anything(tmp_path: Path) -> None:
    directory = tmp_path / "50% of what? #1 'größer'"
    fill(directory, 1)

    assert (directory / "meta.db").exists()


# -- files that cannot be used --------------------------------------------------------------------


def test_a_newer_version_is_refused_and_nothing_is_changed(tmp_path: Path) -> None:
    fill(tmp_path / "made")
    known = len(MIGRATIONS)
    with closing(sqlite3.connect(tmp_path / "made" / "meta.db")) as connection:
        connection.execute(f"PRAGMA user_version = {known + 1}")
        # Taken while it is open: the version is in the -wal file only, as after a crash.
        (tmp_path / "data").mkdir()
        for name in ("meta.db", "meta.db-wal"):
            shutil.copy(tmp_path / "made" / name, tmp_path / "data" / name)
    before = [(tmp_path / "data" / name).read_bytes() for name in ("meta.db", "meta.db-wal")]

    with pytest.raises(
        ConfigError, match=rf"meta\.db has schema version {known + 1}.* knows {known}"
    ):
        SqliteMetadata(tmp_path / "data")

    assert before[1]
    after = [(tmp_path / "data" / name).read_bytes() for name in ("meta.db", "meta.db-wal")]
    assert after == before


def not_a_database(path: Path) -> None:
    path.write_bytes(b"these are not the bytes you are looking for" * 100)


def too_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-4096])


def a_page_overwritten(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-4096:] = b"\xa5" * 4096
    path.write_bytes(content)


def two_rows_in_one_place(path: Path) -> None:
    """Every page can be read: only the check of the whole file notices."""
    content = bytearray(path.read_bytes())
    cells = len(content) - 4096 + 8  # behind the header of the last page: where its rows are
    content[cells : cells + 2] = content[cells + 2 : cells + 4]
    path.write_bytes(content)


def the_header_torn(path: Path) -> None:
    path.write_bytes(bytes(512) + path.read_bytes()[512:])


@pytest.mark.parametrize("damage", [not_a_database, too_short, the_header_torn])
def test_a_damaged_file_is_reported_and_left_alone(
    damage: Callable[[Path], None], tmp_path: Path
) -> None:
    fill(tmp_path)
    path = tmp_path / "meta.db"
    damage(path)
    before = path.read_bytes()

    with pytest.raises(StoreError, match=r"meta\.db is damaged \(.*fsck.*restore"):
        SqliteMetadata(tmp_path)

    assert path.read_bytes() == before


@pytest.mark.parametrize("damage", [a_page_overwritten, two_rows_in_one_place])
def test_what_can_be_read_of_a_damaged_file_is_served(
    damage: Callable[[Path], None], tmp_path: Path
) -> None:
    fill(tmp_path)
    path = tmp_path / "meta.db"
    damage(path)
    before = path.read_bytes()

    found = loaded(tmp_path)

    names = {row.name for row in found.exchanges}
    assert 100 < len(names) < 300
    assert any(re.search("^table exchanges: .* expected 300", str(one)) for one in found.damaged)
    (copy,) = (tmp_path / "lost+found").iterdir()
    assert copy.read_bytes() == before
    assert loaded(tmp_path) == found  # reported until it is accepted
    assert len(list((tmp_path / "lost+found").iterdir())) == 1


def test_a_damaged_application_id_is_no_other_program(tmp_path: Path) -> None:
    fill(tmp_path)
    edit(tmp_path, "PRAGMA application_id = 1")

    found = loaded(tmp_path)

    assert len(found.exchanges) == 300
    assert "its application id is damaged" in "".join(map(str, found.damaged))


def edit(directory: Path, sql: str) -> None:
    with closing(sqlite3.connect(directory / "meta.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(sql)


EXCHANGE_7 = "WHERE name = CAST('exchange 7' AS BLOB)"


@pytest.mark.parametrize(
    ("sql", "lost"),
    [
        (f"UPDATE exchanges SET arguments = x'000000ff' {EXCHANGE_7}", "'exchange 7' is damaged"),
        (f"UPDATE exchanges SET kind = CAST('fanout' AS BLOB) {EXCHANGE_7}", "'exchange 7' is"),
        (f"UPDATE exchanges SET name = CAST('zzz' AS BLOB) {EXCHANGE_7}", "'zzz' is damaged"),
        (f"UPDATE exchanges SET name = CAST(name AS TEXT) {EXCHANGE_7}", "'exchange 7' is"),
        (f"UPDATE exchanges SET sum = sum + 1 {EXCHANGE_7}", "'exchange 7' is damaged"),
        (
            "UPDATE counters SET value = 299 WHERE name = 'exchanges'",
            "300 rows found, expected 299",
        ),
        ("UPDATE counters SET total = total + 1 WHERE name = 'exchanges'", "whose sum is noted"),
        ("DELETE FROM counters WHERE name = 'exchanges'", "300 rows found, expected None"),
        ("UPDATE counters SET value = 4 WHERE name = 'generation'", "generation is damaged"),
        ("UPDATE counters SET value = 4 WHERE name = 'highest_queue_id'", "highest_queue_id is"),
        (
            "UPDATE sqlite_master SET sql = replace(sql, 'kind', 'kina')",
            "not those of version",
        ),
        ("DROP INDEX bindings_by_destination", "not those of version"),
        ("DROP TRIGGER exchanges_deleted", "not those of version"),
    ],
)
def test_whatever_was_changed_without_its_sum_is_reported(
    tmp_path: Path, sql: str, lost: str
) -> None:
    fill(tmp_path)
    edit(tmp_path, sql)

    found = loaded(tmp_path)

    assert lost in str(found.damaged[-1])
    is_row = "is damaged" in lost or lost.startswith("'")
    assert len(found.exchanges) == 300 - (is_row and "_" not in lost and "gen" not in lost)
    store = SqliteMetadata(tmp_path)
    Handover().start(store)
    store.save(ExchangeRow("/", "later", "topic"))
    store.close()
    assert loaded(tmp_path).damaged == found.damaged


def test_a_deleted_row_is_missed(tmp_path: Path) -> None:
    fill(tmp_path)
    edit(tmp_path, "DROP TRIGGER IF EXISTS exchanges_deleted")
    edit(tmp_path, f"DELETE FROM exchanges {EXCHANGE_7}")

    assert "299 rows found, expected 300" in "".join(map(str, loaded(tmp_path).damaged))


def test_secrets_are_not_shown_when_they_are_damaged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqliteMetadata(tmp_path)
    Handover().start(store)
    store.save_vhost("/")
    store.save(SecretRow("ann", "s3cret-s3cret"))
    store.close()
    edit(tmp_path, "UPDATE secrets SET sum = 0")

    (damaged,) = loaded(tmp_path).damaged

    assert str(damaged) == "table secrets: 'ann' is damaged"
    assert "s3cret" not in caplog.text + repr(damaged)
    assert b"s3cret-s3cret" in damaged.values


def test_every_commit_raises_the_generation(tmp_path: Path) -> None:
    store, loop = SqliteMetadata(tmp_path), Handover()
    before = store.load().generation
    loop.start(store)
    for _ in range(3):
        loop.wait_for_commit(store.save(ExchangeRow("/", "e", "topic")))
    assert store.generation == before + 3
    store.close()

    assert loaded(tmp_path).generation == before + 3


def test_the_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "meta.db", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE recipes (name)")
    before = (tmp_path / "meta.db").read_bytes()

    with pytest.raises(StoreError, match="not a database of Headrace"):
        SqliteMetadata(tmp_path)

    assert (tmp_path / "meta.db").read_bytes() == before


def test_a_path_that_is_no_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "meta.db").mkdir()
    with pytest.raises(StoreError, match=r"cannot use .*meta\.db"):
        SqliteMetadata(tmp_path)

    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot open .*meta\.db"):
        SqliteMetadata(tmp_path / "file")


def test_a_file_locked_by_another_is_reported_and_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_BUSY_S", 0.01)
    fill(tmp_path)
    with closing(sqlite3.connect(tmp_path / "meta.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match=r"cannot use .*meta\.db: database is locked"):
            SqliteMetadata(tmp_path)


def test_a_crash_before_the_first_step_leaves_a_file_that_can_be_used(tmp_path: Path) -> None:
    (tmp_path / "meta.db").touch(0o600)
    store = SqliteMetadata(tmp_path)

    assert store.load() == Declarations()
    store.close()


def test_a_full_disk_is_called_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    assert str(store_error(tmp_path / "meta.db", error)).endswith("disk I/O error")

    monkeypatch.setattr(database, "_has_room", lambda path: False)
    told = str(store_error(tmp_path / "meta.db", error))
    assert told == f"cannot use {tmp_path / 'meta.db'}: disk I/O error; the disk is full"
