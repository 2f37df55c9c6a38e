"""What every client test needs: the broker's address, unique names, and a proxy to cut."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from support.endpoint import Address, Names
from support.tcp_proxy import TcpProxy


@pytest.fixture(scope="session")
def amqp_address(request: pytest.FixtureRequest) -> Address:
    """Where the broker under test listens: AMQP_TEST_PORT, or the session's own broker."""
    port = os.environ.get("AMQP_TEST_PORT")
    if port:
        return Address("127.0.0.1", int(port))
    broker = request.getfixturevalue("broker")
    return Address(broker.host, broker.amqp_port)


@pytest.fixture
def names(amqp_address: Address) -> Iterator[Names]:
    names = Names()
    yield names
    if names.queues or names.exchanges:
        names.delete_all(amqp_address)


@pytest.fixture
def proxy(amqp_address: Address) -> Iterator[TcpProxy]:
    proxy = TcpProxy(*amqp_address).start()
    yield proxy
    proxy.stop()


@pytest.fixture
def proxy_address(proxy: TcpProxy) -> Address:
    return Address(proxy.host, proxy.port)


@pytest.fixture
def connection(amqp_address: Address) -> Iterator[pika.BlockingConnection]:
    """A plain pika connection, for tests of pika itself and as the observer of other clients."""
    connection = pika.BlockingConnection(pika.URLParameters(amqp_address.url))
    yield connection
    if connection.is_open:
        connection.close()


@pytest.fixture
def channel(connection: pika.BlockingConnection) -> BlockingChannel:
    return connection.channel()
