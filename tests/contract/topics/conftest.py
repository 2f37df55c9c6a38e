"""The engines that the contract of topics is run on. A new engine adds one line to ENGINES."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from headrace import topics
from headrace.errors import NoSuchTopic
from headrace.model.topics.message_priority import Priority
from headrace.store.mysql.engine import MySqlEngine
from headrace.store.topics.engine import TopicEngine
from headrace.store.topics.memory import MemoryEngine
from headrace.store.topics.types import Entry, TopicSpec
from support.mariadb import MariaDb
from support.native_topics import NativeEngine


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


ENGINES: dict[str, Callable[[pytest.FixtureRequest], TopicEngine]] = {
    "memory": memory,
    "log": log,
    "threaded": threaded,
    "remote": remote,
    "mysql": mysql,
}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[TopicEngine]:
    made = ENGINES[request.param](request)
    yield made
    made.close()


@pytest.fixture
def new_topic(engine: TopicEngine) -> Iterator[Callable[..., str]]:
    """Topics that are deleted in the end: `new_topic(queues=4)`."""
    made: list[str] = []

    def new_topic(**named: object) -> str:
        name = f"t_{uuid4().hex[:12]}"
        engine.create(TopicSpec(name, **named))  # type: ignore[arg-type]
        made.append(name)
        return name

    yield new_topic
    for name in made:
        try:
            engine.delete(name)
        except NoSuchTopic:
            pass


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    """A topic with one queue."""
    return new_topic()


Fill = Callable[..., list[int]]


@pytest.fixture
def fill(engine: TopicEngine, topic: str) -> Fill:
    """Append bodies to a priority: `fill("a", "b", priority=Priority.HIGH)`."""

    def fill(*bodies: str, priority: Priority = Priority.MIDDLE) -> list[int]:
        return engine.append(topic, [Entry(body.encode(), priority) for body in bodies])

    return fill
