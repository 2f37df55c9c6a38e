"""The calls of the blocking client, against a broker."""

from __future__ import annotations

import queue as queues
import sys
import uuid
from itertools import islice

import pytest

from headrace.client import (
    AlreadySettled,
    BasicProperties,
    Channel,
    ChannelClosed,
    Connection,
    ConnectionFactory,
    ConsumerCancelled,
    ExchangeType,
    HeadraceError,
    NotFound,
    PreconditionFailed,
    ResourceLocked,
)
from headrace.testing import wait_for


def fresh(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


# -- declaring -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*ExchangeType, "topic"])
def test_exchanges_of_every_type(channel: Channel, kind: ExchangeType | str) -> None:
    name = fresh("e")
    channel.exchange_declare(name, kind, durable=True, arguments={"x-note": "n"})
    channel.exchange_declare(name, kind, durable=True, arguments={"x-note": "n"})

    (row,) = [row for row in channel.rows("exchanges") if row["name"] == name]
    assert (row["type"], row["durable"]) == (str(kind), True)
    channel.exchange_delete(name)
    with pytest.raises(NotFound):
        channel.exchange_delete(name)


def test_other_attributes_are_an_error_and_the_channel_lives_on(channel: Channel) -> None:
    name = fresh("e")
    channel.exchange_declare(name, "fanout")
    with pytest.raises(PreconditionFailed):
        channel.exchange_declare(name, "topic")

    channel.exchange_delete(name)


def test_a_queue_without_a_name_gets_one(channel: Channel) -> None:
    info = channel.queue_declare(exclusive=True)
    assert info.name
    assert (info.messages, info.consumers) == (0, 0)
    assert channel.queue_delete(info.name) == 0


def test_an_exclusive_queue_belongs_to_its_connection(
    channel: Channel, factory: ConnectionFactory
) -> None:
    name = fresh("mine")
    channel.queue_declare(name, exclusive=True)
    with factory.new_connection() as other, pytest.raises(ResourceLocked):
        other.create_channel().basic_get(name)


def test_bindings_come_and_go(channel: Channel, queue: str) -> None:
    name = fresh("e")
    channel.exchange_declare(name, "topic", auto_delete=False)
    for key in ("a.*", "b.#", "b.#"):
        channel.queue_bind(queue, name, key)
    assert channel.basic_publish(name, "b", None, b"") == 1

    channel.queue_unbind(queue, name, "b.#")
    assert channel.basic_publish(name, "b", None, b"") == 0
    channel.queue_unbind(queue, name)
    assert channel.basic_publish(name, "a.x", None, b"") == 0
    with pytest.raises(NotFound):
        channel.queue_unbind(queue, name)
    channel.exchange_delete(name)


def test_exchanges_can_be_bound_to_exchanges(channel: Channel, queue: str) -> None:
    front, back = fresh("front"), fresh("back")
    channel.exchange_declare(front, "fanout")
    channel.exchange_declare(back, "fanout")
    channel.exchange_bind(back, front)
    channel.queue_bind(queue, back)

    assert channel.basic_publish(front, "", None, b"x") == 1
    channel.exchange_unbind(back, front)
    assert channel.basic_publish(front, "", None, b"x") == 0
    channel.exchange_delete(front)
    channel.exchange_delete(back)


# -- publishing ----------------------------------------------------------------------------------


def test_publishing_to_a_queue_that_is_not_there_is_an_error(channel: Channel) -> None:
    with pytest.raises(NotFound) as caught:
        channel.basic_publish(None, "no-such-queue", None, b"x")
    assert caught.value.code == "not_found"
    assert "no-such-queue" in caught.value.text


def test_all_properties_arrive(channel: Channel, queue: str) -> None:
    sent = BasicProperties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers={"a": 1, "b": "two", "c": {"d": [True, None]}},
        delivery_mode=2,
        priority=3,
        correlation_id="c-1",
        reply_to="there",
        expiration="60000",
        message_id="own id",
        timestamp=1_700_000_000_000,
        type="kind",
        user_id="guest",
        app_id="app",
    )
    channel.basic_publish("", queue, sent, "grüße")

    delivery = channel.basic_get(queue, auto_ack=True)
    assert delivery is not None
    assert delivery.body.decode() == "grüße"
    got = delivery.properties
    assert (got.routing_key, got.exchange, got.queue) == (queue, "", queue)
    got.routing_key = got.exchange = got.queue = got.delivery_tag = None
    assert got == sent


def test_batches_are_confirmed_as_a_whole_and_stay_in_order(channel: Channel, queue: str) -> None:
    count = 2345
    batch = [("", queue, {"delivery_mode": 2}, b"%d" % number) for number in range(count)]
    assert channel.publish_batch(batch) == [1] * count

    stream = channel.deliveries(queue, auto_ack=True, idle_timeout=30)
    assert [int(one.body) for one in islice(stream, count)] == list(range(count))


def test_publishes_can_be_pipelined(channel: Channel, queue: str) -> None:
    futures = [channel.publish_async("", queue, None, b"x") for _ in range(500)]
    assert [future.result(10) for future in futures] == [1] * 500
    assert channel.queue_purge(queue) == 500


def test_a_large_message(channel: Channel, queue: str) -> None:
    body = bytes(range(256)) * 40_000
    channel.basic_publish("", queue, None, body)
    delivery = channel.basic_get(queue, auto_ack=True)
    assert delivery is not None
    assert delivery.body == body


# -- consuming -----------------------------------------------------------------------------------


def test_auto_ack_acknowledges_after_the_callback(
    channel: Channel, queue: str, factory: ConnectionFactory
) -> None:
    seen: queues.SimpleQueue[int] = queues.SimpleQueue()
    go_on: queues.SimpleQueue[None] = queues.SimpleQueue()

    def callback(consumer_tag: str, properties: BasicProperties, body: bytes) -> None:
        seen.put(1)
        go_on.get(timeout=10)

    channel.basic_consume(queue, True, callback)
    with factory.new_connection() as other:
        observer = other.create_channel()
        observer.basic_publish("", queue, None, b"x")
        seen.get(timeout=10)
        assert unacknowledged(observer, queue) == 1
        go_on.put(None)
        wait_for(lambda: unacknowledged(observer, queue) == 0)


def unacknowledged(channel: Channel, queue: str) -> int:
    (row,) = [row for row in channel.rows("queues") if row["name"] == queue]
    return int(str(row["messages_unacknowledged"]))


def test_an_ack_is_sent_while_the_next_callback_blocks(
    channel: Channel, queue: str, factory: ConnectionFactory
) -> None:
    """Acknowledgements are collected, but none waits for a callback that takes its time."""
    seen: queues.SimpleQueue[bytes] = queues.SimpleQueue()
    go_on: queues.SimpleQueue[None] = queues.SimpleQueue()

    def callback(consumer_tag: str, properties: BasicProperties, body: bytes) -> None:
        seen.put(body)
        if body == b"long":
            go_on.get(timeout=20)
        channel.basic_ack(queue, properties.message_id)

    channel.publish_batch([("", queue, None, body) for body in (b"1", b"2", b"long", b"4")])
    channel.basic_consume(queue, False, callback)
    assert [seen.get(timeout=10) for _ in range(3)] == [b"1", b"2", b"long"]
    with factory.new_connection() as other:
        observer = other.create_channel()
        wait_for(lambda: unacknowledged(observer, queue) == 2)
        go_on.put(None)
        wait_for(lambda: unacknowledged(observer, queue) == 0)


def test_a_callback_that_acks_an_unknown_message_gets_an_error(
    channel: Channel, queue: str
) -> None:
    errors: queues.SimpleQueue[Exception] = queues.SimpleQueue()

    def callback(consumer_tag: str, properties: BasicProperties, body: bytes) -> None:
        for message_id in ("unknown", properties.message_id, properties.message_id):
            try:
                channel.basic_ack(queue, message_id)
            except NotFound as error:
                errors.put(error)

    channel.basic_publish("", queue, None, b"x")
    channel.basic_consume(queue, False, callback)
    assert "unknown" in str(errors.get(timeout=10))
    assert "M-" in str(errors.get(timeout=10))  # the second time
    wait_for(lambda: unacknowledged(channel, queue) == 0)


def test_a_callback_may_acknowledge_the_messages_of_others(channel: Channel, queue: str) -> None:
    """Late, out of order, and all of them by their names."""
    names: list[str] = []

    def callback(consumer_tag: str, properties: BasicProperties, body: bytes) -> None:
        assert properties.message_id is not None
        names.append(properties.message_id)
        if len(names) == 50:
            for one in sorted(names, key=hash):
                channel.basic_ack(queue, one)

    channel.publish_batch([("", queue, None, b"%d" % number) for number in range(50)])
    channel.basic_consume(queue, False, callback)
    wait_for(lambda: len(names) == 50 and unacknowledged(channel, queue) == 0)


def test_closing_a_channel_in_a_callback_gives_the_rest_of_the_batch_back(
    connection: Connection, channel: Channel, queue: str
) -> None:
    consuming = connection.create_channel()
    seen: queues.SimpleQueue[bytes] = queues.SimpleQueue()

    def callback(consumer_tag: str, properties: BasicProperties, body: bytes) -> None:
        seen.put(body)
        if body == b"2":
            consuming.basic_ack(queue, properties.message_id)
            consuming.close()

    channel.publish_batch([("", queue, None, b"%d" % number) for number in range(10)])
    consuming.basic_consume(queue, False, callback)
    wait_for(lambda: channel.queue_declare(queue).messages == 9)
    assert [seen.get(timeout=10) for _ in range(3)] == [b"0", b"1", b"2"]
    assert seen.empty()


def test_a_failing_callback_gets_the_message_again(channel: Channel, queue: str) -> None:
    seen: queues.SimpleQueue[bool] = queues.SimpleQueue()

    def callback(consumer_tag: str, properties: BasicProperties, body: bytes) -> None:
        seen.put(properties.redelivered)
        if not properties.redelivered:
            raise RuntimeError("on purpose")

    channel.basic_publish("", queue, None, b"x")
    channel.basic_consume(queue, True, callback)
    assert [seen.get(timeout=10) for _ in range(2)] == [False, True]


def test_a_failing_callback_may_drop_or_keep_the_message(channel: Channel, queue: str) -> None:
    seen: queues.SimpleQueue[bytes] = queues.SimpleQueue()

    def callback(consumer_tag: str, properties: BasicProperties, body: bytes) -> None:
        seen.put(body)
        raise RuntimeError("on purpose")

    channel.publish_batch([("", queue, None, b"1"), ("", queue, None, b"2")])
    tag = channel.basic_consume(queue, True, callback, on_failure="drop")
    assert [seen.get(timeout=10) for _ in range(2)] == [b"1", b"2"]
    channel.basic_cancel(tag)
    wait_for(lambda: unacknowledged(channel, queue) == 0)
    assert channel.queue_declare(queue).messages == 0

    channel.basic_publish("", queue, None, b"3")
    channel.basic_consume(queue, True, callback, on_failure="leave")
    assert seen.get(timeout=10) == b"3"
    wait_for(lambda: unacknowledged(channel, queue) == 1)


def test_not_even_sys_exit_in_callbacks_ends_the_consumer(channel: Channel, queue: str) -> None:
    seen: queues.SimpleQueue[bytes] = queues.SimpleQueue()

    def callback(consumer_tag: str, properties: BasicProperties, body: bytes) -> None:
        seen.put(body)
        sys.exit(1)

    channel.basic_consume(queue, True, callback, on_failure="drop")
    channel.publish_batch([("", queue, None, b"%d" % number) for number in range(10)])
    assert [seen.get(timeout=10) for _ in range(10)] == [b"%d" % number for number in range(10)]


def test_callbacks_of_a_channel_run_in_order(channel: Channel, queue: str) -> None:
    seen: list[int] = []
    channel.basic_consume(queue, True, lambda _tag, _properties, body: seen.append(int(body)))
    channel.publish_batch([("", queue, None, b"%d" % number) for number in range(3000)])

    wait_for(lambda: len(seen) == 3000, timeout=20)
    assert seen == list(range(3000))


def test_a_slow_channel_does_not_hold_up_another(connection: Connection, queue: str) -> None:
    slow, fast = connection.create_channel(), connection.create_channel()
    go_on: queues.SimpleQueue[None] = queues.SimpleQueue()
    seen: queues.SimpleQueue[bytes] = queues.SimpleQueue()
    other = fast.queue_declare(exclusive=True).name
    slow.basic_consume(queue, True, lambda *_: go_on.get(timeout=20))
    fast.basic_consume(other, True, lambda _tag, _properties, body: seen.put(body))

    slow.basic_publish("", queue, None, b"slow")
    fast.basic_publish("", other, None, b"fast")
    assert seen.get(timeout=10) == b"fast"
    go_on.put(None)


def test_a_callback_may_use_its_own_channel(channel: Channel, queue: str) -> None:
    answers = channel.queue_declare(exclusive=True).name

    def callback(consumer_tag: str, properties: BasicProperties, body: bytes) -> None:
        channel.basic_publish("", answers, None, body.upper())
        channel.basic_ack(queue, properties.message_id)

    channel.basic_consume(queue, False, callback)
    channel.basic_publish("", queue, None, b"question")
    stream = channel.deliveries(answers, auto_ack=True, idle_timeout=10)
    assert next(iter(stream)).body == b"QUESTION"


def test_prefetch_bounds_what_is_unacknowledged(channel: Channel, queue: str) -> None:
    channel.publish_batch([("", queue, None, b"%d" % number) for number in range(10)])
    channel.basic_qos(3)
    stream = channel.deliveries(queue, idle_timeout=1)

    held = list(stream)
    assert len(held) == 3
    for one in held:
        one.ack()
    assert channel.queue_declare(queue).messages == 7


def test_leaving_the_loop_gives_the_rest_back(channel: Channel, queue: str) -> None:
    channel.publish_batch([("", queue, None, b"%d" % number) for number in range(10)])
    for delivery in channel.deliveries(queue):
        delivery.ack()
        if delivery.body == b"3":
            break

    assert channel.queue_declare(queue).messages == 6
    assert channel.queue_declare(queue).consumers == 0
    first = channel.basic_get(queue, auto_ack=True)
    assert first is not None
    assert first.body == b"4"


def test_acknowledging_by_id_by_tag_and_wrongly(channel: Channel, queue: str) -> None:
    channel.publish_batch([("", queue, None, b"%d" % number) for number in range(5)])
    one, two, three, four, five = (channel.basic_get(queue) for _ in range(5))
    assert one and two and three and four and five

    channel.basic_ack(queue, one.message_id)
    with pytest.raises(NotFound):
        channel.basic_ack(queue, one.message_id)
    with pytest.raises(NotFound):
        channel.basic_ack(queue, one.message_id, wait=False)
    with pytest.raises(AlreadySettled):
        one.ack()
    with pytest.raises(HeadraceError):
        channel.basic_ack(tag=one.tag)
    channel.basic_ack(tag=three.tag, multiple=True)
    assert two.is_settled
    channel.basic_nack(queue, four.message_id, requeue=False)
    channel.basic_nack(tag=five.tag)
    assert channel.queue_declare(queue).messages == 1


def test_a_publishers_id_twice_is_two_messages(channel: Channel, queue: str) -> None:
    for _ in range(2):
        channel.basic_publish("", queue, {"message_id": "same"}, b"x")
    ids = [delivery.message_id for _ in range(2) if (delivery := channel.basic_get(queue))]

    assert len(set(ids)) == 2
    for message_id in ids:
        channel.basic_ack(queue, message_id)
    assert channel.basic_get(queue) is None


def test_a_deleted_queue_ends_its_consumers(
    channel: Channel, queue: str, factory: ConnectionFactory
) -> None:
    told: queues.SimpleQueue[object] = queues.SimpleQueue()
    channel.basic_consume(
        queue, True, lambda *_: None, on_cancel=lambda tag, error: told.put(error)
    )
    stream = channel.deliveries(queue)
    with factory.new_connection() as other:
        other.create_channel().queue_delete(queue)

    assert isinstance(told.get(timeout=10), ConsumerCancelled)
    with pytest.raises(ConsumerCancelled):
        next(iter(stream))


def test_consumers_of_a_queue_take_turns(connection: Connection, queue: str) -> None:
    seen: list[str] = []
    for _ in range(3):
        channel = connection.create_channel()
        channel.basic_consume(queue, True, lambda tag, _properties, _body: seen.append(tag))
    for _ in range(30):
        channel.basic_publish("", queue, None, b"x")

    wait_for(lambda: len(seen) == 30)
    assert {seen.count(tag) for tag in set(seen)} == {10}


def test_a_closed_channel_raises_and_its_stream_ends(connection: Connection, queue: str) -> None:
    channel = connection.create_channel()
    stream = channel.deliveries(queue)
    channel.close()
    channel.close()

    assert list(stream) == []
    assert list(stream) == []
    with pytest.raises(ChannelClosed):
        channel.basic_get(queue)
    assert connection.create_channel().basic_get(queue) is None
