"""`headrace://h1,h2`: a host that is down or hangs up is passed, whichever program has the URL."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from headrace import topics
from headrace.cli.main import main
from headrace.client import ConnectionFactory, aio
from headrace.client.errors import ConnectionClosed
from support.brokers import Broker
from support.ports import free_port
from support.tcp_proxy import TcpProxy


@pytest.fixture
def proxy(broker: Broker) -> Iterator[TcpProxy]:
    one = TcpProxy("127.0.0.1", broker.native_port).start()
    yield one
    one.stop()


@pytest.fixture(params=["down", "hangs up"])
def url(request: pytest.FixtureRequest, broker: Broker, proxy: TcpProxy) -> str:
    """Of two hosts, of which the first fails."""
    proxy.refuse()
    port = proxy.port if request.param == "hangs up" else free_port()
    return f"headrace://127.0.0.1:{port},127.0.0.1:{broker.native_port}/{quote('/', safe='')}"


def test_the_client(url: str) -> None:
    with ConnectionFactory.from_url(url).new_connection() as connection:
        channel = connection.create_channel()
        assert channel.queue_declare("", exclusive=True)


def test_the_client_with_asyncio(url: str) -> None:
    async def connect() -> None:
        async with aio.connect_url(url) as connection:
            assert await connection.create_channel()

    asyncio.run(connect())


def test_a_lost_host_is_left(broker: Broker, proxy: TcpProxy) -> None:
    hosts = f"127.0.0.1:{proxy.port},127.0.0.1:{broker.native_port}"
    with ConnectionFactory(hosts).new_connection() as connection:
        channel = connection.create_channel()
        proxy.refuse()
        proxy.cut()
        channel.queue_declare("", exclusive=True)


def test_hosts_that_are_all_down() -> None:
    where = f"127.0.0.1:{free_port()},127.0.0.1:{free_port()}"
    with pytest.raises(ConnectionClosed, match="cannot connect"):
        ConnectionFactory.from_url(f"headrace://{where}").new_connection()


def test_topics(url: str) -> None:
    with topics.open(url) as store:
        assert isinstance(store.list(), list)


def test_commands(url: str) -> None:
    assert main(["queue", "list", "--url", url]) == 0
