"""The steps of the schema: all of them lead to the same tables, none is ever edited."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headrace.store.api.metadata import Declarations
from headrace.store.api.rows import (
    CursorRow,
    ExchangeRow,
    ParameterRow,
    PinRow,
    RetryRow,
    SecretRow,
    TopicPermissionRow,
    TopicRow,
    UserLimitsRow,
    VhostLimitsRow,
)
from headrace.store.sqlite import SqliteMetadata, schema
from headrace.store.sqlite.schema import MIGRATIONS, Migration, migrate, schema_version

# A step that has been released stands here for ever; a new step adds a line, and a line to FILLED.
RELEASED = {
    "0001_initial": "a9f38c603fc84b1dd5bfc897448ca9d21144689d7c08c8602146976a0730d887",
    "0002_topic_permissions_and_limits": (
        "746f0e4e63629270c7d6e8316ed682f9852c3fbec755ed82ab4f8b017b262eb0"
    ),
    "0003_topics": "d5ef641d4a7277872e8412dc7627d2c01e9e7dec2718d9eef7c58e80ac1818ae",
    "0004_pins": "430623ab60097f4a65fe5f8bcebcb51dfe49e2f71a16bdbe8889e7eb7693e93e",
    "0005_parameters": "7e03945dbd4f9d01e3fc45a4716d384a1448f7fef41cac5b7d0b5aa45ad0fbf1",
    "0006_secrets": "4d92153e7c02b454dde4e284fde0def5ee398850d3c33e4299cdbe619103420e",
    "0007_sums": "b9c36ba18a04e187b5f4a4f1af87d0049486cef9ba6a1a76a5fcd74a26ed2ad8",
}

# For each version: rows as a broker of that version left them, and what must be read from them.
FILLED: dict[int, tuple[str, Declarations]] = {
    0: ("", Declarations()),
    1: (
        """
        INSERT INTO vhosts VALUES (x'2f');
        INSERT INTO exchanges VALUES (x'2f', x'6578', x'746f706963', 1, 0, x'00000000');
        UPDATE counters SET value = 9 WHERE name = 'highest_queue_id';
        """,
        Declarations(
            vhosts=["/"], exchanges=[ExchangeRow("/", "ex", "topic", True)], next_queue_id=10
        ),
    ),
    2: (
        """
        INSERT INTO topic_permissions VALUES (x'616e6e', x'2f', x'6578', x'5e61', x'');
        INSERT INTO user_limits VALUES (x'616e6e', x'00000007016e4900000005');
        INSERT INTO vhost_limits VALUES (x'2f', x'00000000');
        """,
        Declarations(
            topic_permissions=[TopicPermissionRow("ann", "/", "ex", "^a", "")],
            user_limits=[UserLimitsRow("ann", {"n": 5})],
            vhost_limits=[VhostLimitsRow("/", {})],
        ),
    ),
    3: (
        """
        INSERT INTO topics VALUES (x'2f', x'74', x'75', 2, 7, x'00000000', x'00000000', 4);
        INSERT INTO cursors VALUES (x'75', x'67', x'', 1, 0, x'636c61696d73', 5, 0,
                                    x'410000000a49000000074900000009');
        INSERT INTO retries VALUES (x'75', x'67', 0, 1, 3, 2, 99, 1, x'626164');
        UPDATE counters SET value = 4 WHERE name = 'highest_queue_id';
        """,
        Declarations(
            topics=[TopicRow("/", "t", "u", 2, 7, {}, {}, 4)],
            cursors=[CursorRow("u", "g", "", 1, 0, "claims", 5, 0, (7, 9))],
            retries=[RetryRow("u", "g", 0, 1, 3, 2, 99, True, "bad")],
            next_queue_id=5,
        ),
    ),
    4: (
        """
        INSERT INTO pins VALUES (x'2f', x'71', x'7175657565', x'6e', x'75', 5, 6, x'00000000', 0);
        """,
        Declarations(pins=[PinRow("/", "q", "queue", "n", "u", 5, 6, {}, False)]),
    ),
    5: (
        "INSERT INTO parameters VALUES (x'2f', x'63', x'6e', x'00000000');",
        Declarations(parameters=[ParameterRow("/", "c", "n", {})]),
    ),
    6: (
        "INSERT INTO secrets VALUES (x'616e6e', x'73');",
        Declarations(secrets=[SecretRow("ann", "s")]),
    ),
    7: (
        "INSERT INTO secrets VALUES (x'616e6e', x'73', row_sum('secrets', x'616e6e', x'73'));",
        Declarations(secrets=[SecretRow("ann", "s")]),
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
