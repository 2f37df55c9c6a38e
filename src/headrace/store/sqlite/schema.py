"""The tables of meta.db, as the ordered steps that led to them. A released step is never edited.

``PRAGMA user_version`` is the number of steps a file has taken. Text is kept in BLOB columns:
names may hold bytes that are no UTF-8, and are compared byte by byte.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import cache
from typing import Final, NamedTuple

from headrace.store.failpoints import failpoint
from headrace.store.sqlite.checksums import row_sum

APPLICATION_ID: Final = 0x48644D44  # "HdMD": distinguishes our file from other SQLite databases


class Migration(NamedTuple):
    """One step; all of it is applied, or nothing."""

    name: str
    sql: str


def _summed(table: str, columns: str) -> str:
    """A column with the sum of each row, and the sum of all in `counters`, kept by triggers."""
    noted = f"WHERE name = '{table}'; END;"
    return f"""
        ALTER TABLE {table} ADD COLUMN sum INTEGER NOT NULL DEFAULT 0;
        UPDATE {table} SET sum = row_sum('{table}', {columns});
        INSERT INTO counters SELECT '{table}', count(*), coalesce(sum(sum), 0) FROM {table};
        CREATE TRIGGER {table}_inserted AFTER INSERT ON {table} BEGIN
            UPDATE counters SET value = value + 1, total = total + new.sum {noted}
        CREATE TRIGGER {table}_updated AFTER UPDATE OF sum ON {table} BEGIN
            UPDATE counters SET total = total + new.sum - old.sum {noted}
        CREATE TRIGGER {table}_deleted AFTER DELETE ON {table} BEGIN
            UPDATE counters SET value = value - 1, total = total - old.sum {noted}
        """


# The tables of steps 1 to 6: columns with * are the key, those with # numbers, the others bytes.
_COLUMNS: Final = {
    "vhosts": "name*",
    "exchanges": "vhost* name* kind auto_delete# internal# arguments",
    "queues": "id# uuid vhost* name* auto_delete# arguments",
    "bindings": "vhost* source* to_queue#* destination* key* arguments*",
    "topics": "vhost* name* uuid queues# created_at# settings numbers highest#",
    "parameters": "vhost* component* name* settings",
    "cursors": "topic* reader_group* token* lane#* partition#* kind floor# epoch# ranges",
    "retries": "topic* reader_group* lane#* partition#* place#* attempts# due# dead# reason",
    "pins": "vhost* query* kind* name* uuid max_bytes# updated_at# positions lost#",
    "policies": "vhost* name* pattern apply_to priority# definition",
    "users": "name* password_hash tags",
    "secrets": "user* secret",
    "permissions": "user* vhost* configure write read",
    "topic_permissions": "user* vhost* exchange* write read",
    "user_limits": "user* limits",
    "vhost_limits": "vhost* limits",
}


def _columns(table: str) -> list[tuple[str, str]]:
    """Names, and names with marks."""
    return [(one.rstrip("#*"), one) for one in _COLUMNS[table].split()]


def _create(*tables: str) -> str:
    return "".join(map(_create_table, tables))


def _create_table(table: str) -> str:
    keys = [name for name, marked in _columns(table) if "*" in marked]
    lines = [
        f"{name} {'INTEGER' if '#' in marked else 'BLOB'} NOT NULL"
        for name, marked in _columns(table)
    ]
    if len(keys) == 1:
        lines[0] += " PRIMARY KEY"  # the first column in all of them
    else:
        lines.append(f"PRIMARY KEY ({', '.join(keys)})")
    body = ",\n            ".join(lines)
    return f"""
        CREATE TABLE {table} (
            {body}
        ) WITHOUT ROWID;
        """.rstrip(" ")


MIGRATIONS: Final[tuple[Migration, ...]] = (
    Migration(
        "0001_initial",
        f"""
        PRAGMA application_id = {APPLICATION_ID};
{_create("vhosts", "exchanges", "queues", "bindings")}
        CREATE INDEX bindings_by_destination ON bindings (vhost, to_queue, destination);
{_create("policies", "users", "permissions")}
        -- What must outlive the rows it was counted from.
        CREATE TABLE counters (
            name TEXT NOT NULL PRIMARY KEY,
            value INTEGER NOT NULL
        ) WITHOUT ROWID;

        INSERT INTO counters VALUES ('highest_queue_id', 0);
        """,
    ),
    Migration(
        "0002_topic_permissions_and_limits",
        _create("topic_permissions", "user_limits", "vhost_limits") + " " * 8,
    ),
    Migration("0003_topics", _create("topics", "cursors", "retries") + " " * 8),
    Migration("0004_pins", _create("pins") + " " * 8),
    Migration("0005_parameters", _create("parameters") + " " * 8),
    Migration("0006_secrets", _create("secrets") + " " * 8),
    Migration(
        "0007_sums",
        """
        ALTER TABLE counters ADD COLUMN total INTEGER NOT NULL DEFAULT 0;
        INSERT INTO counters VALUES ('generation', 0, 0);
        UPDATE counters SET total = ~value;

        -- Rows that cannot be trusted or served, for a repair; content is a MessagePack array.
        CREATE TABLE damaged_rows (
            id INTEGER PRIMARY KEY,
            origin TEXT NOT NULL,
            reason TEXT NOT NULL,
            content BLOB NOT NULL
        );
        """
        + "".join(
            _summed(table, ", ".join(name for name, _ in _columns(table))) for table in _COLUMNS
        ),
    ),
)


def schema_version(connection: sqlite3.Connection) -> int:
    """The number of steps the file has taken."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def is_foreign(connection: sqlite3.Connection) -> bool:
    """Whether the file is a database of something else."""
    version = schema_version(connection)
    return has_foreign_id(connection) and layout(connection) != layout_of(version)


def has_foreign_id(connection: sqlite3.Connection) -> bool:
    """Whether a file with tables names another program, or is damaged there."""
    if connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID:
        return False
    return bool(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])


def layout(connection: sqlite3.Connection) -> list[tuple[object, ...]]:
    """Tables with their columns, indexes and triggers; SQLite rewrites the text of tables only."""
    return [
        *connection.execute(
            "SELECT type, name, tbl_name, iif(type = 'table', '', sql) FROM sqlite_master "
            "WHERE name NOT LIKE 'sqlite_%' ORDER BY name"
        ),
        *connection.execute(
            "SELECT tables.name, columns.* FROM sqlite_master AS tables, "
            "pragma_table_info(tables.name) AS columns WHERE tables.type = 'table' "
            "AND tables.name NOT LIKE 'sqlite_%' ORDER BY tables.name, columns.cid"
        ),
    ]


def mend(damaged: sqlite3.Connection, good: sqlite3.Connection) -> None:
    """Give tables, indexes and triggers their names and texts again; their rows are not touched."""
    damaged.execute("PRAGMA writable_schema = ON")  # does not refuse what it cannot parse
    for one in good.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"):
        damaged.execute(
            "UPDATE sqlite_master SET type = ?1, name = ?2, tbl_name = ?3, sql = ?4 "
            "WHERE (name = ?2 OR sql = ?4) AND (type, name, tbl_name, sql) <> (?1, ?2, ?3, ?4)",
            one,
        )


@cache
def layout_of(version: int) -> list[tuple[object, ...]]:
    """The layout of a file that has taken so many steps."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.create_function("row_sum", -1, row_sum)
        for step in MIGRATIONS[:version]:
            connection.executescript(step.sql)
        return layout(connection)


def migrate(
    connection: sqlite3.Connection, migrations: Sequence[Migration] = MIGRATIONS
) -> list[str]:
    """Take the steps that are missing, each in a transaction; returns their names."""
    version = schema_version(connection)
    connection.create_function("row_sum", -1, row_sum, deterministic=True)
    for number, step in enumerate(migrations[version:], version + 1):
        try:
            connection.executescript(
                f"BEGIN IMMEDIATE; {step.sql}; PRAGMA user_version = {number};"
            )
            failpoint("metadata.migrate")
            connection.execute("COMMIT")
            failpoint("metadata.migrated")
        except BaseException:
            if connection.in_transaction:
                connection.rollback()
            raise
    return [step.name for step in migrations[version:]]
