"""The broker dies and comes back: work goes on by itself, and nothing confirmed is lost."""

from __future__ import annotations

import threading
import time
from collections import Counter

import pytest

from headrace.client import (
    Channel,
    ConnectionClosed,
    ConnectionFactory,
    HeadraceError,
    RequestTimeout,
)
from headrace.testing import wait_for
from support.restartable_broker import Restartable

PERSISTENT = {"delivery_mode": 2}
KILLS, PREFETCH = 3, 200


def factory(site: Restartable, **options: object) -> ConnectionFactory:
    return ConnectionFactory(port=site.port, reconnect_delay=0.02, **options)


class Producer(threading.Thread):
    """Publishes numbers until told to stop; keeps those that were confirmed."""

    BATCH = 20

    def __init__(self, channel: Channel, queue: str) -> None:
        super().__init__(name="producer")
        self.confirmed: list[int] = []
        self.failure: BaseException | None = None
        self._channel, self._queue = channel, queue
        self._stopping = threading.Event()

    def run(self) -> None:
        number = 0
        try:
            while not self._stopping.is_set():
                batch = range(number, number + self.BATCH)
                self._channel.publish_batch(
                    [("", self._queue, PERSISTENT, b"%d" % one) for one in batch], retry=True
                )
                self.confirmed += batch
                number += self.BATCH
        except BaseException as error:
            self.failure = error

    def wait_for_more(self, count: int) -> None:
        wanted = len(self.confirmed) + count
        wait_for(lambda: len(self.confirmed) >= wanted, timeout=30)

    def finish(self) -> None:
        self._stopping.set()
        self.join(60)
        assert not self.is_alive()
        assert self.failure is None, self.failure


def test_producer_and_consumer_survive_kills_of_the_broker(restartable: Restartable) -> None:
    """Three kills. In the ledger nothing is missing, nothing was made up, nothing is left over,
    and only what was under way at a kill may have come twice."""
    received: Counter[int] = Counter()
    with (
        factory(restartable).new_connection() as sending,
        factory(restartable).new_connection() as receiving,
    ):
        channel = sending.create_channel()
        channel.queue_declare("work", durable=True)
        consumer = receiving.create_channel()
        consumer.basic_qos(PREFETCH)
        consumer.basic_consume("work", True, lambda _t, _p, body: received.update([int(body)]))
        producer = Producer(channel, "work")
        producer.start()
        for _ in range(KILLS):
            producer.wait_for_more(500)
            restartable.crash()
        producer.wait_for_more(500)
        producer.finish()

        wait_for(lambda: set(producer.confirmed) <= received.keys(), timeout=30)
        receiving.close()
        assert channel.queue_declare("work", durable=True).messages == 0
    assert received.keys() == set(producer.confirmed)
    twice = sum(received.values()) - len(received)
    assert twice <= KILLS * (PREFETCH + Producer.BATCH)


def test_everything_declared_through_the_connection_comes_back(restartable: Restartable) -> None:
    seen: list[bytes] = []
    with factory(restartable).new_connection() as connection:
        channel = connection.create_channel()
        channel.exchange_declare("passing", "topic")
        channel.queue_declare("gone", auto_delete=True)
        own = channel.queue_declare(exclusive=True).name
        channel.queue_bind("gone", "passing", "a.*")
        channel.queue_bind(own, "passing", "#")
        channel.basic_consume("gone", True, lambda _t, _p, body: seen.append(body))
        channel.basic_consume(own, True, lambda _t, _p, body: seen.append(body))
        restartable.crash()

        assert channel.basic_publish("passing", "a.b", None, b"x") == 2
        wait_for(lambda: seen == [b"x", b"x"])
        assert channel.queue_purge(own) == 0  # the old name leads to the new queue


def test_a_durable_queue_named_by_the_broker_is_kept(restartable: Restartable) -> None:
    with factory(restartable).new_connection() as connection:
        channel = connection.create_channel()
        name = channel.queue_declare(durable=True).name
        channel.basic_publish("", name, PERSISTENT, b"x")
        restartable.crash()

        delivery = channel.basic_get(name, auto_ack=True)
        assert delivery is not None
        assert (delivery.queue, delivery.body) == (name, b"x")


def test_a_stream_goes_on_after_a_crash(restartable: Restartable) -> None:
    with factory(restartable).new_connection() as connection:
        channel = connection.create_channel()
        channel.queue_declare("work", durable=True)
        channel.publish_batch([("", "work", PERSISTENT, b"%d" % number) for number in range(100)])
        seen: list[int] = []
        for delivery in channel.deliveries("work", idle_timeout=10):
            seen.append(int(delivery.body))
            if len(seen) == 50:
                restartable.crash()
            delivery.ack()
            if delivery.body == b"99":
                break

        assert set(seen) == set(range(100))
        assert channel.queue_declare("work", durable=True).messages == 0


def test_without_retry_the_error_reaches_the_program(restartable: Restartable) -> None:
    with factory(restartable).new_connection() as connection:
        channel = connection.create_channel()
        channel.queue_declare("work", durable=True)
        message = ("", "work", PERSISTENT, b"x" * 1000)
        futures = [channel.publish_async(*message) for _ in range(200)]
        restartable.kill()
        outcomes = [future.exception(30) for future in futures]
        restartable.start()

        assert {type(one) for one in outcomes} <= {type(None), ConnectionClosed}
        confirmed = outcomes.count(None)
        assert channel.queue_declare("work", durable=True).messages >= confirmed
        assert channel.basic_publish(*message) == 1


def test_calls_wait_for_the_connection_up_to_a_limit(restartable: Restartable) -> None:
    with factory(restartable, request_timeout=0.5).new_connection() as connection:
        channel = connection.create_channel()
        channel.queue_declare("work", durable=True)
        restartable.kill()
        wait_for(lambda: not connection.is_connected)

        begun = time.monotonic()
        with pytest.raises(RequestTimeout):
            channel.basic_publish("", "work", None, b"x")
        assert time.monotonic() - begun < 20
        restartable.start()
        wait_for(lambda: connection.is_connected)
        assert channel.basic_publish("", "work", None, b"x") == 1


def test_without_reconnection_the_end_is_the_end(restartable: Restartable) -> None:
    with factory(restartable, reconnect=False).new_connection() as connection:
        channel = connection.create_channel()
        channel.queue_declare("work")
        stream = channel.deliveries("work")
        restartable.kill()

        with pytest.raises(HeadraceError):
            list(stream)
        wait_for(lambda: not connection.is_open)
        with pytest.raises(ConnectionClosed):
            channel.queue_declare("work")


def test_an_ack_from_before_the_crash_settles_no_other_message(restartable: Restartable) -> None:
    with factory(restartable).new_connection() as connection:
        channel = connection.create_channel()
        channel.queue_declare("work", durable=True)
        channel.publish_batch([("", "work", PERSISTENT, b"%d" % number) for number in range(2)])
        old = channel.basic_get("work")
        assert old is not None
        restartable.crash()
        new = channel.basic_get("work")
        assert new is not None

        old.ack()
        channel.basic_ack(tag=old.tag)
        assert not new.is_settled
        channel.basic_nack(tag=new.tag)
        assert channel.queue_declare("work", durable=True).messages == 2


@pytest.mark.parametrize("first", ["producer", "consumer"])
def test_producer_and_consumer_may_start_in_any_order(restartable: Restartable, first: str) -> None:
    seen: list[bytes] = []

    def declare(channel: Channel) -> None:
        channel.exchange_declare("demo", "direct", durable=True)
        channel.queue_declare("demo", durable=True)

    def produce(channel: Channel) -> None:
        declare(channel)
        channel.basic_publish("demo", "demo", PERSISTENT, b"hello")

    def consume(channel: Channel) -> None:
        declare(channel)
        channel.basic_consume("demo", True, lambda _t, _p, body: seen.append(body))

    order = [produce, consume] if first == "producer" else [consume, produce]
    with factory(restartable).new_connection() as one, factory(restartable).new_connection() as two:
        for action, connection in zip(order, (one, two), strict=True):
            action(connection.create_channel())
        wait_for(lambda: seen == [b"hello"])
