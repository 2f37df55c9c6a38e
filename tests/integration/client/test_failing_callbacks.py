"""Callbacks that raise: pauses between attempts, and an end to them."""

from __future__ import annotations

import asyncio
import logging
import queue as queues
import time

import pytest

from headrace.client import BasicProperties, Channel, Connection
from headrace.client.aio import connect
from headrace.testing import wait_for
from support.brokers import Broker


def count(channel: Channel, queue: str, what: str = "messages") -> object:
    [row] = [row for row in channel.rows("queues") if row["name"] == queue]
    return row[what]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses that a test need not wait for."""
    monkeypatch.setattr("headrace.client.core.callback_failures.FIRST_PAUSE", 0.001)
    monkeypatch.setattr("headrace.client.core.callback_failures.LAST_PAUSE", 0.002)


def test_attempts_are_paused_and_the_pause_doubles(channel: Channel, queue: str) -> None:
    times: queues.SimpleQueue[float] = queues.SimpleQueue()

    def callback(consumer_tag: str, properties: BasicProperties, body: bytes) -> None:
        times.put(time.monotonic())
        raise RuntimeError("on purpose")

    channel.basic_publish("", queue, None, b"x")
    channel.basic_consume(queue, True, callback)
    first, second, third = [times.get(timeout=10) for _ in range(3)]
    assert second - first >= 0.1
    assert third - second >= 0.2


def test_other_messages_do_not_wait_for_one_that_fails(channel: Channel, queue: str) -> None:
    seen: queues.SimpleQueue[bytes] = queues.SimpleQueue()

    def callback(consumer_tag: str, properties: BasicProperties, body: bytes) -> None:
        if body == b"bad" and not properties.redelivered:
            raise RuntimeError("on purpose")
        seen.put(body)

    channel.publish_batch([("", queue, None, body) for body in (b"bad", b"1", b"2")])
    channel.basic_consume(queue, True, callback)
    assert [seen.get(timeout=10) for _ in range(3)] == [b"1", b"2", b"bad"]


@pytest.mark.usefixtures("quick")
def test_after_sixteen_attempts_the_message_is_dead_lettered(
    channel: Channel, caplog: pytest.LogCaptureFixture
) -> None:
    dead = channel.queue_declare(exclusive=True).name
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    source = channel.queue_declare(exclusive=True, arguments=arguments).name
    attempts: list[bytes] = []

    def callback(consumer_tag: str, properties: BasicProperties, body: bytes) -> None:
        attempts.append(body)
        raise RuntimeError("on purpose")

    with caplog.at_level(logging.ERROR, "headrace.client"):
        channel.basic_publish("", source, None, b"x")
        channel.basic_consume(source, True, callback)
        wait_for(lambda: count(channel, dead) == 1, timeout=20)
    assert len(attempts) == 16
    [last] = [one for one in caplog.records if "after 16 attempts" in one.getMessage()]
    assert last.exc_info is None


@pytest.mark.usefixtures("quick")
def test_without_dead_letters_the_message_is_kept(
    connection: Connection, channel: Channel, queue: str
) -> None:
    attempts: list[bytes] = []
    consumer = connection.create_channel()

    def callback(consumer_tag: str, properties: BasicProperties, body: bytes) -> None:
        attempts.append(body)
        if body == b"x":
            raise RuntimeError("on purpose")

    channel.basic_publish("", queue, None, b"x")
    consumer.basic_consume(queue, True, callback)
    wait_for(lambda: len(attempts) == 16, timeout=20)
    channel.basic_publish("", queue, None, b"y")
    wait_for(lambda: attempts[-1] == b"y")
    wait_for(lambda: count(channel, queue, "messages_unacknowledged") == 1)
    consumer.close()
    delivery = channel.basic_get(queue)
    assert delivery is not None
    assert (delivery.body, delivery.redelivered, len(attempts)) == (b"x", True, 17)


@pytest.mark.usefixtures("quick")
def test_coroutines_are_attempted_again_as_well(native: Broker, queue: str) -> None:
    async def main() -> list[bytes]:
        attempts: asyncio.Queue[bytes] = asyncio.Queue()

        async def callback(consumer_tag: str, properties: BasicProperties, body: bytes) -> None:
            attempts.put_nowait(body)
            raise RuntimeError("on purpose")

        async with connect(port=native.ports["native"]) as connection:
            channel = await connection.create_channel()
            await channel.basic_publish("", queue, None, b"x")
            await channel.basic_consume(queue, True, callback)
            seen = [await asyncio.wait_for(attempts.get(), 20) for _ in range(16)]
            await channel.basic_publish("", queue, None, b"y")
            seen.append(await asyncio.wait_for(attempts.get(), 20))
        return seen

    assert asyncio.run(main()) == [b"x"] * 16 + [b"y"]


class Work:
    """What the Java tutorial's API calls a consumer."""

    def __init__(self) -> None:
        self.seen: queues.SimpleQueue[bytes] = queues.SimpleQueue()

    def handle_delivery(self, consumer_tag: str, properties: BasicProperties, body: bytes) -> None:
        self.seen.put(body)


def test_an_object_with_handle_delivery_is_a_consumer(channel: Channel, queue: str) -> None:
    work = Work()
    channel.basic_publish("", queue, None, b"x")
    channel.basic_consume(queue, True, work)
    assert work.seen.get(timeout=10) == b"x"


def test_an_object_with_handle_delivery_is_a_consumer_on_asyncio(
    native: Broker, queue: str
) -> None:
    async def main() -> bytes:
        work = Work()
        async with connect(port=native.ports["native"]) as connection:
            channel = await connection.create_channel()
            await channel.basic_publish("", queue, None, b"x")
            await channel.basic_consume(queue, True, work)
            return await asyncio.to_thread(work.seen.get, timeout=10)

    assert asyncio.run(main()) == b"x"
