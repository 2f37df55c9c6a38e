"""Connections: PyMySQL, or mysqlclient when it is installed. Both speak the same DB-API here.

Sessions are READ COMMITTED, strict, in UTC, and count the rows a statement found rather than
those it changed.
"""

from __future__ import annotations

import functools
import os
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, TypeVar

from headrace.errors import ConfigError
from headrace.retry import RetryPolicy
from headrace.store.sql.faults import Fault, FaultKind
from headrace.store.sql.url import MySqlSettings
from headrace.urls import Host

Row = tuple[Any, ...]
T = TypeVar("T")
# For statements that were refused with nothing done.
CONFLICT: Final = RetryPolicy(deadline_s=30, max_pause_s=0.5, jitter=1.0)
_FOUND_ROWS: Final = 2
_STRICT: Final = (
    "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION,NO_ZERO_DATE"
)
_LOCK_WAIT_S: Final = 3
_IDLE_IN_TRANSACTION_S: Final = 10
_IDLE_S: Final = 60  # longer than connections of a pool are believed to live without a look
_VARIABLES: Final = (
    "version", "max_allowed_packet", "auto_increment_increment", "read_only", "innodb_read_only",
    "wsrep_on", "binlog_row_image", "binlog_annotate_row_events", "tidb_txn_entry_size_limit",
)  # fmt: skip
# Of a deleted message its key, of an inserted one its columns: not both with the statement's text.
_LESS_TRAFFIC: Final = {"binlog_row_image": "MINIMAL", "binlog_annotate_row_events": "OFF"}
_TIDB_ROW: Final = 6 << 20  # unless the variable says otherwise
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")
MIN_MARIADB: Final = (10, 6)
MIN_MYSQL: Final = (8, 0)


class DbConnection:
    """One connection. Used by one thread at a time."""

    def __init__(
        self,
        settings: MySqlSettings,
        lock_wait_s: int = _LOCK_WAIT_S,
        host: Host | None = None,
        *,
        must_write: bool = False,
    ) -> None:
        """Fault when there is none; also of a server that accepts no changes, if it must."""
        self.host = host or settings.hosts[0]
        self.is_broken = False
        self.commits = 0
        self.used_at = time.monotonic()
        self._errors, self._raw = _connect(settings, self.host)
        self._cursor = self._raw.cursor()
        try:
            self._prepare(lock_wait_s, must_write=must_write)
        except Fault as fault:
            self.close()
            fault.before_commit()
            raise

    def _prepare(self, lock_wait_s: int, *, must_write: bool) -> None:
        self.run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        self.run(
            "SET SESSION sql_mode=%s, time_zone='+00:00', innodb_lock_wait_timeout=%s",
            (_STRICT, lock_wait_s),
        )
        found = self._variables(*_VARIABLES)
        self.version = found["version"]
        self.packet = int(found["max_allowed_packet"])
        if "TiDB" in self.version:  # escaped, a row may have twice its size
            row = int(found.get("tidb_txn_entry_size_limit", 0)) or _TIDB_ROW
            self.packet = min(self.packet, 2 * row)
        self.id_step = int(found["auto_increment_increment"])
        self._is_galera = found.get("wsrep_on") == "ON"
        if must_write:
            self._check_writable(found)
        self.run(_leave_no_locks(self.version))
        for name, value in _LESS_TRAFFIC.items():
            if name in found and found[name] != value:
                with suppress(Fault):  # it needs a permission, and only saves traffic
                    self.run(f"SET SESSION {name}={value}")
        if self._is_galera:  # what this process has done on another node before
            with self.synced():
                self.rows("SELECT 1 FROM DUAL")

    def _check_writable(self, found: Mapping[str, str]) -> None:
        """Fault of a replica (on Aurora it is innodb_read_only), and of a node without cluster."""
        if "ON" in (found.get("read_only"), found.get("innodb_read_only")):
            raise Fault(1290, "the server is read-only")
        if self._is_galera and self.rows("SHOW STATUS LIKE 'wsrep_ready'") != [
            ("wsrep_ready", "ON")
        ]:
            raise Fault(1047, "the node is not part of its cluster")

    def _variables(self, *names: str) -> dict[str, str]:
        """Of the server; it need not know them all."""
        chosen = ",".join(["%s"] * len(names))
        rows = self.rows(f"SHOW VARIABLES WHERE Variable_name IN ({chosen})", names)
        return {str(name): str(value) for name, value in rows}

    @property
    def own_address(self) -> str | None:
        """The address of this side; None on a Unix socket."""
        try:
            with socket.socket(fileno=os.dup(self._descriptor())) as one:
                found = one.getsockname()
        except (OSError, ValueError, AttributeError):
            return None
        return str(found[0]) if isinstance(found, tuple) else None

    def _descriptor(self) -> int:
        return int((getattr(self._raw, "_sock", None) or self._raw).fileno())

    # -- statements ------------------------------------------------------------------------------

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[Row]:
        with self._faults():
            self._cursor.execute(sql, values or None)
            return list(self._cursor.fetchall())

    def run(self, sql: str, values: Sequence[object] = ()) -> int:
        """How many rows it found or made."""
        with self._faults():
            return int(self._cursor.execute(sql, values or None))

    def insert(self, sql: str, values: Sequence[object] = ()) -> int:
        """The id of the first row it made."""
        return self.change(sql, values)[1]

    def change(self, sql: str, values: Sequence[object]) -> tuple[int, int]:
        """How many rows it found, and the number that LAST_INSERT_ID(number) has set."""
        with self._faults():
            count = self._cursor.execute(sql, values or None)
            return int(count), int(self._cursor.lastrowid or 0)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of it or nothing: rolled back when anything goes wrong."""
        is_committing = False
        try:
            self.run("BEGIN")
            yield
            is_committing = True
            self.run("COMMIT")
        except BaseException as error:
            if isinstance(error, Fault) and not is_committing:
                error.before_commit()
            if not self.is_broken:
                # One that fails leaves a connection of no use; the server rolls back then.
                with suppress(Fault):
                    self.run("ROLLBACK")
            raise
        self.commits += 1

    def repeat(self, work: Callable[[], T]) -> T:
        """Do a whole transaction, again when it was refused with nothing done."""
        return CONFLICT.run(
            work, lambda error: isinstance(error, Fault) and error.kind is FaultKind.AGAIN
        )

    @contextmanager
    def synced(self) -> Iterator[None]:
        """On a Galera cluster, statements in here see what any node has committed before them."""
        if not self._is_galera:
            yield
            return
        self.run("SET SESSION wsrep_sync_wait=7")
        try:
            yield
        finally:
            with suppress(Fault):
                self.run("SET SESSION wsrep_sync_wait=0")

    # -- life ------------------------------------------------------------------------------------

    def was_left(self) -> bool:
        """Whether the server has closed the connection, as far as this side knows: something can
        be read from it though nothing was asked."""
        try:
            poll = select.poll()
            poll.register(self._descriptor(), select.POLLIN)
            return bool(poll.poll(0))
        except (OSError, ValueError, AttributeError):
            return True

    def is_alive(self) -> bool:
        try:
            self.rows("SELECT 1")
        except Fault:
            return False
        return True

    def close(self) -> None:
        with suppress(Exception):  # it may be closed already, by either side
            self._raw.close()

    @contextmanager
    def _faults(self) -> Iterator[None]:
        self.used_at = time.monotonic()
        try:
            yield
        except self._errors as error:
            fault = _fault(error)
            # Read-only: after a failover the name leads to another server, this socket does not.
            self.is_broken = self.is_broken or fault.kind in (FaultKind.LOST, FaultKind.READ_ONLY)
            raise fault from None
        except BaseException:
            # Interrupted in the middle: the next answer would be that of this statement.
            self.is_broken = True
            raise


def _fault(error: BaseException) -> Fault:
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    text = str(error.args[1]) if len(error.args) > 1 else str(error)
    return Fault(code, text or "the connection is closed")


def _connect(settings: MySqlSettings, host: Host) -> tuple[type[Exception], Any]:
    """The errors of the driver, and its connection. Both drivers have these names."""
    is_mysqlclient = settings.driver == "mysqlclient" or (
        settings.driver == "auto" and find_spec("MySQLdb") is not None
    )
    try:
        driver = import_module("MySQLdb" if is_mysqlclient else "pymysql")
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{error.name} is not installed: pip install 'headrace[mysql]' for PyMySQL, or "
            "mysqlclient"
        ) from None
    options: dict[str, Any] = {
        "host": host[0],
        "port": host[1],
        "user": settings.user,
        "passwd" if is_mysqlclient else "password": settings.password,
        "db" if is_mysqlclient else "database": settings.database,
        "charset": "utf8mb4",
        "autocommit": True,
        "connect_timeout": max(1, settings.connect_timeout // len(settings.hosts)),
        "read_timeout": settings.timeout,
        "write_timeout": settings.timeout,
        "client_flag": _FOUND_ROWS,
    }
    if settings.unix_socket:
        options["unix_socket"] = settings.unix_socket
    if settings.ssl_ca and is_mysqlclient:
        options |= {"ssl_mode": "VERIFY_IDENTITY", "ssl": {"ca": settings.ssl_ca}}
    elif settings.ssl_ca:
        options["ssl"] = _tls(settings.ssl_ca)
    elif not is_mysqlclient and (settings.unix_socket or host[0] in _LOCAL):
        options["ssl_disabled"] = True  # otherwise TLS, when the server offers it
    try:
        return driver.MySQLError, driver.connect(**options)
    except driver.MySQLError as error:
        fault = _fault(error)
        fault.before_commit()
        raise fault from None


@functools.cache
def _tls(ca: str) -> ssl.SSLContext:
    """Made once: reading certificates takes longer than everything else of a connection."""
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise ConfigError(f"ssl_ca of the mysql:// URL cannot be read: {error}") from None


def _leave_no_locks(version: str) -> str:
    """A process that stands still in the middle of a transaction (stopped, or its machine gone
    without a word) must not keep a group's rows locked until the server's eight hours are over.
    MySQL knows only connections that do nothing, in a transaction or not."""
    if "MariaDB" in version:
        return f"SET SESSION idle_transaction_timeout={_IDLE_IN_TRANSACTION_S}"
    return f"SET SESSION wait_timeout={_IDLE_S}"


def check_version(text: str) -> None:
    """ConfigError for a server whose AUTO_INCREMENT forgets what it gave."""
    numbers = text.split("-")[0].split(".")
    found = (int(numbers[0]), int(numbers[1]))
    least = MIN_MARIADB if "MariaDB" in text else MIN_MYSQL
    if found < least:
        raise ConfigError(
            f"the server is {text}: MariaDB 10.6 or MySQL 8.0 is needed, older ones may give the "
            "ids of deleted messages again after a restart"
        )
