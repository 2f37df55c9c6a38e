"""Opening meta.db: looks before it writes, so that a file it cannot use stays as it is."""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from headrace.errors import BrokerError, ConfigError, StoreError
from headrace.store.api.metadata import DamagedRow
from headrace.store.api.rows import QueueRow
from headrace.store.disk import FULL, NO_DESCRIPTOR, copy_readable, sync_directory
from headrace.store.sqlite import schema, statements
from headrace.store.sqlite.checksums import (
    ERRORS,
    counter,
    damaged_row_values,
    is_damage,
    load_damaged_rows,
    row_sum,
    scan,
)

logger = logging.getLogger(__name__)

LOST_AND_FOUND = "lost+found"
_LEAST_ROOM = 1 << 18  # bytes; its files grow by less
_BUSY_S = 10.0  # how long an operator's tool may hold the file before that is an error


def open_database(path: Path) -> sqlite3.Connection:
    """Open the file, made or brought up to date as needed, ready for a single writer.

    ConfigError when it was written by a newer version, StoreError when it cannot be used.
    """
    try:
        _make_private(path)
        if damage := _inspect(path):
            rebuild(path, damage)
        return _connect(path)
    except OSError as error:
        if error.errno == errno.EIO:
            raise store_error(path, StoreError("the disk cannot read it")) from error
        raise StoreError(f"cannot open {path}: {error}") from error
    except sqlite3.Error as error:
        raise store_error(path, error) from error


def store_error(path: Path, error: Exception) -> StoreError:
    """What happened to the file, and what can be done about it."""
    # The subclasses of DatabaseError mean locked, full, not readable and the like.
    if type(error) is not sqlite3.DatabaseError and not isinstance(error, BrokerError):
        return StoreError(f"cannot use {path}: {error}{_reason(path, error)}")
    return StoreError(
        f"{path} is damaged ({error}): check a copy of it with `headrace fsck`, or restore a "
        f"backup with `headrace restore`; a {path.name} put back by hand must not find the "
        f"{path.name}-wal of another"
    )


def _reason(path: Path, error: Exception) -> str:
    """SQLite calls a full disk an I/O error when it cannot make its -shm file."""
    if not _has_room(path):
        return "; the disk is full"
    if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_IOERR:
        return "; check the disk, or restore a backup with `headrace restore` on another one"
    return ""


def is_full(path: Path, error: sqlite3.Error) -> bool:
    """Whether a commit failed for lack of room only. A failed sync is never tried again."""
    code = getattr(error, "sqlite_errorcode", 0)
    if code in (sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC):
        return False
    is_io = code & 0xFF in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
    return code & 0xFF == sqlite3.SQLITE_FULL or (is_io and not _has_room(path))


def _has_room(path: Path) -> bool:
    """Tried, since a quota is not seen in the free space of the disk."""
    try:
        with tempfile.TemporaryFile(dir=path.parent) as file:
            os.posix_fallocate(file.fileno(), 0, _LEAST_ROOM)
    except OSError as error:
        return error.errno not in (*FULL, *NO_DESCRIPTOR)
    return True


def reserve_space(path: Path, size: int) -> bool:
    """See that the -wal file has ``size`` bytes: pages are written there, again and again from its
    beginning, so changes that make the database no larger need no more. False on a full disk."""
    try:
        fd = os.open(path.with_name(f"{path.name}-wal"), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True  # made by the first commit
    try:
        os.posix_fallocate(fd, 0, size)
    except OSError as error:
        if error.errno not in (*FULL, *NO_DESCRIPTOR):
            raise
        return False
    finally:
        os.close(fd)
    return True


def _make_private(path: Path) -> None:
    """Create the file for its owner alone; SQLite gives -wal and -shm the mode of the file."""
    if not path.parent.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        sync_directory(path.parent.parent)
    # An existing file is not opened here: closing it would drop the locks of this process on it.
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        if (found := path.with_name(name)).exists():
            found.chmod(0o600)
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        sync_directory(path.parent)


def _inspect(path: Path) -> list[str]:
    """What is wrong with pages and tables; sums are compared when rows are read."""
    # A connection that may write would, when closed, move the -wal file into the database.
    with closing(_raw_connection(f"{path.absolute().as_uri()}?mode=ro")) as connection:
        found, known = schema.schema_version(connection), len(schema.MIGRATIONS)
        if schema.is_foreign(connection):
            raise StoreError(
                f"{path} is not a database of Headrace (or its header and tables are damaged): "
                "restore a backup with `headrace restore`, or use another data directory"
            )
        if found > known:
            raise ConfigError(
                f"{path} has schema version {found}, this version of Headrace knows {known}: "
                "run the newer version, use another data directory, or restore a backup "
                "with `headrace restore` if the file is damaged"
            )
        try:
            damage = _damage(connection, found)
        except ERRORS as error:
            if not is_damage(error):
                raise
            damage = [str(error)]
        if damage and found < known:
            raise sqlite3.DatabaseError("; ".join(damage))  # its rows have no sums
        return damage


def _damage(connection: sqlite3.Connection, version: int) -> list[str]:
    checked = connection.execute("PRAGMA integrity_check(3)")
    damage = [" ".join(text.split()) for (text,) in checked if text != "ok"]
    if schema.layout(connection) != schema.layout_of(version):
        damage.append(f"its tables are not those of version {version}")
    if schema.has_foreign_id(connection):
        damage.append("its application id is damaged")
    return damage


def rebuild(path: Path, damage: Iterable[str] = ()) -> None:
    """Make the file again from what can be read, in one transaction. What cannot be trusted is
    kept aside in it, and the file as it was in lost+found."""
    uri = f"{path.absolute().as_uri()}?mode=rw"
    with (
        closing(sqlite3.connect(":memory:", isolation_level=None)) as new,
        _copied_aside(path),
    ):
        schema.migrate(new)
        with closing(_raw_connection(uri)) as old:
            schema.mend(old, new)
        with closing(_raw_connection(uri)) as old:
            _move_rows(old, new, [DamagedRow(path.name, one) for one in damage])
            new.backup(old)


def _move_rows(old: sqlite3.Connection, new: sqlite3.Connection, damaged: list[DamagedRow]) -> None:
    highest = 0
    damaged += load_damaged_rows(old)
    scans = {table: scan(old, table) for table in statements.INSERT}
    if not any(found.good for found in scans.values()):
        raise sqlite3.DatabaseError("no row can be read")
    for table, found in scans.items():
        damaged += found.damaged
        for values, row in found.good:
            new.execute(statements.INSERT[table], (*values, row_sum(table, *values)))
            highest = max(highest, _number(row))
    for name, at_least in (("highest_queue_id", highest), ("generation", 0)):
        value = counter(old, name)
        if value is None:
            damaged.append(DamagedRow("counters", f"{name} is damaged"))
        new.execute(statements.RAISE_TO, {"name": name, "value": max(value or 0, at_least)})
    for one in damaged:
        new.execute(statements.SAVE_DAMAGED, damaged_row_values(one))


def _number(row: object) -> int:
    return row.id if isinstance(row, QueueRow) else getattr(row, "highest", 0)


@contextmanager
def _copied_aside(path: Path) -> Iterator[None]:
    """For experts: a page that SQLite cannot read may have more in it than was found."""
    directory = path.parent / LOST_AND_FOUND
    directory.mkdir(mode=0o700, exist_ok=True)
    copies = []
    try:
        for suffix in ("", "-wal"):
            file = path.with_name(path.name + suffix)
            if file.exists() and file.stat().st_size:
                copies.append(directory / f"{path.name}-{time.time_ns()}{suffix}")
                copy_readable(file, copies[-1])
        yield
    except BaseException:  # the file is as it was
        for copy in copies:
            copy.unlink(missing_ok=True)
        raise


def _connect(path: Path) -> sqlite3.Connection:
    connection = _raw_connection(f"{path.absolute().as_uri()}?mode=rw")
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        new = schema.schema_version(connection) == 0
        for name in schema.migrate(connection):
            logger.log(logging.DEBUG if new else logging.INFO, "%s: applied %s", path, name)
        connection.execute("PRAGMA wal_checkpoint")  # so that the file itself has its pages
    except BaseException:
        connection.close()
        raise
    return connection


def _raw_connection(uri: str) -> sqlite3.Connection:
    """Without hidden transactions, and free to be passed to the writer thread."""
    connection = sqlite3.connect(
        uri, uri=True, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
    )
    # Only names inside the broker are text. Elsewhere it is damage, and must not end the reading.
    connection.text_factory = lambda data: data.decode("utf-8", "backslashreplace")
    return connection
