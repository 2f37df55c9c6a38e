"""The engines that the contract of topics is run on. A new engine adds one line to ENGINES."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from headrace import topics
from headrace.store.mysql.engine import MySqlEngine
from headrace.store.topics.engine import TopicEngine
from headrace.store.topics.memory import MemoryEngine
from headrace.testing.topic_engine_contract.fixtures import fill, new_topic, subject, topic
from support.mariadb import MariaDb
from support.native_topics import NativeEngine

__all__ = ["engine", "fill", "new_topic", "subject", "topic"]


def memory(request: pytest.FixtureRequest) -> TopicEngine:
    return MemoryEngine()


def log(request: pytest.FixtureRequest) -> TopicEngine:
    broker = request.getfixturevalue("broker")
    return NativeEngine((broker.host, broker.native_port))


def threaded(request: pytest.FixtureRequest) -> TopicEngine:
    """The engine in memory, in the threads of a broker."""
    broker = request.getfixturevalue("broker")
    return NativeEngine((broker.host, broker.native_port), "memory")


def remote(request: pytest.FixtureRequest) -> TopicEngine:
    """The log engine of a broker, through the library."""
    broker = request.getfixturevalue("broker")
    return topics.open(f"headrace://guest:guest@{broker.host}:{broker.native_port}/").engine


def mysql(request: pytest.FixtureRequest) -> TopicEngine:
    return MySqlEngine(request.getfixturevalue("contract_database"))


@pytest.fixture(scope="session")
def contract_database(mariadb_server: MariaDb) -> str:
    mariadb_server.create_database("contract")
    return mariadb_server.url("contract", grace_ms=10)


EXAMPLE = Path(__file__).parents[3] / "examples" / "sqlite_engine.py"


def sqlite(request: pytest.FixtureRequest) -> TopicEngine:
    """The example of an engine of one's own."""
    spec = spec_from_file_location("sqlite_engine", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    opened: TopicEngine = module.open_engine(f"sqlite://{request.getfixturevalue('tmp_path')}/t.db")
    return opened


ENGINES: dict[str, Callable[[pytest.FixtureRequest], TopicEngine]] = {
    "memory": memory,
    "log": log,
    "threaded": threaded,
    "remote": remote,
    "mysql": mysql,
    "sqlite": sqlite,
}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[TopicEngine]:
    made = ENGINES[request.param](request)
    yield made
    made.close()
