"""Fixtures of the AMQP conformance suite: connections, unique names, and the broker judged.

With AMQP_TEST_PORT set, the suite judges whatever listens there; RabbitMQ 3.10 passes it.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError

from support.brokers import Broker
from support.raw_amqp import Closed, RawChannel, RawClient, SocketEnded

Address = tuple[str, int]


@pytest.fixture(scope="session")
def amqp_address(broker: Broker) -> Address:
    return broker.host, broker.amqp_port


@pytest.fixture(scope="session")
def is_reference(amqp_address: Address) -> bool:
    """Whether RabbitMQ itself is judged: it is the one which runs on Erlang."""
    client = RawClient(amqp_address)
    client.start()
    client.socket.close()
    platform = client.server_properties.get("platform")
    return platform is not None and str(platform.value).startswith("Erlang")


@pytest.fixture
def headrace_only(is_reference: bool) -> None:
    if is_reference:
        pytest.skip("RabbitMQ 3.10 has no such feature, or another limit")


class _Janitor:
    """One connection for the whole session which removes what the tests have named."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._client: RawClient | None = None

    def sweep(self, names: list[str]) -> None:
        try:
            self._sweep(names)
        except (OSError, Closed, SocketEnded):
            # The last test may have taken the connection down; a fresh one shows if it is serious.
            self.close()
            self._sweep(names)

    def _sweep(self, names: list[str]) -> None:
        if self._client is None:
            self._client = RawClient(self._address).handshake()
        channel = self._client.open_channel(1)
        for name in names:
            channel.send("queue.delete", queue=name, nowait=True)
            channel.send("exchange.delete", exchange=name, nowait=True)
        channel.call("channel.close")

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


@pytest.fixture(scope="session")
def janitor(amqp_address: Address) -> Iterator[_Janitor]:
    janitor = _Janitor(amqp_address)
    yield janitor
    janitor.close()


@pytest.fixture
def name(janitor: _Janitor) -> Iterator[Callable[..., str]]:
    """Makes unique names for queues and exchanges; whatever bears them is deleted afterwards."""
    given: list[str] = []

    def make(kind: str = "queue") -> str:
        given.append(f"conformance.{kind}.{uuid4().hex[:12]}")
        return given[-1]

    yield make
    if given:
        janitor.sweep(given)


@pytest.fixture
def connect(
    amqp_address: Address, name: Callable[..., str]
) -> Iterator[Callable[..., pika.BlockingConnection]]:
    """Opens pika connections and closes them before the names are swept."""
    opened: list[pika.BlockingConnection] = []

    def open_connection(**options: Any) -> pika.BlockingConnection:  # noqa: ANN401
        host, port = amqp_address
        parameters = pika.ConnectionParameters(host, port, heartbeat=0, **options)
        opened.append(pika.BlockingConnection(parameters))
        return opened[-1]

    yield open_connection
    for connection in opened:
        if connection.is_open:
            with suppress(AMQPError):
                connection.close()


@pytest.fixture
def connection(connect: Callable[..., pika.BlockingConnection]) -> pika.BlockingConnection:
    return connect()


@pytest.fixture
def channel(connection: pika.BlockingConnection) -> BlockingChannel:
    return connection.channel()


@pytest.fixture
def raw_socket(
    amqp_address: Address, name: Callable[..., str]
) -> Iterator[Callable[..., RawClient]]:
    """Raw clients which have not said anything yet."""
    opened: list[RawClient] = []

    def open_socket(**options: Any) -> RawClient:  # noqa: ANN401
        opened.append(RawClient(amqp_address, **options))
        return opened[-1]

    yield open_socket
    for client in opened:
        client.close()


@pytest.fixture
def raw(raw_socket: Callable[..., RawClient]) -> Callable[..., RawClient]:
    """Raw clients after the handshake."""

    def open_client(**options: Any) -> RawClient:  # noqa: ANN401
        return raw_socket().handshake(**options)

    return open_client


@pytest.fixture
def raw_channel(raw: Callable[..., RawClient]) -> RawChannel:
    return raw().open_channel()


@pytest.fixture
def queue(channel: BlockingChannel, name: Callable[..., str]) -> str:
    """A plain queue."""
    queue = name()
    channel.queue_declare(queue)
    return queue
