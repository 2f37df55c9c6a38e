"""Native and AMQP clients share queues, exchanges and messages."""

from __future__ import annotations

from collections.abc import Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from support.brokers import Broker
from support.native_types import Namer
from support.raw_native import CONSUME, EXCHANGE_DECLARE, PUBLISH, QUEUE_DECLARE, Native, Refused


@pytest.fixture
def amqp(broker: Broker) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    yield connection.channel()
    connection.close()


def test_what_is_published_here_is_consumed_there(
    client: Native, queue: str, amqp: BlockingChannel
) -> None:
    body = bytes(300_000)
    properties = {"headers": {"a": [1, {"b": "c"}]}, "timestamp": 5000, "delivery_mode": 2}
    client.publish("", queue, body, **properties)

    method, got, received = amqp.basic_get(queue, auto_ack=True)
    assert received == body
    assert (got.headers, got.timestamp, got.delivery_mode) == ({"a": [1, {"b": "c"}]}, 5, 2)
    assert (method.exchange, method.routing_key) == ("", queue)


def test_what_is_published_there_is_consumed_here(
    client: Native, queue: str, amqp: BlockingChannel
) -> None:
    body = bytes(300_000)
    amqp.basic_publish("", queue, body, pika.BasicProperties(message_id="m", timestamp=7, type="t"))
    amqp.basic_publish("", queue, b"")
    client.call(CONSUME, queue=queue)

    first, second = client.deliveries(2)
    assert (first["body"], second["body"]) == (body, b"")
    assert first["properties"] == {
        "delivery_mode": 1,
        "message_id": "m",
        "timestamp": 7000,
        "type": "t",
        "routing_key": queue,
    }


def test_dead_letters_cross_over(client: Native, name: Namer, amqp: BlockingChannel) -> None:
    dead = client.queue(name())
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    own = name()
    amqp.queue_declare(own, arguments={**arguments, "x-message-ttl": 0})
    client.publish("", own, b"x", message_id="kept")

    message = client.get(dead)
    assert message["properties"]["message_id"] == "kept"
    assert message["properties"]["headers"]["x-first-death-reason"] == "expired"


def test_a_direct_exchange_of_either_side_keeps_its_rule(
    client: Native, name: Namer, amqp: BlockingChannel, queue: str
) -> None:
    native, standard = name(), name()
    client.call(EXCHANGE_DECLARE, name=native)
    amqp.exchange_declare(standard, "direct")
    for exchange in (native, standard):
        amqp.basic_publish(exchange, queue, exchange.encode())

    assert client.bodies(queue) == [native.encode()]
    # The same declaration from the other side is no conflict, and changes nothing.
    client.call(EXCHANGE_DECLARE, name=standard)
    amqp.exchange_declare(native, "direct")
    assert client.publish(standard, queue, b"x")["routed"] == 0


def test_amqp_may_ask_for_the_rule(
    client: Native, name: Namer, amqp: BlockingChannel, queue: str
) -> None:
    own = name()
    amqp.exchange_declare(own, "direct", arguments={"x-direct-to-queue": True})
    amqp.basic_publish(own, queue, b"by name")

    assert client.bodies(queue) == [b"by name"]


def test_declarations_are_compared_across(
    client: Native, name: Namer, amqp: BlockingChannel
) -> None:
    own = name()
    amqp.queue_declare(own, arguments={"x-max-length": 10})
    client.call(QUEUE_DECLARE, name=own, arguments={"x-max-length": 10})

    with pytest.raises(Refused) as refused:
        client.call(QUEUE_DECLARE, name=own, arguments={"x-max-length": 11})
    assert refused.value.code == "precondition_failed"


def test_exclusive_queues_are_locked_across(
    client: Native, name: Namer, amqp: BlockingChannel
) -> None:
    own = client.queue(name(), exclusive=True)

    with pytest.raises(ChannelClosedByBroker) as closed:
        amqp.queue_declare(own, passive=True)
    assert closed.value.reply_code == 405


def test_replies_reach_an_amqp_requester(client: Native, amqp: BlockingChannel, queue: str) -> None:
    answers = []
    amqp.basic_consume(
        "amq.rabbitmq.reply-to", lambda *args: answers.append(args[3]), auto_ack=True
    )
    properties = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to")
    amqp.basic_publish("", queue, b"question", properties)
    asked = client.get(queue, auto_ack=True)
    client.call(PUBLISH, exchange="", key=asked["properties"]["reply_to"], body=b"answer")
    for _ in range(50):
        amqp.connection.process_data_events(time_limit=0.1)
        if answers:
            break

    assert answers == [b"answer"]
