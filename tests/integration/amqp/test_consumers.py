"""Consumers: tags, order of service, exclusiveness, and cancelling from either side."""

import re
from typing import Any

import pytest

from headrace.testing import wait_for
from support.amqp_observer import Inbox, channel_refused, consumers, publish_all, ready, take_all
from support.amqp_types import Channel, Connect, Connection, Namer, RawChannel, RawConnect
from support.raw_amqp import CAPABILITIES, ChannelClosed


def test_server_names_a_consumer_without_tag(raw_channel: RawChannel, queue: str) -> None:
    answer = raw_channel.call("basic.consume", queue=queue)

    assert re.fullmatch(r"amq\.ctag-[A-Za-z0-9_-]{22}", answer.consumer_tag)


def test_given_tag_is_kept_and_shown_in_deliveries(raw_channel: RawChannel, queue: str) -> None:
    raw_channel.publish("", queue, b"x")
    answer = raw_channel.call("basic.consume", queue=queue, consumer_tag="mine")

    assert answer.consumer_tag == "mine"
    assert raw_channel.read().consumer_tag == "mine"


def test_tag_used_twice_on_a_channel_closes_the_connection(
    raw_channel: RawChannel, queue: str
) -> None:
    raw_channel.call("basic.consume", queue=queue, consumer_tag="mine")
    raw_channel.send("basic.consume", queue=queue, consumer_tag="mine")

    raw_channel.client.expect_close(530)


def test_same_tag_on_two_channels_is_fine(raw: RawConnect, queue: str) -> None:
    client = raw()
    for number in (1, 2):
        channel = client.open_channel(number)
        answer = channel.call("basic.consume", queue=queue, consumer_tag="mine")
        assert answer.consumer_tag == "mine"


def test_cancelled_tag_can_be_used_again(raw_channel: RawChannel, queue: str) -> None:
    raw_channel.call("basic.consume", queue=queue, consumer_tag="mine")
    raw_channel.call("basic.cancel", consumer_tag="mine")

    answer = raw_channel.call("basic.consume", queue=queue, consumer_tag="mine")
    assert answer.name == "basic.consume-ok"


def test_consuming_a_missing_queue_is_refused(channel: Channel, name: Namer) -> None:
    with channel_refused(404):
        Inbox(channel, name())


def test_consume_ok_comes_before_the_first_delivery(raw_channel: RawChannel, queue: str) -> None:
    for _ in range(10):
        raw_channel.publish("", queue, b"x")

    assert raw_channel.call("basic.consume", queue=queue).name == "basic.consume-ok"
    assert raw_channel.read().name == "basic.deliver"


def test_consume_without_waiting_is_not_answered(raw_channel: RawChannel, queue: str) -> None:
    raw_channel.send("basic.consume", queue=queue, consumer_tag="mine", nowait=True)
    raw_channel.publish("", queue, b"x")

    assert raw_channel.read().name == "basic.deliver"


def test_delivery_shows_where_the_message_comes_from(channel: Channel, queue: str) -> None:
    inbox = Inbox(channel, queue)
    publish_all(channel, queue, "x")
    inbox.wait(1)

    method, _, body = inbox.deliveries[0]
    assert (method.exchange, method.routing_key, method.redelivered) == ("", queue, False)
    assert body == b"x"


def test_no_local_is_ignored(raw_channel: RawChannel, queue: str) -> None:
    raw_channel.call("basic.consume", queue=queue, no_local=True)
    raw_channel.publish("", queue, b"own")

    assert raw_channel.read().body == b"own"


def test_delivery_tags_count_deliveries_and_gets_of_the_channel(
    raw_channel: RawChannel, queue: str, name: Namer
) -> None:
    other = name()
    raw_channel.call("queue.declare", queue=other)
    for target in (other, other, queue):
        raw_channel.publish("", target, b"x")

    tags = [raw_channel.get(other, no_ack=False).delivery_tag, raw_channel.get(other).delivery_tag]
    raw_channel.call("basic.consume", queue=queue, no_ack=True)
    tags.append(raw_channel.read().delivery_tag)
    raw_channel.publish("", queue, b"x")
    tags.append(raw_channel.read().delivery_tag)
    assert tags == [1, 2, 3, 4]


# -- exclusive consumers


def test_exclusive_consumer_is_refused_when_there_is_another(
    connection: Connection, channel: Channel, queue: str
) -> None:
    Inbox(connection.channel(), queue)

    with channel_refused(403):
        Inbox(channel, queue, exclusive=True)


def test_any_consumer_is_refused_beside_an_exclusive_one(
    connection: Connection, channel: Channel, queue: str
) -> None:
    Inbox(connection.channel(), queue, exclusive=True)

    with channel_refused(403):
        Inbox(channel, queue)


def test_queue_is_free_again_after_the_exclusive_consumer_went(
    channel: Channel, queue: str
) -> None:
    inbox = Inbox(channel, queue, exclusive=True)
    channel.basic_cancel(inbox.tag)

    Inbox(channel, queue, exclusive=True)


def test_get_is_allowed_beside_an_exclusive_consumer(
    connection: Connection, channel: Channel, queue: str
) -> None:
    publish_all(channel, queue, "1", "2")
    consuming = connection.channel()
    consuming.basic_qos(prefetch_count=1)
    Inbox(consuming, queue, exclusive=True).wait(1)

    assert channel.basic_get(queue, auto_ack=True)[2] == b"2"


# -- order of service


def test_equal_consumers_are_served_in_turn(channel: Channel, queue: str) -> None:
    inboxes = [Inbox(channel, queue, auto_ack=True) for _ in range(3)]
    publish_all(channel, queue, *"123456")
    for inbox in inboxes:
        inbox.wait(2)

    assert [inbox.bodies for inbox in inboxes] == [["1", "4"], ["2", "5"], ["3", "6"]]


def test_higher_consumer_priority_is_served_first_while_it_has_room(
    connection: Connection, queue: str
) -> None:
    low, high = connection.channel(), connection.channel()
    for channel in (low, high):
        channel.basic_qos(prefetch_count=1 if channel is high else 10)
    low_inbox = Inbox(low, queue)
    high_inbox = Inbox(high, queue, arguments={"x-priority": 10})
    publish_all(low, queue, "1", "2", "3")

    assert low_inbox.wait(2) == ["2", "3"]
    assert high_inbox.wait(1) == ["1"]


def test_negative_consumer_priority_is_below_none(connection: Connection, queue: str) -> None:
    below, plain = connection.channel(), connection.channel()
    lower = Inbox(below, queue, arguments={"x-priority": -1})
    inbox = Inbox(plain, queue)
    publish_all(below, queue, "1", "2", "3")

    assert inbox.wait(3) == ["1", "2", "3"]
    assert lower.settled() == []


@pytest.mark.parametrize("priority", ["high", True, 1.5], ids=repr)
def test_consumer_priority_which_is_no_integer_is_refused(
    raw_channel: RawChannel, queue: str, priority: object
) -> None:
    with pytest.raises(ChannelClosed) as caught:
        raw_channel.call("basic.consume", queue=queue, arguments={"x-priority": priority})
    assert caught.value.code == 406


# -- single active consumer


@pytest.fixture
def single(channel: Channel, name: Namer) -> str:
    queue = name()
    channel.queue_declare(queue, arguments={"x-single-active-consumer": True})
    return queue


def test_first_consumer_alone_is_active(channel: Channel, single: str) -> None:
    first, second = Inbox(channel, single), Inbox(channel, single)
    publish_all(channel, single, "1", "2", "3")

    assert first.wait(3) == ["1", "2", "3"]
    assert second.settled() == []


def test_next_consumer_takes_over_when_the_active_one_is_cancelled(
    channel: Channel, single: str
) -> None:
    first, second, third = (Inbox(channel, single) for _ in range(3))
    publish_all(channel, single, "1")
    first.wait(1)

    channel.basic_cancel(first.tag)
    publish_all(channel, single, "2")
    assert second.wait(1) == ["2"]
    assert third.settled() == []


def test_unacknowledged_messages_go_to_the_next_when_the_active_channel_closes(
    connection: Connection, channel: Channel, single: str
) -> None:
    active = connection.channel()
    first = Inbox(active, single)
    second = Inbox(channel, single)
    publish_all(channel, single, "1", "2")
    first.wait(2)

    active.close()
    assert second.wait(2) == ["1", "2"]
    assert second.deliveries[0][0].redelivered


def test_exclusive_consumer_on_a_single_active_queue_is_refused(
    channel: Channel, single: str
) -> None:
    with channel_refused(403):
        Inbox(channel, single, exclusive=True)


# -- cancelling


def test_cancelled_consumer_gets_nothing_more(channel: Channel, queue: str) -> None:
    inbox = Inbox(channel, queue)
    channel.basic_cancel(inbox.tag)
    publish_all(channel, queue, "x")

    assert inbox.settled() == []
    wait_for(lambda: ready(channel, queue) == 1)


def test_cancelling_an_unknown_tag_is_answered(raw_channel: RawChannel) -> None:
    answer = raw_channel.call("basic.cancel", consumer_tag="nobody")

    assert (answer.name, answer.consumer_tag) == ("basic.cancel-ok", "nobody")


def test_cancel_without_waiting_is_not_answered(raw_channel: RawChannel, queue: str) -> None:
    raw_channel.call("basic.consume", queue=queue, consumer_tag="mine")
    raw_channel.send("basic.cancel", consumer_tag="mine", nowait=True)

    assert raw_channel.call("queue.declare", queue=queue, passive=True).consumer_count == 0


def test_messages_of_a_cancelled_consumer_stay_with_the_channel(
    raw_channel: RawChannel, queue: str
) -> None:
    raw_channel.publish("", queue, b"x")
    raw_channel.call("basic.consume", queue=queue, consumer_tag="mine")
    tag = raw_channel.read().delivery_tag
    raw_channel.call("basic.cancel", consumer_tag="mine")

    assert raw_channel.get(queue) is None
    raw_channel.send("basic.ack", delivery_tag=tag)
    assert raw_channel.call("queue.declare", queue=queue, passive=True).message_count == 0


def test_messages_of_a_cancelled_consumer_return_when_the_channel_closes(
    raw: RawConnect, channel: Channel, queue: str
) -> None:
    publish_all(channel, queue, "x")
    other = raw().open_channel()
    other.call("basic.consume", queue=queue, consumer_tag="mine")
    other.read()
    other.call("basic.cancel", consumer_tag="mine")

    other.call("channel.close")
    wait_for(lambda: take_all(channel, queue) == [b"x"])


def test_deleting_the_queue_cancels_its_consumers(
    raw_channel: RawChannel, channel: Channel, queue: str
) -> None:
    raw_channel.call("basic.consume", queue=queue, consumer_tag="mine")
    channel.queue_delete(queue)

    notice = raw_channel.read()
    assert (notice.name, notice.consumer_tag, notice.nowait) == ("basic.cancel", "mine", True)


def test_delete_ok_comes_before_the_cancels_of_the_same_channel(
    raw_channel: RawChannel, queue: str
) -> None:
    raw_channel.call("basic.consume", queue=queue, consumer_tag="one")
    raw_channel.call("basic.consume", queue=queue, consumer_tag="two")

    raw_channel.send("queue.delete", queue=queue)

    assert raw_channel.read().name == "queue.delete-ok"
    assert {raw_channel.read().consumer_tag for _ in range(2)} == {"one", "two"}


def test_a_client_without_the_capability_gets_no_cancel(
    raw: RawConnect, channel: Channel, queue: str
) -> None:
    silent: dict[str, Any] = {
        "capabilities": {**CAPABILITIES, "consumer_cancel_notify": False},
    }
    other = raw(properties=silent).open_channel()
    other.call("basic.consume", queue=queue, consumer_tag="mine")
    channel.queue_delete(queue)

    for _ in range(5):
        assert other.call("channel.flow", active=True).name == "channel.flow-ok"


def test_consumers_are_counted_down_when_their_connection_is_cut(
    raw: RawConnect, channel: Channel, queue: str
) -> None:
    client = raw()
    client.open_channel().call("basic.consume", queue=queue)
    assert consumers(channel, queue) == 1

    client.cut()
    wait_for(lambda: consumers(channel, queue) == 0)


def test_consumers_of_two_connections_share_a_queue(
    connect: Connect, channel: Channel, queue: str
) -> None:
    other = connect().channel()
    here, there = Inbox(channel, queue, auto_ack=True), Inbox(other, queue, auto_ack=True)
    publish_all(channel, queue, "1", "2")

    assert here.wait(1) + there.wait(1) == ["1", "2"]
