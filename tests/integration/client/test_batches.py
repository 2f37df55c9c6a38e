"""`channel.deliveries(queue).batches()`: several messages at a time."""

from __future__ import annotations

from contextlib import closing

import pytest

from headrace.client import Channel, ConnectionFactory, ConsumerCancelled, Delivery


def fill(channel: Channel, queue: str, count: int) -> list[bytes]:
    bodies = [b"%d" % number for number in range(count)]
    channel.publish_batch([("", queue, {"type": "t"}, body) for body in bodies])
    return bodies


def test_everything_comes_in_order_and_several_at_a_time(channel: Channel, queue: str) -> None:
    bodies = fill(channel, queue, 3000)
    batches: list[list[Delivery]] = []
    for batch in channel.deliveries(queue, idle_timeout=30).batches():
        batches.append(batch)
        for delivery in batch:
            delivery.ack()
        if sum(map(len, batches)) >= len(bodies):
            break
    assert [one.body for batch in batches for one in batch] == bodies
    assert len(batches) < 300
    assert channel.basic_get(queue) is None


def test_what_is_not_settled_of_the_last_batch_goes_back(channel: Channel, queue: str) -> None:
    fill(channel, queue, 10)
    with closing(channel.deliveries(queue).batches()) as batches:
        batch = next(batches)
        assert len(batch) == 10
        for delivery in batch[:4]:
            delivery.ack()
    left = []
    while (found := channel.basic_get(queue, auto_ack=True)) is not None:
        left.append((found.body, found.redelivered))
    assert left == [(b"%d" % number, True) for number in range(4, 10)]


def test_a_deleted_queue_ends_the_loop_with_an_error(
    channel: Channel, queue: str, factory: ConnectionFactory
) -> None:
    fill(channel, queue, 1)
    batches = channel.deliveries(queue).batches()
    next(batches)[0].ack()
    with factory.new_connection() as other:
        other.create_channel().queue_delete(queue)
    with pytest.raises(ConsumerCancelled):
        next(batches)


def test_the_map_of_properties_has_those_which_are_set(channel: Channel, queue: str) -> None:
    fill(channel, queue, 1)
    found = channel.basic_get(queue, auto_ack=True)
    assert found is not None
    assert dict(found.property_map) == {
        "type": "t",
        "delivery_mode": 1,
        "routing_key": queue,
        "message_id": found.message_id,
    }
