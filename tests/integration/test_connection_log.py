"""What the log says of connections: who came, and how each of them ended."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from headrace.client import ConnectionFactory
from headrace.testing import wait_for
from support import brokers
from support.brokers import Broker


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Broker]:
    running = brokers.start(tmp_path)
    yield running
    running.stop()


def lines(broker: Broker, words: str) -> list[str]:
    return [line for line in broker.log().splitlines() if words in line]


def test_a_closed_connection_is_logged_with_its_name(own: Broker) -> None:
    parameters = pika.URLParameters(own.url)
    parameters.client_properties = {"connection_name": "web shop"}
    pika.BlockingConnection(parameters).close()

    wait_for(lambda: lines(own, "closed by the client"))
    assert len(lines(own, "opened: user 'guest', vhost '/', client 'web shop'")) == 1


def test_a_client_without_a_name_is_shown_by_its_product(own: Broker) -> None:
    pika.BlockingConnection(pika.URLParameters(own.url)).close()
    assert len(lines(own, "client 'Pika Python Client Library")) == 1


def test_a_connection_lost_without_close_is_logged_as_a_warning(own: Broker) -> None:
    dying = (
        "import os, pika;"
        f"kept = pika.BlockingConnection(pika.URLParameters({own.url!r}));"
        "os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", dying], check=True, timeout=30)

    [line] = wait_for(lambda: lines(own, "lost without a close"))
    assert "WARNING" in line
    assert not lines(own, "closed by the client")


def test_the_end_of_a_native_connection_is_logged(own: Broker) -> None:
    factory = ConnectionFactory(host=own.host, port=own.native_port)
    factory.new_connection().close()
    [line] = wait_for(lambda: lines(own, "closed by the client"))
    assert "INFO" in line
