"""Queues with x-ack-timeout: what is held for too long is taken back, and nobody is closed."""

from typing import Any

import pytest

from support.amqp_codec import plain
from support.amqp_types import Namer, RawChannel, RawConnect

pytestmark = pytest.mark.usefixtures("headrace_only")


def _declare(channel: RawChannel, queue: str, **arguments: Any) -> str:  # noqa: ANN401
    table = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
    channel.call("queue.declare", queue=queue, arguments=table)
    return queue


@pytest.fixture
def impatient(raw_channel: RawChannel, name: Namer) -> str:
    """A queue which takes a message back after 100 ms."""
    return _declare(raw_channel, name(), ack_timeout=100)


def test_message_held_too_long_is_delivered_again(raw_channel: RawChannel, impatient: str) -> None:
    raw_channel.publish("", impatient, b"x")
    first = raw_channel.get(impatient, no_ack=False)
    second = raw_channel.get_soon(impatient, no_ack=False)

    assert (first.redelivered, second.redelivered) == (False, True)
    assert second.body == b"x"


def test_consumer_is_given_the_message_again_on_the_same_channel(
    raw_channel: RawChannel, impatient: str
) -> None:
    raw_channel.publish("", impatient, b"x")
    raw_channel.call("basic.consume", queue=impatient)

    assert [raw_channel.read().redelivered for _ in range(2)] == [False, True]


@pytest.mark.parametrize("method", ["basic.ack", "basic.nack", "basic.reject"])
def test_late_settlement_is_ignored(raw_channel: RawChannel, impatient: str, method: str) -> None:
    raw_channel.publish("", impatient, b"x")
    first = raw_channel.get(impatient, no_ack=False)
    raw_channel.get_soon(impatient)
    raw_channel.send(method, delivery_tag=first.delivery_tag)

    raw_channel.round_trip()


def test_tag_which_never_existed_is_still_refused(raw_channel: RawChannel, impatient: str) -> None:
    raw_channel.send("basic.ack", delivery_tag=99)

    raw_channel.expect_close(406)


def test_message_acknowledged_in_time_is_gone(
    raw: RawConnect, raw_channel: RawChannel, impatient: str, name: Namer
) -> None:
    raw_channel.publish("", impatient, b"x")
    got = raw_channel.get(impatient, no_ack=False)
    raw_channel.send("basic.ack", delivery_tag=got.delivery_tag)
    # A second queue with a longer time-out is the clock.
    clock = _declare(raw_channel, name(), ack_timeout=200)
    raw_channel.publish("", clock, b"tick")
    raw_channel.get(clock, no_ack=False)
    raw_channel.get_soon(clock)

    assert raw_channel.get(impatient) is None


def test_time_out_makes_room_in_the_prefetch(raw_channel: RawChannel, impatient: str) -> None:
    raw_channel.call("basic.qos", prefetch_count=1)
    raw_channel.call("basic.consume", queue=impatient)
    raw_channel.publish("", impatient, b"x")

    assert [raw_channel.read().delivery_tag for _ in range(3)] == [1, 2, 3]


def test_message_is_dead_lettered_when_the_queue_says_so(
    raw_channel: RawChannel, name: Namer
) -> None:
    grave = _declare(raw_channel, name("grave"))
    queue = _declare(
        raw_channel,
        name(),
        ack_timeout=100,
        ack_timeout_action="dead-letter",
        dead_letter_exchange="",
        dead_letter_routing_key=grave,
    )
    raw_channel.publish("", queue, b"x")
    held = raw_channel.get(queue, no_ack=False)

    letter = raw_channel.get_soon(grave)
    death = plain(letter.content.headers["x-death"])[0]
    assert (letter.body, death["reason"], death["queue"]) == (b"x", "ack_timeout", queue)
    raw_channel.send("basic.ack", delivery_tag=held.delivery_tag)
    raw_channel.round_trip()


def test_messages_of_other_queues_on_the_channel_are_left_alone(
    raw_channel: RawChannel, impatient: str, queue: str
) -> None:
    raw_channel.publish("", queue, b"patient")
    held = raw_channel.get(queue, no_ack=False)
    raw_channel.publish("", impatient, b"x")
    raw_channel.get(impatient, no_ack=False)
    raw_channel.get_soon(impatient)

    raw_channel.send("basic.ack", delivery_tag=held.delivery_tag)
    raw_channel.round_trip()
    assert raw_channel.get(queue) is None


def test_multiple_acknowledgement_over_a_timed_out_tag_settles_the_rest(
    raw_channel: RawChannel, impatient: str, queue: str
) -> None:
    raw_channel.publish("", impatient, b"late")
    raw_channel.get(impatient, no_ack=False)
    raw_channel.publish("", queue, b"patient")
    held = raw_channel.get(queue, no_ack=False)
    raw_channel.get_soon(impatient)
    raw_channel.send("basic.ack", delivery_tag=held.delivery_tag, multiple=True)

    raw_channel.round_trip()
    raw_channel.send("basic.ack", delivery_tag=held.delivery_tag)
    raw_channel.expect_close(406)
