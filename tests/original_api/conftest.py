"""Brokers for the scenarios of the original API, and a client of each protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support import brokers
from support.brokers import Broker
from support.protocol_clients import AmqpClient, NativeClient, ProtocolClient
from support.restartable_broker import Restartable


@pytest.fixture(scope="package")
def native(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    running = brokers.start(tmp_path_factory.mktemp("original-api"), "--native-port", "0")
    yield running
    running.stop()


@pytest.fixture(params=[NativeClient, AmqpClient], ids=["native", "amqp"])
def client(request: pytest.FixtureRequest, native: Broker) -> Iterator[ProtocolClient]:
    """The same scenario through either protocol."""
    opened: ProtocolClient = request.param(native.ports)
    yield opened
    opened.tidy()
    opened.close()


@pytest.fixture
def native_client(native: Broker) -> Iterator[NativeClient]:
    opened = NativeClient(native.ports)
    yield opened
    opened.tidy()
    opened.close()


@pytest.fixture
def restartable(tmp_path: Path) -> Iterator[Restartable]:
    site = Restartable(tmp_path)
    site.start()
    yield site
    site.stop()
