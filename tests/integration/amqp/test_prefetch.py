"""Prefetch: how many unacknowledged messages a consumer or a channel may hold."""

from typing import Any

import pytest

from headrace.testing import wait_for
from support.amqp_observer import Inbox, publish_all, ready
from support.amqp_types import Channel, Namer, RawChannel


def test_consumer_gets_no_more_than_its_prefetch(channel: Channel, queue: str) -> None:
    channel.basic_qos(prefetch_count=2)
    inbox = Inbox(channel, queue)
    publish_all(channel, queue, "1", "2", "3", "4")
    inbox.wait(2)

    assert inbox.settled() == ["1", "2"]
    wait_for(lambda: ready(channel, queue) == 2)


def test_each_acknowledgement_makes_room_for_one(channel: Channel, queue: str) -> None:
    channel.basic_qos(prefetch_count=2)
    inbox = Inbox(channel, queue)
    publish_all(channel, queue, "1", "2", "3", "4")
    inbox.wait(2)

    channel.basic_ack(inbox.tags[0])
    inbox.wait(3)
    assert inbox.settled() == ["1", "2", "3"]


def test_multiple_acknowledgement_makes_room_for_all(channel: Channel, queue: str) -> None:
    channel.basic_qos(prefetch_count=2)
    inbox = Inbox(channel, queue)
    publish_all(channel, queue, *"12345")
    inbox.wait(2)

    channel.basic_ack(inbox.tags[1], multiple=True)
    inbox.wait(4)
    assert inbox.settled() == ["1", "2", "3", "4"]


@pytest.mark.parametrize("how", ["nack", "reject"])
def test_discarding_makes_room_too(channel: Channel, queue: str, how: str) -> None:
    channel.basic_qos(prefetch_count=1)
    inbox = Inbox(channel, queue)
    publish_all(channel, queue, "1", "2")
    inbox.wait(1)

    if how == "nack":
        channel.basic_nack(inbox.tags[0], requeue=False)
    else:
        channel.basic_reject(inbox.tags[0], requeue=False)
    assert inbox.wait(2) == ["1", "2"]


def test_limit_is_per_consumer_by_default(channel: Channel, queue: str) -> None:
    channel.basic_qos(prefetch_count=3)
    first, second = Inbox(channel, queue), Inbox(channel, queue)
    publish_all(channel, queue, *"12345678")
    first.wait(3)
    second.wait(3)

    assert len(first.settled()) == len(second.settled()) == 3


def test_global_limit_is_shared_by_the_consumers_of_the_channel(
    channel: Channel, queue: str
) -> None:
    channel.basic_qos(prefetch_count=3, global_qos=True)
    first, second = Inbox(channel, queue), Inbox(channel, queue)
    publish_all(channel, queue, *"12345678")
    first.wait(2)
    second.wait(1)

    assert len(first.settled()) + len(second.settled()) == 3


def test_global_limit_makes_room_again(channel: Channel, queue: str) -> None:
    channel.basic_qos(prefetch_count=1, global_qos=True)
    inbox = Inbox(channel, queue)
    publish_all(channel, queue, "1", "2")
    inbox.wait(1)

    channel.basic_ack(inbox.tags[0])
    assert inbox.wait(2) == ["1", "2"]


def test_new_limit_does_not_concern_existing_consumers(channel: Channel, queue: str) -> None:
    channel.basic_qos(prefetch_count=1)
    first = Inbox(channel, queue)
    channel.basic_qos(prefetch_count=2)
    second = Inbox(channel, queue)
    publish_all(channel, queue, *"12345")
    first.wait(1)
    second.wait(2)

    assert (len(first.settled()), len(second.settled())) == (1, 2)


def test_both_limits_hold_together(channel: Channel, queue: str) -> None:
    channel.basic_qos(prefetch_count=2)
    channel.basic_qos(prefetch_count=3, global_qos=True)
    first, second = Inbox(channel, queue), Inbox(channel, queue)
    publish_all(channel, queue, *"12345678")
    first.wait(1)
    second.wait(1)

    counts = [len(first.settled()), len(second.settled())]
    assert sum(counts) == 3
    assert max(counts) == 2


def test_zero_means_no_limit(channel: Channel, queue: str) -> None:
    channel.basic_qos(prefetch_count=1)
    channel.basic_qos(prefetch_count=0)
    inbox = Inbox(channel, queue)
    publish_all(channel, queue, *"123456789")

    assert len(inbox.wait(9)) == 9


def test_consumer_without_acknowledgements_is_not_limited(channel: Channel, queue: str) -> None:
    channel.basic_qos(prefetch_count=1)
    inbox = Inbox(channel, queue, auto_ack=True)
    publish_all(channel, queue, "1", "2", "3")

    assert inbox.wait(3) == ["1", "2", "3"]


def test_get_is_not_limited(channel: Channel, queue: str) -> None:
    channel.basic_qos(prefetch_count=1)
    publish_all(channel, queue, "1", "2")

    assert [channel.basic_get(queue)[2] for _ in range(2)] == [b"1", b"2"]


def test_a_full_consumer_does_not_block_others(channel: Channel, queue: str) -> None:
    channel.basic_qos(prefetch_count=1)
    full = Inbox(channel, queue)
    channel.basic_qos(prefetch_count=0)
    open_ = Inbox(channel, queue)
    publish_all(channel, queue, "1", "2", "3", "4")

    assert open_.wait(3) == ["2", "3", "4"]
    assert full.settled() == ["1"]


def test_limit_in_bytes_is_not_implemented(raw_channel: RawChannel) -> None:
    raw_channel.send("basic.qos", prefetch_size=1)

    raw_channel.client.expect_close(540)


def test_queues_take_turns_under_a_limit_of_the_channel(channel: Channel, name: Namer) -> None:
    channel.basic_qos(prefetch_count=1, global_qos=True)
    queues = [name() for _ in range(3)]
    for queue in queues:
        channel.queue_declare(queue)
        publish_all(channel, queue, *[queue] * 4)
        wait_for(lambda queue=queue: ready(channel, queue) == 4)
    bodies: list[str] = []

    def settle(channel: Channel, method: Any, _: Any, body: bytes) -> None:  # noqa: ANN401
        bodies.append(body.decode())
        channel.basic_ack(method.delivery_tag)

    for queue in queues:
        channel.basic_consume(queue, settle)

    wait_for(lambda: channel.connection.process_data_events() or len(bodies) >= 6)
    assert set(bodies[:6]) == set(queues)


def test_consumer_without_acks_waits_while_the_channel_is_full(
    channel: Channel, name: Namer, queue: str
) -> None:
    channel.basic_qos(prefetch_count=1, global_qos=True)
    first = Inbox(channel, queue)
    publish_all(channel, queue, "held")
    first.wait(1)
    other = name()
    channel.queue_declare(other)
    second = Inbox(channel, other, auto_ack=True)
    publish_all(channel, other, "later")
    assert second.settled() == []

    channel.basic_ack(first.tags[0])
    assert second.wait(1) == ["later"]
