"""Queues with priorities: higher first, equal ones in order."""

import pytest

from support.amqp_observer import Inbox, publish_all, take_all, take_soon
from support.amqp_types import Channel, Namer


@pytest.fixture
def ranked(channel: Channel, name: Namer) -> str:
    queue = name()
    channel.queue_declare(queue, arguments={"x-max-priority": 5})
    return queue


def test_higher_priority_comes_first(channel: Channel, ranked: str) -> None:
    for priority in (1, 5, 3):
        publish_all(channel, ranked, str(priority), priority=priority)

    assert take_all(channel, ranked) == [b"5", b"3", b"1"]


def test_equal_priority_keeps_the_order(channel: Channel, ranked: str) -> None:
    publish_all(channel, ranked, "a", "b", "c", priority=2)

    assert take_all(channel, ranked) == [b"a", b"b", b"c"]


def test_no_priority_counts_as_zero(channel: Channel, ranked: str) -> None:
    publish_all(channel, ranked, "none")
    publish_all(channel, ranked, "zero", priority=0)
    publish_all(channel, ranked, "one", priority=1)

    assert take_all(channel, ranked) == [b"one", b"none", b"zero"]


def test_priority_above_the_maximum_is_ordered_as_the_maximum(
    channel: Channel, ranked: str
) -> None:
    publish_all(channel, ranked, "five", priority=5)
    publish_all(channel, ranked, "nine", priority=9)

    assert take_all(channel, ranked) == [b"five", b"nine"]


def test_priority_above_the_maximum_is_shown_as_sent(channel: Channel, ranked: str) -> None:
    publish_all(channel, ranked, "nine", priority=9)

    assert take_soon(channel, ranked)[1].priority == 9


def test_priority_is_ignored_without_the_argument(channel: Channel, queue: str) -> None:
    publish_all(channel, queue, "low", priority=0)
    publish_all(channel, queue, "high", priority=9)

    assert take_all(channel, queue) == [b"low", b"high"]


def test_consumer_gets_the_higher_priority_first(channel: Channel, ranked: str) -> None:
    for priority in (0, 4, 2):
        publish_all(channel, ranked, str(priority), priority=priority)
    inbox = Inbox(channel, ranked)

    assert inbox.wait(3) == ["4", "2", "0"]


def test_requeued_message_goes_back_to_its_level(channel: Channel, ranked: str) -> None:
    publish_all(channel, ranked, "low", priority=1)
    publish_all(channel, ranked, "high", priority=3)
    method, _, _ = channel.basic_get(ranked)
    publish_all(channel, ranked, "higher", priority=4)

    channel.basic_nack(method.delivery_tag)
    assert take_all(channel, ranked) == [b"higher", b"high", b"low"]


def test_full_queue_drops_from_its_head_even_a_higher_priority(
    channel: Channel, name: Namer
) -> None:
    queue = name()
    channel.queue_declare(queue, arguments={"x-max-priority": 5, "x-max-length": 2})
    for priority in (5, 1, 3):
        publish_all(channel, queue, str(priority), priority=priority)

    assert take_all(channel, queue) == [b"3", b"1"]
