"""A MariaDB for all tests of this directory, a database for each, engines on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pymysql
import pytest

from headrace.store.mysql.engine import MySqlEngine
from headrace.store.topics.types import TopicSpec
from support.mariadb import MariaDb

_numbers = count(1)
StartEngine = Callable[..., MySqlEngine]


@pytest.fixture
def server(mariadb_server: MariaDb) -> MariaDb:
    return mariadb_server


@pytest.fixture
def database(server: MariaDb) -> Iterator[str]:
    name = f"test_{next(_numbers)}"
    server.create_database(name)
    yield name
    with server.connect(None) as connection:
        connection.cursor().execute(f"DROP DATABASE {name}")


@pytest.fixture
def start_engine(server: MariaDb, database: str) -> Iterator[StartEngine]:
    """Engines on one database: `start_engine(grace_ms=0)`."""
    engines: list[MySqlEngine] = []

    def start(**options: object) -> MySqlEngine:
        engine = MySqlEngine(server.url(database, **{"housekeeping": "off", **options}))
        engines.append(engine)
        return engine

    yield start
    for engine in engines:
        engine.close()


@pytest.fixture
def engine(start_engine: StartEngine) -> MySqlEngine:
    """An engine with a topic `t`."""
    engine = start_engine(grace_ms=20)
    engine.create(TopicSpec("t"))
    return engine


@pytest.fixture
def sql(server: MariaDb, database: str) -> Iterator[pymysql.cursors.Cursor]:
    """What anybody else could do to the database."""
    with server.connect(database) as connection, connection.cursor() as cursor:
        yield cursor
