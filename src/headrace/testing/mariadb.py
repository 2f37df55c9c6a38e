"""A MariaDB of one's own, for tests, demo and benchmarks: private directory, socket and port.

Durability is on. It is found on the PATH or in /usr/sbin, and ended by its process id. With
HEADRACE_MYSQLD set to the path of a mysqld, it is that MySQL instead.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING
from urllib.parse import quote

from headrace.errors import ConfigError
from headrace.testing.wait import wait_for

if TYPE_CHECKING:
    import pymysql

MYSQLD = "HEADRACE_MYSQLD"
MISSING = "mariadbd is not on this machine: apt-get install mariadb-server"
NO_DRIVER = "PyMySQL is not installed: pip install 'headrace[mysql]'"
USER = "tester"
PASSWORD = "sEcret:/@?"


def find_server() -> tuple[str, str | None] | None:
    """The programs that run and prepare a server; MySQL needs no second one."""
    if chosen := os.environ.get(MYSQLD):
        return chosen, None
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin"
    server = shutil.which("mariadbd", path=path)
    install = shutil.which("mariadb-install-db", path=path)
    return (server, install) if server and install else None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class MariaDb:
    """A server. ``kill`` and ``start`` again keep data, port and options."""

    directory: Path
    server: str
    options: tuple[str, ...] = ()
    port: int = field(default_factory=_free_port)
    user: str = field(default_factory=lambda: pwd.getpwuid(os.getuid()).pw_name)
    process: subprocess.Popen[bytes] | None = None
    _log: IO[bytes] | None = None

    @property
    def places(self) -> tuple[str, ...]:
        """A server that starts deletes the temporary tables of all others in the same tmpdir."""
        return f"--datadir={self.directory / 'data'}", f"--tmpdir={self.directory}"

    def start(self) -> None:
        self._log = (self.directory / "log").open("ab")
        self.process = subprocess.Popen(
            [
                self.server,
                "--no-defaults",
                *self.places,
                f"--socket={self.directory / 's'}",
                f"--pid-file={self.directory / 'pid'}",
                f"--port={self.port}",
                "--bind-address=127.0.0.1",
                f"--user={self.user}",
                "--skip-name-resolve",
                "--innodb-flush-log-at-trx-commit=1",
                "--innodb-buffer-pool-size=64M",
                "--loose-innodb-log-file-size=32M",
                "--max-connections=300",
                "--performance-schema=OFF",
                "--loose-mysqlx=OFF",  # MySQL's second port, which is not ours to take
                *self.options,
            ],
            stdout=self._log,
            stderr=self._log,
            stdin=subprocess.DEVNULL,
        )
        wait_for(self._answers, timeout=60, interval=0.02)

    def _answers(self) -> bool:
        import pymysql

        assert self.process is not None
        if self.process.poll() is not None:
            raise RuntimeError((self.directory / "log").read_text()[-3000:])
        try:
            self.connect(None).close()
        except pymysql.err.OperationalError:
            return False
        return True

    def connect(self, database: str | None) -> pymysql.connections.Connection:
        """A connection that bypasses the engine."""
        import pymysql

        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user=USER,
            password=PASSWORD,
            database=database,
            autocommit=True,
            ssl_disabled=True,
        )

    def create_database(self, name: str) -> None:
        with self.connect(None) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE `{name}`")

    def url(self, database: str, **options: object) -> str:
        query = "&".join(f"{name}={value}" for name, value in options.items())
        login = f"{USER}:{quote(PASSWORD, safe='')}"
        return f"mysql://{login}@127.0.0.1:{self.port}/{database}?{query}"

    def kill(self) -> None:
        """As a power cut does to the process."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        if self.process is not None and self.process.poll() is None:
            with suppress(ProcessLookupError):
                self.process.send_signal(number)
            self.process.wait(30)
        if self._log is not None:
            self._log.close()


def prepare(directory: Path, *options: str) -> MariaDb:
    """A running server with fresh system tables; ConfigError without MariaDB or its driver."""
    found = find_server()
    if found is None:
        raise ConfigError(MISSING)
    if find_spec("pymysql") is None:  # before a server is started
        raise ConfigError(NO_DRIVER)
    server, install = found
    database = MariaDb(directory, server, (*options, f"--init-file={directory / 'init.sql'}"))
    install_tables(database, install)
    database.start()
    return database


def install_tables(database: MariaDb, install: str | None) -> None:
    """The system tables, and init.sql, which makes the user."""
    (database.directory / "init.sql").write_text(
        f"CREATE USER IF NOT EXISTS {USER}@'%' IDENTIFIED BY '{PASSWORD}';\n"
        f"GRANT ALL ON *.* TO {USER}@'%' WITH GRANT OPTION;\n"
    )
    command = [
        install or database.server,
        "--no-defaults",
        *database.places,
        f"--user={database.user}",
    ]
    if install is None:
        command.append("--initialize-insecure")
    else:
        command += [
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            "--innodb-log-file-size=32M",
        ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise ConfigError(f"{Path(command[0]).name} failed: {result.stderr[-500:]}")


@contextmanager
def run_mariadb(*options: str) -> Iterator[MariaDb]:
    """A server in a temporary directory, for the time of a `with` block."""
    with TemporaryDirectory(prefix="headrace-mariadb-") as directory:
        running = prepare(Path(directory), *options)
        try:
            yield running
        finally:
            running.stop()
