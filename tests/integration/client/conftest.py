"""A broker with its native door open, connections to it, names of one's own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from headrace.client import Channel, Connection, ConnectionFactory
from support import brokers
from support.brokers import Broker
from support.restartable_broker import Restartable


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker for a module."""
    running = brokers.start(tmp_path_factory.mktemp("native"), "--native-port", "0")
    yield running
    running.stop()


@pytest.fixture
def restartable(tmp_path: Path) -> Iterator[Restartable]:
    """A broker that is killed and started again on the same port and directory."""
    site = Restartable(tmp_path)
    site.start()
    yield site
    site.stop()


@pytest.fixture
def factory(native: Broker) -> ConnectionFactory:
    return ConnectionFactory(port=native.ports["native"])


@pytest.fixture
def connection(factory: ConnectionFactory) -> Iterator[Connection]:
    with factory.new_connection() as connection:
        yield connection


@pytest.fixture
def channel(connection: Connection) -> Channel:
    return connection.create_channel()


@pytest.fixture
def queue(factory: ConnectionFactory) -> Iterator[str]:
    """The name of a queue that exists while the test runs."""
    name = f"q-{uuid.uuid4().hex[:8]}"
    with ExitStack() as stack:
        channel = stack.enter_context(factory.new_connection()).create_channel()
        channel.queue_declare(name)
        yield name
        if any(row["name"] == name for row in channel.rows("queues")):
            channel.queue_delete(name)
