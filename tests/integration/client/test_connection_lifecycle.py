"""Opening, closing, forking: nothing is left behind, nothing hangs."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from headrace.client import (
    Channel,
    Connection,
    ConnectionClosed,
    ConnectionFactory,
    HeadraceError,
    LoginRefused,
    RequestTimeout,
)
from headrace.testing import wait_for
from support.brokers import Broker
from support.open_files import descriptors


def own_threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("headrace-")]


@pytest.fixture
def nothing_left() -> Iterator[None]:
    before = len(descriptors())
    yield
    wait_for(lambda: own_threads() == [])
    assert len(descriptors()) == before


def test_close_leaves_no_thread_and_no_socket(
    nothing_left: None, factory: ConnectionFactory
) -> None:
    for _ in range(3):
        with factory.new_connection() as connection, connection.create_channel() as channel:
            name = channel.queue_declare(exclusive=True).name
            channel.basic_consume(name, True, lambda *_: None)
            channel.basic_publish("", name, None, b"x")
        assert not connection.is_open


def test_a_refused_login_leaves_nothing_either(nothing_left: None, native: Broker) -> None:
    with pytest.raises(LoginRefused):
        ConnectionFactory(port=native.ports["native"], password="wrong").new_connection()


def test_a_port_on_which_nothing_listens(nothing_left: None) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(ConnectionClosed, match="cannot connect"):
        ConnectionFactory(port=port).new_connection()


def test_a_server_that_never_answers_is_a_timeout(nothing_left: None) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        port = silent.getsockname()[1]
        factory = ConnectionFactory(port=port, request_timeout=0.2, connect_timeout=0.2)
        with pytest.raises(RequestTimeout):
            factory.new_connection()


def test_a_peer_that_speaks_another_protocol(nothing_left: None, native: Broker) -> None:
    with pytest.raises(HeadraceError):
        ConnectionFactory(port=native.amqp_port, request_timeout=5).new_connection()


def test_an_unknown_vhost_is_an_error(nothing_left: None, native: Broker) -> None:
    with pytest.raises(HeadraceError):
        ConnectionFactory(port=native.ports["native"], vhost="nowhere").new_connection()


def test_closing_twice_and_from_a_callback(nothing_left: None, factory: ConnectionFactory) -> None:
    connection = factory.new_connection()
    channel = connection.create_channel()
    name = channel.queue_declare(exclusive=True).name
    channel.basic_consume(name, True, lambda *_: connection.close())
    channel.basic_publish("", name, None, b"x")

    wait_for(lambda: not connection.is_open)
    connection.close()
    with pytest.raises(ConnectionClosed):
        connection.create_channel()


def test_acknowledgements_are_sent_before_the_connection_closes(
    channel: Channel, factory: ConnectionFactory, queue: str
) -> None:
    channel.publish_batch([("", queue, None, b"x")] * 10)
    with factory.new_connection() as other:
        stream = other.create_channel().deliveries(queue, idle_timeout=5)
        for number, delivery in enumerate(stream, 1):
            delivery.ack()
            if number == 10:
                break

    assert channel.queue_declare(queue).messages == 0


def test_a_forked_child_is_refused_and_does_no_harm(connection: Connection, queue: str) -> None:
    channel = connection.create_channel()
    pid = os.fork()
    if pid == 0:  # the child: only its exit code tells
        try:
            channel.basic_publish("", queue, None, b"from the child")
        except ConnectionClosed:
            connection.close()
            os._exit(0)
        os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0

    assert channel.basic_publish("", queue, None, b"from the parent") == 1
    assert channel.queue_declare(queue).messages == 1


def test_a_callback_of_a_future_must_not_wait(channel: Channel, queue: str) -> None:
    caught: list[BaseException] = []
    done = threading.Event()

    def wait_in_the_wrong_place(_: object) -> None:
        try:
            channel.basic_get(queue)
        except RuntimeError as error:
            caught.append(error)
        done.set()

    future = channel.publish_async("", queue, None, b"x" * 1_000_000)
    future.add_done_callback(wait_in_the_wrong_place)
    assert done.wait(10)
    assert len(caught) <= 1  # none when the answer had come before the callback was added
