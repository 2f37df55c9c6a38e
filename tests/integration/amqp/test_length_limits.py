"""Queues with a limit of messages or bytes, and what happens to the message too many."""

import pytest

from headrace.testing import wait_for
from support.amqp_observer import publish_all, ready, take_all
from support.amqp_types import Channel, Namer, RawChannel


def _declare(channel: Channel, name: Namer, **limits: object) -> str:
    queue = name()
    arguments = {"x-" + key.replace("_", "-"): value for key, value in limits.items()}
    channel.queue_declare(queue, arguments=arguments)
    return queue


def test_oldest_messages_are_dropped_by_default(channel: Channel, name: Namer) -> None:
    queue = _declare(channel, name, max_length=2)
    publish_all(channel, queue, "1", "2", "3", "4")

    assert take_all(channel, queue) == [b"3", b"4"]


def test_queue_of_length_zero_keeps_nothing(channel: Channel, name: Namer) -> None:
    queue = _declare(channel, name, max_length=0)
    publish_all(channel, queue, "1")

    assert take_all(channel, queue) == []


def test_bytes_are_counted_over_bodies_only(channel: Channel, name: Namer) -> None:
    queue = _declare(channel, name, max_length_bytes=10)
    publish_all(channel, queue, "12345", "67890", headers={"long": "x" * 100})

    assert take_all(channel, queue) == [b"12345", b"67890"]


def test_oldest_messages_are_dropped_until_the_bytes_fit(channel: Channel, name: Namer) -> None:
    queue = _declare(channel, name, max_length_bytes=10)
    publish_all(channel, queue, "11111", "22222", "33333")

    assert take_all(channel, queue) == [b"22222", b"33333"]


def test_message_larger_than_the_limit_empties_the_queue(channel: Channel, name: Namer) -> None:
    queue = _declare(channel, name, max_length_bytes=10)
    publish_all(channel, queue, "1", "2", "x" * 11)

    assert take_all(channel, queue) == []


def test_unacknowledged_messages_do_not_count(channel: Channel, name: Namer) -> None:
    queue = _declare(channel, name, max_length=2)
    publish_all(channel, queue, "1", "2")
    first, _, _ = channel.basic_get(queue)
    channel.basic_get(queue)
    publish_all(channel, queue, "3", "4")

    wait_for(lambda: ready(channel, queue) == 2)
    channel.basic_nack(first.delivery_tag, multiple=False, requeue=False)
    assert take_all(channel, queue) == [b"3", b"4"]


def test_both_limits_hold_together(channel: Channel, name: Namer) -> None:
    queue = _declare(channel, name, max_length=3, max_length_bytes=4)
    publish_all(channel, queue, "1", "2", "3", "44")

    assert take_all(channel, queue) == [b"2", b"3", b"44"]


def test_reject_publish_keeps_what_is_there(channel: Channel, name: Namer) -> None:
    queue = _declare(channel, name, max_length=2, overflow="reject-publish")
    publish_all(channel, queue, "1", "2", "3")

    wait_for(lambda: ready(channel, queue) == 2)
    assert take_all(channel, queue) == [b"1", b"2"]


@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_rejected_publish_is_nacked(raw_channel: RawChannel, name: Namer, overflow: str) -> None:
    queue = name()
    limits = {"x-max-length": 1, "x-overflow": overflow}
    raw_channel.call("queue.declare", queue=queue, arguments=limits)
    raw_channel.call("confirm.select")

    raw_channel.publish("", queue, b"1")
    assert raw_channel.read().name == "basic.ack"
    raw_channel.publish("", queue, b"2")
    refusal = raw_channel.read()
    assert (refusal.name, refusal.delivery_tag) == ("basic.nack", 2)


def test_rejected_publish_is_accepted_again_after_room_was_made(
    raw_channel: RawChannel, name: Namer
) -> None:
    queue = name()
    limits = {"x-max-length": 1, "x-overflow": "reject-publish"}
    raw_channel.call("queue.declare", queue=queue, arguments=limits)
    raw_channel.call("confirm.select")
    raw_channel.publish("", queue, b"1")
    raw_channel.read()

    assert raw_channel.get(queue) is not None
    raw_channel.publish("", queue, b"2")
    assert raw_channel.read().name == "basic.ack"


def test_dropped_head_is_acknowledged_to_the_publisher(
    raw_channel: RawChannel, name: Namer
) -> None:
    queue = name()
    raw_channel.call("queue.declare", queue=queue, arguments={"x-max-length": 1})
    raw_channel.call("confirm.select")

    for number in range(1, 4):
        raw_channel.publish("", queue, b"x")
        confirm = raw_channel.read()
        assert (confirm.name, confirm.delivery_tag) == ("basic.ack", number)
