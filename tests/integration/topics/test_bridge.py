"""Exchanges of type x-topic: AMQP publishers feed topics, topics feed AMQP queues."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from headrace.errors import TopicConflict
from headrace.model.topics.message_priority import Priority
from headrace.store.topics.types import ConsumerSpec, Entry, TopicSpec
from headrace.testing import RunningBroker, wait_for
from support.native_topics import NativeEngine

ALONE = ConsumerSpec("reader")


def queue_bound_to(channel: BlockingChannel, exchange: str, key: str) -> str:
    name: str = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(name, exchange, key)
    return name


def bodies(channel: BlockingChannel, queue: str) -> list[bytes]:
    found = []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        found.append(got[2])
    return found


# -- into the topic -------------------------------------------------------------------------------


def test_what_is_published_to_the_exchange_is_in_the_topic(
    engine: NativeEngine, channel: BlockingChannel, topic: str
) -> None:
    properties = pika.BasicProperties(
        message_id="m-1",
        correlation_id="c-1",
        content_type="text/plain",
        timestamp=1_700_000_000,
        headers={"colour": "red", "size": 7},
    )
    channel.basic_publish(f"topic.{topic}", "paid", b"body", properties)

    (message,) = engine.read(topic, ALONE, 10).messages

    assert (message.body, message.tags, message.message_id) == (b"body", "paid", "m-1")
    assert (message.priority, message.born) == (Priority.MIDDLE, 1_700_000_000_000)
    assert message.properties["colour"] == "red"
    assert message.properties["amqp.correlation_id"] == "c-1"


@pytest.mark.parametrize(
    ("amqp_priority", "priority"),
    [
        (None, Priority.MIDDLE),
        (0, Priority.LOW),
        (3, Priority.LOW),
        (4, Priority.MIDDLE),
        (5, Priority.MIDDLE),
        (6, Priority.HIGH),
        (255, Priority.HIGH),
    ],
)
def test_the_amqp_priority_decides_the_priority_of_the_topic(
    engine: NativeEngine,
    channel: BlockingChannel,
    topic: str,
    amqp_priority: int | None,
    priority: Priority,
) -> None:
    channel.basic_publish(f"topic.{topic}", "", b"", pika.BasicProperties(priority=amqp_priority))

    assert engine.read(topic, ALONE, 10).messages[0].priority == priority


def test_an_exchange_can_be_bound_to_a_topic(
    engine: NativeEngine, channel: BlockingChannel, topic: str
) -> None:
    source = f"x-{topic}"
    channel.exchange_declare(source, "topic", auto_delete=True)
    channel.exchange_bind(f"topic.{topic}", source, "orders.*")
    channel.basic_publish(source, "orders.new", b"yes")
    channel.basic_publish(source, "other", b"no")

    messages = engine.read(topic, ALONE, 10).messages

    assert [(one.body, one.tags) for one in messages] == [(b"yes", "orders.new")]


def test_a_message_that_comes_by_two_ways_is_appended_once(
    engine: NativeEngine, channel: BlockingChannel, topic: str
) -> None:
    for name in ("a", "b"):
        channel.exchange_declare(f"{name}-{topic}", "fanout", auto_delete=True)
        channel.exchange_bind(f"topic.{topic}", f"{name}-{topic}")
    channel.exchange_bind(f"b-{topic}", f"a-{topic}")
    channel.basic_publish(f"a-{topic}", "", b"once")

    assert [one.body for one in engine.read(topic, ALONE, 10).messages] == [b"once"]


def test_dead_letters_can_go_to_a_topic(
    engine: NativeEngine, channel: BlockingChannel, topic: str
) -> None:
    arguments = {"x-dead-letter-exchange": f"topic.{topic}"}
    queue = channel.queue_declare("", exclusive=True, arguments=arguments).method.queue
    channel.basic_publish("", queue, b"dead")
    method, _, _ = channel.basic_get(queue)
    channel.basic_reject(method.delivery_tag, requeue=False)
    channel.queue_declare(queue, passive=True)  # the rejection has been carried out

    assert [
        one.body for one in engine.read(topic, ConsumerSpec("r"), 10, wait_ms=2000).messages
    ] == [b"dead"]


def test_mandatory_publishes_to_a_topic_are_not_returned(
    engine: NativeEngine, channel: BlockingChannel, topic: str
) -> None:
    channel.basic_publish(f"topic.{topic}", "k", b"x", mandatory=True)

    assert len(engine.read(topic, ALONE, 10).messages) == 1


# -- taps -----------------------------------------------------------------------------------------


def test_queues_get_what_is_published_and_each_once(
    engine: NativeEngine, channel: BlockingChannel, topic: str
) -> None:
    everything = queue_bound_to(channel, f"topic.{topic}", "#")
    channel.queue_bind(everything, f"topic.{topic}", "paid")
    paid = queue_bound_to(channel, f"topic.{topic}", "paid")
    channel.basic_publish(f"topic.{topic}", "paid", b"1")
    channel.basic_publish(f"topic.{topic}", "sent", b"2")

    assert bodies(channel, everything) == [b"1", b"2"]
    assert bodies(channel, paid) == [b"1"]
    assert len(engine.read(topic, ALONE, 10).messages) == 2


def test_queues_get_what_others_append(
    engine: NativeEngine, channel: BlockingChannel, topic: str
) -> None:
    queue = queue_bound_to(channel, f"topic.{topic}", "paid")
    engine.append(
        topic,
        [
            Entry(b"1", Priority.HIGH, tags="paid", message_id="m-1", properties={"colour": "red"}),
            Entry(b"2", tags="sent"),
            Entry(b"3", tags="paid", born=1_700_000_000_500),
        ],
    )

    first = channel.basic_get(queue, auto_ack=True)
    second = channel.basic_get(queue, auto_ack=True)

    assert (first[2], second[2]) == (b"1", b"3")
    assert (first[0].exchange, first[0].routing_key) == (f"topic.{topic}", "paid")
    assert (first[1].message_id, first[1].priority) == ("m-1", 8)
    assert (first[1].headers, first[1].delivery_mode) == ({"colour": "red"}, 2)
    assert (second[1].priority, second[1].timestamp) == (None, 1_700_000_000)
    assert channel.basic_get(queue)[0] is None


def test_a_large_message_passes_both_ways(
    engine: NativeEngine, channel: BlockingChannel, topic: str
) -> None:
    queue = queue_bound_to(channel, f"topic.{topic}", "#")
    body = bytes(range(256)) * 2000
    engine.append(topic, [Entry(body)])
    channel.basic_publish(f"topic.{topic}", "", body)

    assert bodies(channel, queue) == [body, body]
    assert [one.body for one in engine.read(topic, ALONE, 10).messages] == [body, body]


def test_topics_in_a_ring_get_a_message_once(
    engine: NativeEngine, channel: BlockingChannel, topic: str
) -> None:
    other = f"o_{topic}"
    engine.create(TopicSpec(other))
    channel.exchange_bind(f"topic.{other}", f"topic.{topic}", "#")
    channel.exchange_bind(f"topic.{topic}", f"topic.{other}", "#")
    engine.append(topic, [Entry(b"native", tags="t")])
    channel.basic_publish(f"topic.{other}", "t", b"amqp")

    for name in (topic, other):
        found = [one.body for one in engine.read(name, ALONE, 10).messages]
        assert found == [b"native", b"amqp"]


# -- the exchange and its topic -------------------------------------------------------------------


def test_an_amqp_client_can_declare_a_topic(engine: NativeEngine, channel: BlockingChannel) -> None:
    name = f"t_{uuid4().hex[:12]}"
    arguments = {"x-queues": 3, "x-retention": "7d,500MB"}
    for _ in range(2):
        channel.exchange_declare(f"topic.{name}", "x-topic", durable=True, arguments=arguments)

    info = engine.describe(name)

    assert info.queues == 3
    assert info.retention is not None
    assert (info.retention.ms, info.retention.size) == (7 * 86_400_000, 500_000_000)
    engine.delete(name)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("orders", {}),
        ("topic.Orders", {}),
        ("topic.a_low", {}),
        ("topic.fine", {"x-queues": "many"}),
        ("topic.fine", {"x-queues": 0}),
        ("topic.fine", {"x-retention": "for ever"}),
    ],
)
def test_what_is_no_topic_cannot_be_declared(
    channel: BlockingChannel, name: str, arguments: dict[str, object]
) -> None:
    with pytest.raises(ChannelClosedByBroker, match=r"40[36]"):
        channel.exchange_declare(name, "x-topic", durable=True, arguments=arguments)


def test_the_exchange_stays_as_long_as_its_topic(
    engine: NativeEngine, channel_of: Callable[[], BlockingChannel], topic: str
) -> None:
    with pytest.raises(ChannelClosedByBroker, match="delete the topic"):
        channel_of().exchange_delete(f"topic.{topic}")
    engine.delete(topic)
    with pytest.raises(ChannelClosedByBroker, match="no exchange"):
        channel_of().exchange_declare(f"topic.{topic}", passive=True)


def test_a_topic_is_refused_when_its_exchange_name_is_taken(
    engine: NativeEngine, channel: BlockingChannel
) -> None:
    name = f"t_{uuid4().hex[:12]}"
    channel.exchange_declare(f"topic.{name}", "fanout", auto_delete=True)

    with pytest.raises(TopicConflict, match="has the name that topic"):
        engine.create(TopicSpec(name))


def test_topics_bindings_and_taps_survive_a_restart(
    running: RunningBroker, engine: NativeEngine, channel: BlockingChannel, topic: str
) -> None:
    channel.queue_declare(topic, durable=True)
    channel.queue_bind(topic, f"topic.{topic}", "paid")
    persistent = pika.BasicProperties(delivery_mode=2)
    channel.basic_publish(f"topic.{topic}", "paid", b"before", persistent)
    channel.connection.close()
    engine.close()
    running.crash()
    running.start()

    engine.append(topic, [Entry(b"after", tags="paid")])
    connection = pika.BlockingConnection(pika.URLParameters(running.amqp_url))
    again = connection.channel()

    assert bodies(again, topic) == [b"before", b"after"]
    assert [one.body for one in engine.read(topic, ALONE, 10).messages] == [b"before", b"after"]
    again.queue_delete(topic)
    connection.close()


# -- topics of other engines ----------------------------------------------------------------------


def test_publishes_to_a_topic_of_another_engine_are_confirmed_when_it_has_them(
    memory_engine: NativeEngine, channel: BlockingChannel
) -> None:
    name = f"t_{uuid4().hex[:12]}"
    memory_engine.create(TopicSpec(name))
    for number in range(20):
        channel.basic_publish(f"topic.{name}", "k", b"%d" % number)

    found = memory_engine.read(name, ALONE, 100).messages

    assert [one.body for one in found] == [b"%d" % number for number in range(20)]
    assert found[0].tags == "k"
    memory_engine.delete(name)


def test_queues_get_what_comes_into_a_topic_of_another_engine(
    memory_engine: NativeEngine, channel: BlockingChannel
) -> None:
    name = f"t_{uuid4().hex[:12]}"
    memory_engine.create(TopicSpec(name))
    memory_engine.append(name, [Entry(b"before", tags="paid")])
    queue = queue_bound_to(channel, f"topic.{name}", "paid")
    memory_engine.append(name, [Entry(b"1", tags="paid"), Entry(b"2", tags="sent")])
    channel.basic_publish(f"topic.{name}", "paid", b"3")
    memory_engine.append(name, [Entry(b"4", tags="paid")])

    found: list[bytes] = []

    def all_three() -> bool:
        found.extend(bodies(channel, queue))
        return len(found) >= 3

    wait_for(all_three)
    assert found == [b"1", b"3", b"4"]
    assert bodies(channel, queue) == []
    channel.queue_unbind(queue, f"topic.{name}", "paid")
    memory_engine.append(name, [Entry(b"5", tags="paid")])
    memory_engine.delete(name)
    assert bodies(channel, queue) == []
