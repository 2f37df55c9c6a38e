"""Direct reply-to with the native client: answers without a queue, also across protocols."""

from __future__ import annotations

import asyncio
import queue as queues
from collections.abc import Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from headrace.client import (
    REPLY_TO,
    BasicProperties,
    Channel,
    Connection,
    ConnectionFactory,
    NotFound,
    PreconditionFailed,
)
from headrace.client.aio import connect
from headrace.testing import wait_for
from support.brokers import Broker
from support.restartable_broker import Restartable

Answers = queues.SimpleQueue[tuple[str | None, bytes]]


@pytest.fixture
def server(connection: Connection, queue: str) -> Channel:
    """Doubles whatever it is asked in the queue."""
    channel = connection.create_channel()

    def answer(consumer_tag: str, request: BasicProperties, body: bytes) -> None:
        properties = {"correlation_id": request.correlation_id}
        channel.basic_publish("", request.reply_to or "", properties, body * 2)

    channel.basic_consume(queue, True, answer)
    return channel


@pytest.fixture
def pika_channel(native: Broker) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(native.url))
    yield connection.channel()
    connection.close()


def listen(channel: Channel) -> Answers:
    answers: Answers = queues.SimpleQueue()
    channel.basic_consume(
        REPLY_TO,
        True,
        lambda _tag, properties, body: answers.put((properties.correlation_id, body)),
    )
    return answers


def ask(channel: Channel, queue: str, number: int) -> None:
    properties = {"reply_to": REPLY_TO, "correlation_id": f"c{number}"}
    channel.basic_publish("", queue, properties, b"%d" % number)


def test_answers_come_to_the_channel_that_asked(
    connection: Connection, channel: Channel, queue: str, server: Channel
) -> None:
    other = connection.create_channel()
    mine, others = listen(channel), listen(other)
    for number in range(100):
        ask(channel if number % 2 else other, queue, number)

    assert [mine.get(timeout=10) for _ in range(50)] == [
        (f"c{number}", b"%d" % number * 2) for number in range(1, 100, 2)
    ]
    assert [others.get(timeout=10) for _ in range(50)] == [
        (f"c{number}", b"%d" % number * 2) for number in range(0, 100, 2)
    ]
    wait_for(lambda: not channel.state.unsettled.outstanding)


def test_answers_do_not_disturb_acknowledgements(
    channel: Channel, queue: str, server: Channel
) -> None:
    """Tags of answers lie between those of messages, and only the latter are acknowledged."""
    answers = listen(channel)
    jobs = channel.queue_declare(exclusive=True).name
    held = []
    for number in range(5):
        channel.basic_publish("", jobs, None, b"%d" % number)
        held.append(channel.basic_get(jobs))
        ask(channel, queue, number)
        answers.get(timeout=10)
    for one in held:
        assert one is not None
        one.ack()
    channel.basic_nack(tag=0, multiple=True)  # there is nothing left to give back
    assert channel.basic_get(jobs) is None


def test_a_pika_client_is_answered_by_a_native_server(
    pika_channel: BlockingChannel, queue: str, server: Channel
) -> None:
    found: list[tuple[str | None, bytes]] = []
    pika_channel.basic_consume(
        REPLY_TO,
        lambda _channel, _method, properties, body: found.append((properties.correlation_id, body)),
        auto_ack=True,
    )
    properties = pika.BasicProperties(reply_to=REPLY_TO, correlation_id="p")
    pika_channel.basic_publish("", queue, b"21", properties)
    wait_for(lambda: pika_channel.connection.process_data_events(time_limit=0.1) or found)
    assert found == [("p", b"2121")]


def test_a_native_client_is_answered_by_a_pika_server(
    channel: Channel, queue: str, pika_channel: BlockingChannel
) -> None:
    answers = listen(channel)
    ask(channel, queue, 7)
    method, request, body = pika_channel.basic_get(queue, auto_ack=True)
    assert method is not None
    assert request.reply_to.startswith(REPLY_TO + ".")
    properties = pika.BasicProperties(correlation_id=request.correlation_id)
    pika_channel.basic_publish("", request.reply_to, body + b"!", properties)
    assert answers.get(timeout=10) == ("c7", b"7!")


def test_rules(connection: Connection, channel: Channel, queue: str) -> None:
    with pytest.raises(PreconditionFailed, match="fast reply consumer does not exist"):
        ask(channel, queue, 1)
    tag = channel.basic_consume(REPLY_TO, True, lambda *_: None)
    with pytest.raises(PreconditionFailed, match="already set"):
        channel.basic_consume(REPLY_TO, True, lambda *_: None)
    ask(channel, queue, 1)
    delivery = channel.basic_get(queue, auto_ack=True)
    assert delivery is not None
    address = delivery.properties.reply_to
    assert address is not None
    assert connection.create_channel().basic_publish("", address, None, b"x") == 1

    channel.basic_cancel(tag)
    with pytest.raises(NotFound):
        channel.basic_publish("", address, None, b"too late")
    with pytest.raises(PreconditionFailed):
        ask(channel, queue, 2)


def test_the_address_ends_with_its_channel(
    connection: Connection, channel: Channel, queue: str
) -> None:
    other = connection.create_channel()
    listen(other)
    ask(other, queue, 1)
    delivery = channel.basic_get(queue, auto_ack=True)
    assert delivery is not None
    other.close()
    with pytest.raises(NotFound):
        channel.basic_publish("", delivery.properties.reply_to or "", None, b"too late")


def test_answers_as_an_iterator(channel: Channel, queue: str, server: Channel) -> None:
    with channel.deliveries(REPLY_TO, idle_timeout=10) as answers:
        for number in range(3):
            ask(channel, queue, number)
        found = []
        for answer in answers:
            found.append(answer.body)
            if len(found) == 3:
                break
    assert found == [b"00", b"11", b"22"]


def test_asking_goes_on_after_the_broker_was_killed(restartable: Restartable) -> None:
    """Questions under way are lost with their address; the next ones are answered."""
    factory = ConnectionFactory(port=restartable.port, reconnect_delay=0.05)
    with factory.new_connection() as connection:
        asking, answering = connection.create_channel(), connection.create_channel()
        asking.queue_declare("double", durable=True)
        answering.basic_consume(
            "double",
            True,
            lambda _tag, request, body: answering.basic_publish(
                "", request.reply_to, {"correlation_id": request.correlation_id}, body * 2
            ),
        )
        answers = listen(asking)
        ask(asking, "double", 1)
        assert answers.get(timeout=10) == ("c1", b"11")
        restartable.crash()
        wait_for(lambda: connection.is_connected, timeout=20)
        ask(asking, "double", 2)
        assert answers.get(timeout=10) == ("c2", b"22")


def test_asyncio(native: Broker, queue: str, server: Channel) -> None:
    async def talk() -> list[tuple[str | None, bytes]]:
        async with connect(port=native.ports["native"]) as connection:
            channel = await connection.create_channel()
            found: asyncio.Queue[tuple[str | None, bytes]] = asyncio.Queue()

            async def answered(_tag: str, properties: BasicProperties, body: bytes) -> None:
                await found.put((properties.correlation_id, body))

            await channel.basic_consume(REPLY_TO, True, answered)
            await channel.basic_publish(
                "", queue, {"reply_to": REPLY_TO, "correlation_id": "a"}, b"4"
            )
            return [await asyncio.wait_for(found.get(), 10)]

    assert asyncio.run(talk()) == [("a", b"44")]
