"""The database of the demonstration: started by the first chapter that needs it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from headrace.testing import mariadb

DATABASE = "demo"


def missing() -> str | None:
    """What has to be installed before there can be a server."""
    if mariadb.find_server() is None:
        return "MariaDB is not installed (apt-get install mariadb-server)"
    if find_spec("pymysql") is None:
        return "PyMySQL is not installed (pip install 'headrace[mysql]')"
    return None


class DemoDatabase:
    """A MariaDB server in a directory; leaving the `with` block stops it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._server: mariadb.MariaDb | None = None

    def __enter__(self) -> DemoDatabase:
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.stop()

    def start(self) -> None:
        self._directory.mkdir()
        self._server = mariadb.prepare(self._directory)
        self._server.create_database(DATABASE)

    @property
    def is_running(self) -> bool:
        return self._server is not None

    @property
    def url(self) -> str:
        assert self._server is not None, "start() comes first"
        return self._server.url(DATABASE, grace_ms=10)

    def query(self, sql: str) -> list[tuple[object, ...]]:
        assert self._server is not None, "start() comes first"
        with self._server.connect(DATABASE) as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())
