"""Time moved by hand: whatever waits for a moment happens at advance(), and is done afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError

from headrace import topics
from headrace.testing import RunningBroker, VirtualClock, run_broker, wait_for

PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    with run_broker(clock="virtual") as broker:
        yield broker


@pytest.fixture
def channel(broker: RunningBroker) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url))
    channel = connection.channel()
    channel.confirm_delivery()
    yield channel
    with suppress(AMQPError):  # a crash has cut it
        connection.close()


def dead_letters_to(queue: str, ttl_ms: int) -> dict[str, object]:
    return {
        "x-message-ttl": ttl_ms,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": queue,
    }


def test_message_expires_at_its_moment_and_not_before(
    broker: RunningBroker, channel: BlockingChannel
) -> None:
    channel.queue_declare("late")
    channel.queue_declare("offers", arguments=dead_letters_to("late", 60_000))
    channel.basic_publish("", "offers", b"x")

    broker.advance(59.999)
    assert (broker.queue("offers").messages, broker.queue("late").messages) == (1, 0)

    broker.advance(0.001)
    assert (broker.queue("offers").messages, broker.queue("late").messages) == (0, 1)


def test_one_long_step_passes_through_every_moment_on_the_way(
    broker: RunningBroker, channel: BlockingChannel
) -> None:
    channel.queue_declare("end")
    channel.queue_declare("third", arguments=dead_letters_to("end", 10_000))
    channel.queue_declare("second", arguments=dead_letters_to("third", 10_000))
    channel.queue_declare("first", arguments=dead_letters_to("second", 10_000))
    channel.basic_publish("", "first", b"x")

    broker.advance(30)

    assert broker.queue("end").messages == 1


def test_delayed_message_comes_when_it_is_due(
    broker: RunningBroker, channel: BlockingChannel
) -> None:
    channel.exchange_declare("later", "x-delayed-message", arguments={"x-delayed-type": "fanout"})
    channel.queue_declare("orders")
    channel.queue_bind("orders", "later")
    channel.basic_publish("later", "", b"x", pika.BasicProperties(headers={"x-delay": 86_400_000}))

    broker.advance(86_399)
    assert broker.queue("orders").messages == 0

    broker.advance(1)
    assert broker.queue("orders").messages == 1


def test_many_years_pass_in_one_step(broker: RunningBroker, channel: BlockingChannel) -> None:
    channel.queue_declare("short-lived", arguments={"x-expires": 5000})

    broker.advance(100 * 365 * 86_400)

    assert broker.queues() == {}
    channel.queue_declare("new", exclusive=True)
    assert list(broker.queues()) == ["new"]


def test_unused_queue_disappears(broker: RunningBroker, channel: BlockingChannel) -> None:
    channel.queue_declare("short-lived", arguments={"x-expires": 5000})
    broker.advance(4)
    assert "short-lived" in broker.queues()

    broker.advance(1)
    assert "short-lived" not in broker.queues()


def test_consumer_gets_what_fell_due(broker: RunningBroker, channel: BlockingChannel) -> None:
    bodies: list[bytes] = []
    channel.queue_declare("late")
    channel.queue_declare("offers", arguments=dead_letters_to("late", 1000))
    channel.basic_consume("late", lambda *args: bodies.append(args[3]), auto_ack=True)
    channel.basic_publish("", "offers", b"x")

    broker.advance(1)
    wait_for(lambda: channel.connection.process_data_events(0.01) or bodies)

    assert bodies == [b"x"]


def test_what_advance_did_is_on_disk_when_it_returns(
    broker: RunningBroker, channel: BlockingChannel
) -> None:
    channel.queue_declare("late", durable=True)
    channel.queue_declare("offers", durable=True, arguments=dead_letters_to("late", 1000))
    channel.basic_publish("", "offers", b"x", PERSISTENT)

    broker.advance(1)
    broker.crash()
    broker.restart()

    assert (broker.queue("offers").messages, broker.queue("late").messages) == (0, 1)


def test_own_clock_goes_on_over_a_restart() -> None:
    clock = VirtualClock()
    with run_broker(clock=clock) as broker:
        before = clock.now_ms()
        broker.advance(1)
        broker.restart()
        broker.advance(2)

        assert clock.now_ms() - before == 3000


def test_time_to_live_goes_on_over_a_restart_on_the_virtual_clock(
    broker: RunningBroker, channel: BlockingChannel
) -> None:
    """What is stored is stamped by the clock that later asks how old it is."""
    channel.queue_declare("offers", durable=True, arguments={"x-message-ttl": 60_000})
    broker.advance(86_400)  # far from the machine's clock
    channel.basic_publish("", "offers", b"x", PERSISTENT)
    broker.advance(20)
    with suppress(AMQPError):
        channel.connection.close()

    broker.restart()
    broker.advance(39.9)
    assert broker.queue("offers").messages == 1
    broker.advance(0.1)
    assert broker.queue("offers").messages == 0


def test_delays_go_on_over_a_restart_on_the_virtual_clock(
    broker: RunningBroker, channel: BlockingChannel
) -> None:
    kind = {"x-delayed-type": "fanout"}
    channel.exchange_declare("later", "x-delayed-message", durable=True, arguments=kind)
    channel.queue_declare("orders", durable=True)
    channel.queue_bind("orders", "later")
    broker.advance(86_400)
    delayed = pika.BasicProperties(delivery_mode=2, headers={"x-delay": 60_000})
    channel.basic_publish("later", "", b"x", delayed)
    broker.advance(20)
    with suppress(AMQPError):
        channel.connection.close()

    broker.restart()
    broker.advance(39.9)
    assert broker.queue("orders").messages == 0
    broker.advance(0.1)
    assert broker.queue("orders").messages == 1


def test_topics_live_by_the_virtual_clock_too(broker: RunningBroker) -> None:
    broker.advance(86_400)
    with topics.open(f"headrace://127.0.0.1:{broker.native_port}") as store:
        store.create("jobs")
        store.producer("jobs", token="shop").append("a")
        consumer = store.consumer("jobs", token="worker", group="workers")
        consumer.nack(consumer.read(1)[0], delay=60)
    broker.advance(20)
    broker.restart()

    with topics.open(f"headrace://127.0.0.1:{broker.native_port}") as store:
        consumer = store.consumer("jobs", token="worker", group="workers")
        broker.advance(39)
        assert len(consumer.read(1)) == 0
        broker.advance(2)
        assert [one.body for one in consumer.read(1)] == [b"a"]


def test_machine_clock_cannot_be_moved() -> None:
    with run_broker() as broker, pytest.raises(RuntimeError, match="clock='virtual'"):
        broker.advance(1)


def test_time_does_not_go_back(broker: RunningBroker) -> None:
    with pytest.raises(ValueError, match="does not go back"):
        broker.advance(-1)
