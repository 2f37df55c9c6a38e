"""Connections which publish while the broker is short of memory are told so, and not read."""

import struct
from typing import Any

import pytest

from support.amqp_types import RawClient
from support.raw_amqp import CAPABILITIES, NothingCame

pytestmark = pytest.mark.usefixtures("headrace_only")


@pytest.fixture
def alarmed(start_broker: Any) -> tuple[str, int]:  # noqa: ANN401 - a protocol of tests/conftest.py
    """A broker to which any memory is too much."""
    broker = start_broker(env={"HEADRACE_MEMORY_HIGH_WATERMARK": "1MiB"})
    return broker.host, broker.amqp_port


def test_a_blocked_publisher_gets_the_reason_and_is_not_read(alarmed: tuple[str, int]) -> None:
    client = RawClient(alarmed).handshake()
    channel = client.open_channel()
    channel.publish("", "nobody", b"x")

    notice = client.read_method(0)
    assert (notice.name, notice.reason) == ("connection.blocked", "low on memory")
    channel.send("queue.declare", queue="", exclusive=True)
    with pytest.raises(NothingCame):
        channel.read(limit=0.3)
    client.cut()


def test_a_client_without_the_capability_gets_no_blocked_notification(
    alarmed: tuple[str, int],
) -> None:
    silent = {"capabilities": {**CAPABILITIES, "connection.blocked": False}}
    client = RawClient(alarmed).handshake(properties=silent)
    client.open_channel().publish("", "nobody", b"x")

    with pytest.raises(NothingCame):
        client.read_frame(limit=0.3)
    client.cut()


def test_connection_which_only_consumes_goes_on(alarmed: tuple[str, int]) -> None:
    client = RawClient(alarmed).handshake()
    channel = client.open_channel()
    queue = channel.call("queue.declare", queue="", exclusive=True).queue
    channel.call("basic.consume", queue=queue)

    channel.round_trip()
    client.close()


def test_a_message_that_is_not_complete_counts_as_memory(alarmed: tuple[str, int]) -> None:
    client = RawClient(alarmed).handshake()
    client.open_channel()
    header = struct.pack(">HHQH", 60, 0, 1 << 20, 0)
    client.send_method(1, "basic.publish", exchange="", routing_key="nobody")
    client.send_frame(2, 1, header)
    for _ in range(5):
        client.send_frame(3, 1, bytes(100_000))

    notice = client.read_method(0)
    assert (notice.name, notice.reason) == ("connection.blocked", "low on memory")
    client.cut()


def test_a_connection_may_create_only_a_few_queues(alarmed: tuple[str, int]) -> None:
    client = RawClient(alarmed).handshake()
    channel = client.open_channel()
    for number in range(100):  # consumers can start
        channel.call("queue.declare", queue=f"few.{number}", exclusive=True)
    channel.send("queue.declare", queue="one.too.many", exclusive=True)
    channel.send("queue.declare", queue="another", exclusive=True)

    names = [client.read_method().name for _ in range(2)]
    assert sorted(names) == ["connection.blocked", "queue.declare-ok"]
    with pytest.raises(NothingCame):
        channel.read(limit=0.3)
    client.cut()
