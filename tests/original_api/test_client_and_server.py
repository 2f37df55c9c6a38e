"""Scenarios 34 to 43: a client and a server, and the two programs of the original API."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from headrace.client import ConnectionFactory, ExchangeType
from headrace.testing import wait_for
from support.brokers import Broker, _environment
from support.protocol_clients import Got, NativeClient, ProtocolClient

PROGRAMS = Path(__file__).parent


@pytest.fixture
def factory(native: Broker) -> ConnectionFactory:
    return ConnectionFactory("127.0.0.1", native.ports["native"])


def test_34_35_open_a_connection_and_a_channel(factory: ConnectionFactory) -> None:
    connection = factory.new_connection()
    channel = connection.create_channel()
    assert channel.is_open
    connection.close()
    assert not channel.is_open


def test_36_declare_and_delete_an_exchange(factory: ConnectionFactory) -> None:
    with factory.new_connection() as connection, connection.create_channel() as channel:
        channel.exchange_declare("testExchange", ExchangeType.DIRECT, durable=True)
        channel.exchange_delete("testExchange")


def test_37_declare_and_delete_a_queue(factory: ConnectionFactory) -> None:
    with factory.new_connection() as connection, connection.create_channel() as channel:
        channel.queue_declare("testQueue", durable=True)
        channel.queue_delete("testQueue")


def test_38_bind_and_unbind_without_a_key(native_client: NativeClient) -> None:
    native_client.queue("testQueue", durable=True)
    native_client.exchange("testExchange", "direct", durable=True)
    native_client.bind("testQueue", "testExchange", "testBindingKey")
    native_client.channel.queue_unbind("testQueue", "testExchange")


def test_39_direct(client: ProtocolClient) -> None:
    client.exchange("testExchange", "direct", durable=True)
    client.queue("testQueue", durable=True)
    body = bytes(range(256))
    client.publish("testExchange", "testQueue", body)

    assert client.subscribe("testQueue", auto_ack=True).wait(1)[0].body == body


def test_40_fanout_to_two_channels(native_client: NativeClient) -> None:
    native_client.exchange("testExchange", "fanout", durable=True)
    seen: list[tuple[str, bytes]] = []
    for name in ("testQueue1", "testQueue2"):
        native_client.queue(name, durable=True)
        native_client.bind(name, "testExchange", "")
        channel = native_client.connection.create_channel()
        channel.basic_consume(name, True, lambda _t, p, body: seen.append((p.queue, body)))
    native_client.publish("testExchange", "", b"hello")

    wait_for(lambda: sorted(seen) == [("testQueue1", b"hello"), ("testQueue2", b"hello")])


def test_41_topic(client: ProtocolClient) -> None:
    client.exchange("testExchange", "topic", durable=True)
    client.queue("testQueue", durable=True)
    client.bind("testQueue", "testExchange", "aaa.#")
    client.publish("testExchange", "aaa.bbb.ccc", b"hello")

    got = client.subscribe("testQueue", auto_ack=True).wait(1)
    assert got == [Got("aaa.bbb.ccc", 1, b"hello")]


class Programs:
    """Producers and consumers as programs of their own."""

    def __init__(self, port: int, directory: Path) -> None:
        self._port = port
        self._output = directory / "consumer.txt"
        self._stack = ExitStack()

    def produce(self) -> str:
        command = [sys.executable, str(PROGRAMS / "producer.py"), str(self._port)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=30, env=_environment({})
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start_consumer(self) -> None:
        command = [sys.executable, str(PROGRAMS / "consumer.py"), str(self._port)]
        with self._output.open("w") as sink:
            process = subprocess.Popen(command, stdout=sink, env=_environment({}))
        self._stack.callback(process.wait, 10)
        self._stack.callback(process.terminate)

    def consumed(self) -> str:
        return self._output.read_text()

    def stop(self) -> None:
        self._stack.close()


@pytest.fixture
def programs(native: Broker, native_client: NativeClient, tmp_path: Path) -> Iterator[Programs]:
    native_client.exchanges.append("testExchange")
    native_client.queues.append("testQueue")
    running = Programs(native.ports["native"], tmp_path)
    yield running
    running.stop()


@pytest.mark.parametrize("first", ["producer", "consumer"])
def test_42_43_whichever_program_is_started_first(programs: Programs, first: str) -> None:
    if first == "consumer":
        programs.start_consumer()
        wait_for(lambda: "waiting" in programs.consumed(), timeout=15)
    assert programs.produce() == "delivered to 1 queue\n"
    if first == "producer":
        programs.start_consumer()

    wait_for(lambda: "hello" in programs.consumed(), timeout=15)
    lines = programs.consumed().splitlines()
    assert any(line.startswith("consumer tag: ctag") for line in lines)
    assert any("routing_key='testQueue'" in line for line in lines)
