"""The steps of the schema: all of them lead to the same tables, none is ever edited."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headrace.store.api import Catalogue, ExchangeRow
from headrace.store.sqlite import SqliteMetadata, schema
from headrace.store.sqlite.schema import MIGRATIONS, Migration, migrate, schema_version

# A step that has been released stands here for ever; a new step adds a line, and a line to FILLED.
RELEASED = {
    "0001_initial": "a9f38c603fc84b1dd5bfc897448ca9d21144689d7c08c8602146976a0730d887",
}

# For each version: rows as a broker of that version left them, and what must be read from them.
FILLED: dict[int, tuple[str, Catalogue]] = {
    0: ("", Catalogue()),
    1: (
        """
        INSERT INTO vhosts VALUES (x'2f');
        INSERT INTO exchanges VALUES (x'2f', x'6578', x'746f706963', 1, 0, x'00000000');
        UPDATE counters SET value = 9 WHERE name = 'highest_queue_id';
        """,
        Catalogue(
            vhosts=["/"], exchanges=[ExchangeRow("/", "ex", "topic", True)], next_queue_id=10
        ),
    ),
}


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "meta.db", isolation_level=None)) as connection:
        yield connection


def tables(connection: sqlite3.Connection) -> list[str]:
    return [sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master ORDER BY name")]


def test_released_steps_are_unchanged() -> None:
    digests = {step.name: hashlib.sha256(step.sql.encode()).hexdigest() for step in MIGRATIONS}

    assert digests == RELEASED


def test_steps_are_numbered_in_order() -> None:
    assert [int(step.name[:4]) for step in MIGRATIONS] == list(range(1, len(MIGRATIONS) + 1))


def test_every_version_has_its_example() -> None:
    assert list(FILLED) == list(range(len(MIGRATIONS) + 1))


@pytest.mark.parametrize("version", FILLED)
def test_a_file_of_any_version_is_read(
    version: int, tmp_path: Path, connection: sqlite3.Connection
) -> None:
    rows, expected = FILLED[version]
    migrate(connection, MIGRATIONS[:version])
    connection.executescript(rows)
    connection.close()

    store = SqliteMetadata(tmp_path)
    found = store.load()
    store.close()

    assert found == expected


def test_an_empty_file_takes_all_steps(tmp_path: Path) -> None:
    (tmp_path / "meta.db").touch()
    SqliteMetadata(tmp_path).close()

    with closing(sqlite3.connect(tmp_path / "meta.db")) as connection:
        assert schema_version(connection) == len(MIGRATIONS)
        assert not schema.is_foreign(connection)


def test_only_the_missing_steps_are_taken(connection: sqlite3.Connection) -> None:
    more = (*MIGRATIONS, Migration("more", "ALTER TABLE users ADD COLUMN note BLOB"))
    assert migrate(connection) == [step.name for step in MIGRATIONS]

    assert migrate(connection, more) == ["more"]
    assert migrate(connection, more) == []
    assert schema_version(connection) == len(more)


def test_a_step_that_fails_leaves_the_file_as_it_was(connection: sqlite3.Connection) -> None:
    migrate(connection)
    before = tables(connection)
    broken = Migration("broken", "CREATE TABLE half (a); CREATE TABLE users (a)")
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, (*MIGRATIONS, broken))

    assert tables(connection) == before
    assert schema_version(connection) == len(MIGRATIONS)
    assert not connection.in_transaction
