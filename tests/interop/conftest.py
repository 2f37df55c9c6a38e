"""Foreign clients judge the broker: fixtures that build their programs and talk to them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from support.endpoint import Address, Names
from support.foreign_program import run_scenario
from support.tcp_proxy import TcpProxy
from support.toolchain import build

Scenario = Callable[[str], object]


@pytest.fixture(scope="session")
def amqp_address(request: pytest.FixtureRequest) -> Address:
    """Where the broker under test listens: AMQP_TEST_PORT, or the session's own broker."""
    port = os.environ.get("AMQP_TEST_PORT")
    if port:
        return Address("127.0.0.1", int(port))
    broker = request.getfixturevalue("broker")
    return Address(broker.host, broker.amqp_port)


@pytest.fixture
def proxy(amqp_address: Address) -> Iterator[TcpProxy]:
    proxy = TcpProxy(*amqp_address).start()
    yield proxy
    proxy.stop()


@pytest.fixture
def names(amqp_address: Address) -> Iterator[Names]:
    names = Names()
    yield names
    names.delete_all(amqp_address)


@pytest.fixture(scope="session", params=["node", "go", "java"])
def client(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="session")
def program(client: str) -> list[str]:
    """The command of the built program, or a skip with the reason."""
    return build(client)


@pytest.fixture
def scenario(program: list[str], proxy: TcpProxy, names: Names) -> Scenario:
    """Runs a scenario through the proxy and returns what the program reported."""
    name = names.queue()
    names.queues.append(f"{name}.other")
    names.exchanges += [f"{name}.x", f"{name}.y"]
    url = f"amqp://guest:guest@{proxy.host}:{proxy.port}/%2F"
    return lambda which: run_scenario(program, which, url, name, {"cut": proxy.cut})
