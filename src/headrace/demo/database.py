"""The database of the demonstration: started by the first chapter that needs it."""

from __future__ import annotations

from contextlib import ExitStack
from importlib.util import find_spec

from headrace.testing import mariadb

DATABASE = "demo"


def missing() -> str | None:
    """What has to be installed before there can be a server."""
    if mariadb.find_server() is None:
        return "MariaDB is not installed (apt-get install mariadb-server)"
    if find_spec("pymysql") is None:
        return "PyMySQL is not installed (pip install 'headrace[mysql]')"
    return None


class DemoDatabase(ExitStack):
    """A MariaDB server; leaving the `with` block stops it."""

    _server: mariadb.MariaDb | None = None

    def start(self) -> None:
        self._server = self.enter_context(mariadb.run_mariadb())
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
