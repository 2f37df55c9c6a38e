"""A MariaDB of the demonstration's own: in its directory, on a free port, stopped at the end."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

from headrace.errors import BrokerError

USER, PASSWORD, DATABASE = "demo", "demo", "demo"
_START_SECONDS = 60.0


def find_server() -> tuple[str, str] | None:
    """The programs that run and prepare a server."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin"
    server = shutil.which("mariadbd", path=path)
    install = shutil.which("mariadb-install-db", path=path)
    return (server, install) if server and install else None


def missing() -> str | None:
    """What has to be installed before there can be a server."""
    if find_server() is None:
        return "MariaDB is not installed (apt-get install mariadb-server)"
    if find_spec("pymysql") is None:
        return "PyMySQL is not installed (pip install 'headrace[mysql]')"
    return None


class MariaDb:
    """Durable, as the broker is: a commit is on disk. The `with` block only sees to its end."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = int(probe.getsockname()[1])

    @property
    def url(self) -> str:
        return f"mysql://{USER}:{PASSWORD}@127.0.0.1:{self._port}/{DATABASE}?grace_ms=10"

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def __enter__(self) -> MariaDb:
        return self

    def start(self) -> None:
        found = find_server()
        assert found is not None, "callers look first"
        self._directory.mkdir()
        owner = f"--user={os.environ.get('USER', 'root')}"
        common = ["--no-defaults", f"--datadir={self._directory / 'data'}", owner]
        log = (self._directory / "log").open("ab")
        with log:
            subprocess.run(
                [found[1], *common, "--auth-root-authentication-method=normal", "--skip-test-db"],
                stdout=log,
                stderr=log,
                check=True,
            )
            self._process = subprocess.Popen(
                [
                    found[0],
                    *common,
                    f"--socket={self._directory / 's'}",
                    f"--port={self._port}",
                    "--bind-address=127.0.0.1",
                    "--skip-name-resolve",
                    "--innodb-buffer-pool-size=32M",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            self._prepare()
        except BaseException:
            self.stop()
            raise

    def _prepare(self) -> None:
        """Wait until it answers, then make a database and a user."""
        import pymysql

        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                connection = pymysql.connect(
                    unix_socket=str(self._directory / "s"), user="root", autocommit=True
                )
                break
            except pymysql.err.OperationalError as error:
                assert self._process is not None
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise BrokerError(f"MariaDB did not start: {error}") from None
                time.sleep(0.05)
        with connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {DATABASE}")
            cursor.execute(f"CREATE USER {USER}@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'")
            cursor.execute(f"GRANT ALL ON {DATABASE}.* TO {USER}@'127.0.0.1'")

    def query(self, sql: str) -> list[tuple[object, ...]]:
        import pymysql

        with (
            pymysql.connect(
                host="127.0.0.1", port=self._port, user=USER, password=PASSWORD, database=DATABASE
            ) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(sql)
            return list(cursor.fetchall())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
