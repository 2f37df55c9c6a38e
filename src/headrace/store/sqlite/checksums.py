"""Sums of meta.db: what makes a changed, missing or foreign row visible.

Each row has a sum over its table's name and its values. The row of a table in `counters` has how
many rows there are and what their sums add up to, kept by triggers in the same transaction. Other
rows of `counters` have the complement of their value in the place of a sum.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from zlib import crc32

import msgpack

from headrace.errors import BrokerError
from headrace.store.api.metadata import DamagedRow
from headrace.store.api.rows import Row
from headrace.store.sqlite.statements import COLUMNS, KEYS, KINDS, field_names, make_row, read_text

# ERROR: a table or column is not there.
ERRORS: Final = (sqlite3.DatabaseError, UnicodeDecodeError)
_DAMAGE: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)


def row_sum(table: str, *values: object) -> int:
    """CRC-32 of the MessagePack array of a table's name and the values of a row."""
    return crc32(msgpack.packb([table, *values]))


def is_damage(error: Exception) -> bool:
    """Whether the file is not as it was written, or a part of it cannot be read."""
    # Messages of SQLite may have bytes of the file in them.
    is_garbled = isinstance(error, UnicodeDecodeError)
    code = getattr(error, "sqlite_errorcode", 0)
    return is_garbled or code & 0xFF in _DAMAGE or code == sqlite3.SQLITE_IOERR_READ


class ChecksumScan(NamedTuple):
    """The rows of one table: values and what they mean; and those that cannot be trusted."""

    good: list[tuple[list[Any], Row | str]]
    damaged: list[DamagedRow]


def scan(connection: sqlite3.Connection, table: str) -> ChecksumScan:
    """Read a table and compare all its sums."""
    rows, damaged = _read(connection, table)
    good = []
    for *values, total in rows:
        row = decoded(table, values) if total == row_sum(table, *values) else None
        if row is not None:
            good.append((values, row))
        else:
            damaged.append(DamagedRow(table, f"{_key(table, values)} is damaged", tuple(values)))
    count, total = counters(connection).get(table, (None, 0))
    if count != len(rows):
        damaged.append(DamagedRow(table, f"{len(rows)} rows found, expected {count}"))
    elif not damaged and total != sum(row[-1] for row in rows):
        damaged.append(DamagedRow(table, "the rows are not those whose sum is noted"))
    return ChecksumScan(good, damaged)


def counters(connection: sqlite3.Connection) -> dict[str, tuple[int, int]]:
    """Value and sum of all that is counted, by name."""
    try:
        found = connection.execute("SELECT name, value, total FROM counters").fetchall()
    except ERRORS as error:
        if not is_damage(error):
            raise
        return {}
    return {name: (value, total) for name, value, total in found}


def counter(connection: sqlite3.Connection, name: str) -> int | None:
    """The value of a counter about no table; None when it is damaged."""
    value, total = counters(connection).get(name, (0, 0))
    is_sound = isinstance(value, int) and isinstance(total, int) and value == ~total
    return value if is_sound else None


def damaged_row_values(one: DamagedRow) -> dict[str, Any]:
    """The row of `damaged_rows` for a damaged row."""
    return {"origin": one.table, "reason": one.reason, "content": msgpack.packb(one.values)}


def load_damaged_rows(connection: sqlite3.Connection) -> list[DamagedRow]:
    """What was damaged when the file was opened at some time, and not accepted since."""
    try:
        found = connection.execute("SELECT origin, reason, content FROM damaged_rows ORDER BY id")
        return [
            DamagedRow(str(origin), str(reason), tuple(msgpack.unpackb(content)))
            for origin, reason, content in found
        ]
    except (*ERRORS, ValueError, TypeError) as error:
        if isinstance(error, sqlite3.DatabaseError) and not is_damage(error):
            raise
        return [DamagedRow("damaged_rows", f"the table cannot be read: {error}")]


def decoded(table: str, values: Sequence[Any]) -> Row | str | None:
    """What the values of a row mean, a vhost's being its name; None when that is nothing."""
    kind: Any = KINDS[table]
    try:
        if kind is None:
            return read_text(*values)
        row: Row = make_row(kind, dict(zip(field_names(kind), values, strict=True)))
    except (BrokerError, ValueError, TypeError):
        return None
    return row


def _key(table: str, values: Sequence[object]) -> str:
    """The row's identity, as far as it can be shown: the rest may be secret."""
    shown = (
        ascii(one.decode("utf-8", "replace") if isinstance(one, bytes) else one)
        for name, one in zip(COLUMNS[table], values, strict=True)
        if name in KEYS[table]
    )
    return " ".join(shown)


def _read(
    connection: sqlite3.Connection, table: str
) -> tuple[list[tuple[Any, ...]], list[DamagedRow]]:
    """Forwards, and where a page cannot be read, also backwards from the end."""
    columns = ", ".join(COLUMNS[table])
    found: dict[tuple[Any, ...], None] = {}
    reason = ""
    for way in ("ASC", "DESC"):
        order = ", ".join(f"{name} {way}" for name in KEYS[table])
        try:
            for row in connection.execute(f"SELECT {columns}, sum FROM {table} ORDER BY {order}"):
                found[row] = None
            break
        except ERRORS as error:
            if not is_damage(error):
                raise
            reason = f"a part of it cannot be read: {error}"
    return list(found), [DamagedRow(table, reason)] if reason else []
