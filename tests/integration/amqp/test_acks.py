"""Acknowledging, rejecting and returning messages."""

import pytest

from headrace.testing import wait_for
from support.amqp_observer import Inbox, publish_all, ready, take_all
from support.amqp_types import Channel, Connection, RawChannel, RawConnect


@pytest.fixture
def held(raw_channel: RawChannel, queue: str) -> str:
    """The queue, of whose five messages the channel holds 1, 2 and 3 under those tags."""
    for body in (b"1", b"2", b"3", b"4", b"5"):
        raw_channel.publish("", queue, body)
    for _ in range(3):
        raw_channel.get(queue, no_ack=False)
    return queue


def _ready(channel: RawChannel, queue: str) -> int:
    return int(channel.call("queue.declare", queue=queue, passive=True).message_count)


def _bodies(channel: RawChannel, queue: str) -> list[bytes]:
    bodies = []
    while (got := channel.get(queue)) is not None:
        bodies.append(got.body)
    return bodies


def test_acknowledged_message_is_gone(raw: RawConnect, channel: Channel, queue: str) -> None:
    publish_all(channel, queue, "x")
    other = raw().open_channel()
    got = other.get(queue, no_ack=False)
    other.send("basic.ack", delivery_tag=got.delivery_tag)
    other.call("channel.close")

    assert ready(channel, queue) == 0


def test_unacknowledged_messages_return_when_the_channel_closes(
    raw: RawConnect, channel: Channel, queue: str
) -> None:
    publish_all(channel, queue, "1", "2", "3")
    other = raw().open_channel()
    for _ in range(2):
        other.get(queue, no_ack=False)
    other.call("channel.close")

    wait_for(lambda: ready(channel, queue) == 3)
    assert take_all(channel, queue) == [b"1", b"2", b"3"]


def test_unacknowledged_messages_return_when_the_connection_is_cut(
    raw: RawConnect, channel: Channel, queue: str
) -> None:
    publish_all(channel, queue, "1", "2")
    client = raw()
    client.open_channel().get(queue, no_ack=False)
    client.cut()

    wait_for(lambda: ready(channel, queue) == 2)
    method, _, body = channel.basic_get(queue)
    assert (method.redelivered, body) == (True, b"1")


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("basic.ack", {"delivery_tag": 9}),
        ("basic.ack", {"delivery_tag": 9, "multiple": True}),
        ("basic.nack", {"delivery_tag": 9}),
        ("basic.nack", {"delivery_tag": 9, "requeue": True}),
        ("basic.reject", {"delivery_tag": 9}),
        ("basic.ack", {"delivery_tag": 0}),
        ("basic.nack", {"delivery_tag": 0}),
        ("basic.reject", {"delivery_tag": 0}),
    ],
    ids=str,
)
def test_unknown_tag_is_refused(
    raw_channel: RawChannel, held: str, method: str, arguments: dict[str, int]
) -> None:
    raw_channel.send(method, **arguments)

    close = raw_channel.expect_close(406)
    assert close.text.startswith("PRECONDITION_FAILED - unknown delivery tag")


@pytest.mark.parametrize("method", ["basic.ack", "basic.nack", "basic.reject"])
def test_tag_already_settled_is_refused(raw_channel: RawChannel, held: str, method: str) -> None:
    raw_channel.send("basic.ack", delivery_tag=2)
    raw_channel.send(method, delivery_tag=2)

    assert raw_channel.expect_close(406).text == "PRECONDITION_FAILED - unknown delivery tag 2"


def test_tag_of_another_channel_is_refused(raw_channel: RawChannel, held: str) -> None:
    other = raw_channel.client.open_channel(2)
    other.send("basic.ack", delivery_tag=1)

    other.expect_close(406)


def test_tag_of_a_delivery_without_acknowledgement_is_refused(
    raw_channel: RawChannel, queue: str
) -> None:
    raw_channel.publish("", queue, b"x")
    got = raw_channel.get(queue, no_ack=True)
    raw_channel.send("basic.ack", delivery_tag=got.delivery_tag)

    raw_channel.expect_close(406)


def test_refused_tag_returns_what_the_channel_held(
    raw_channel: RawChannel, channel: Channel, held: str
) -> None:
    raw_channel.send("basic.ack", delivery_tag=99)
    raw_channel.expect_close(406)

    wait_for(lambda: ready(channel, held) == 5)


def test_acknowledgements_may_come_in_any_order(raw_channel: RawChannel, held: str) -> None:
    for tag in (3, 1, 2):
        raw_channel.send("basic.ack", delivery_tag=tag)

    raw_channel.round_trip()
    assert _ready(raw_channel, held) == 2


def test_multiple_settles_everything_up_to_the_tag(
    raw_channel: RawChannel, channel: Channel, held: str
) -> None:
    raw_channel.send("basic.ack", delivery_tag=2, multiple=True)
    raw_channel.call("channel.close")

    wait_for(lambda: ready(channel, held) == 3)
    assert take_all(channel, held) == [b"3", b"4", b"5"]


@pytest.mark.parametrize("method", ["basic.ack", "basic.nack"])
def test_multiple_with_tag_zero_settles_everything(
    raw_channel: RawChannel, channel: Channel, held: str, method: str
) -> None:
    raw_channel.send(method, delivery_tag=0, multiple=True)
    raw_channel.call("channel.close")

    wait_for(lambda: ready(channel, held) == 2)


@pytest.mark.parametrize("method", ["basic.ack", "basic.nack"])
def test_multiple_with_tag_zero_and_nothing_held_is_no_error(
    raw_channel: RawChannel, method: str
) -> None:
    raw_channel.send(method, delivery_tag=0, multiple=True)

    raw_channel.round_trip()


def test_multiple_with_a_tag_and_nothing_held_is_refused(raw_channel: RawChannel) -> None:
    raw_channel.send("basic.ack", delivery_tag=5, multiple=True)

    raw_channel.expect_close(406)


def test_multiple_skips_what_is_settled_already(
    raw_channel: RawChannel, channel: Channel, held: str
) -> None:
    raw_channel.send("basic.nack", delivery_tag=2, requeue=True)
    raw_channel.send("basic.ack", delivery_tag=3, multiple=True)

    raw_channel.round_trip()
    assert _bodies(raw_channel, held) == [b"2", b"4", b"5"]


# -- returning


@pytest.mark.parametrize("method", ["basic.nack", "basic.reject"])
def test_requeued_message_takes_its_old_place(
    raw_channel: RawChannel, held: str, method: str
) -> None:
    raw_channel.send(method, delivery_tag=2, requeue=True)

    assert _bodies(raw_channel, held) == [b"2", b"4", b"5"]


def test_messages_requeued_together_keep_their_order(raw_channel: RawChannel, held: str) -> None:
    raw_channel.send("basic.nack", delivery_tag=3, multiple=True, requeue=True)

    assert _bodies(raw_channel, held) == [b"1", b"2", b"3", b"4", b"5"]


def test_messages_requeued_one_by_one_are_ordered_again(raw_channel: RawChannel, held: str) -> None:
    for tag in (3, 1, 2):
        raw_channel.send("basic.nack", delivery_tag=tag, requeue=True)

    assert _bodies(raw_channel, held) == [b"1", b"2", b"3", b"4", b"5"]


@pytest.mark.parametrize("method", ["basic.nack", "basic.reject"])
def test_message_not_requeued_is_gone(raw_channel: RawChannel, held: str, method: str) -> None:
    raw_channel.send(method, delivery_tag=1, requeue=False)
    raw_channel.send("basic.nack", delivery_tag=3, multiple=True, requeue=True)

    assert _bodies(raw_channel, held) == [b"2", b"3", b"4", b"5"]


def test_requeued_message_is_marked_redelivered_from_then_on(
    raw_channel: RawChannel, queue: str
) -> None:
    raw_channel.publish("", queue, b"x")
    marks = []
    for _ in range(3):
        got = raw_channel.get(queue, no_ack=False)
        marks.append(got.redelivered)
        raw_channel.send("basic.nack", delivery_tag=got.delivery_tag, requeue=True)

    assert marks == [False, True, True]


def test_message_which_was_never_delivered_is_not_marked(
    raw_channel: RawChannel, held: str
) -> None:
    raw_channel.send("basic.nack", delivery_tag=3, multiple=True, requeue=True)

    marks = [raw_channel.get(held).redelivered for _ in range(5)]
    assert marks == [True, True, True, False, False]


def test_requeued_message_goes_to_another_consumer_of_the_queue(
    connection: Connection, channel: Channel, queue: str
) -> None:
    other = connection.channel()
    first = Inbox(channel, queue)
    publish_all(channel, queue, "x")
    first.wait(1)
    second = Inbox(other, queue)
    channel.basic_nack(first.tags[0])

    # Either may get it, in the order of service; nobody may lose it.
    wait_for(lambda: len(first.settled()) + len(second.settled()) == 2)


def test_delivery_tags_go_on_after_a_return(raw_channel: RawChannel, held: str) -> None:
    raw_channel.send("basic.nack", delivery_tag=3, multiple=True, requeue=True)

    assert raw_channel.get(held).delivery_tag == 4


# -- recover


def test_recover_returns_everything_the_channel_holds(raw_channel: RawChannel, held: str) -> None:
    assert raw_channel.call("basic.recover", requeue=True).name == "basic.recover-ok"

    got = raw_channel.get(held)
    assert (got.body, got.redelivered) == (b"1", True)
    assert _bodies(raw_channel, held) == [b"2", b"3", b"4", b"5"]


def test_recover_forgets_the_old_tags(raw_channel: RawChannel, held: str) -> None:
    raw_channel.call("basic.recover", requeue=True)
    raw_channel.send("basic.ack", delivery_tag=1)

    raw_channel.expect_close(406)


def test_recover_delivers_again_to_the_consumer(raw_channel: RawChannel, queue: str) -> None:
    raw_channel.publish("", queue, b"x")
    raw_channel.call("basic.consume", queue=queue)
    assert not raw_channel.read().redelivered
    raw_channel.send("basic.recover", requeue=True)

    methods = {method.name: method for method in (raw_channel.read(), raw_channel.read())}
    assert methods["basic.deliver"].redelivered
    assert "basic.recover-ok" in methods


def test_recover_without_requeue_is_not_implemented(raw_channel: RawChannel) -> None:
    raw_channel.send("basic.recover", requeue=False)

    raw_channel.client.expect_close(540)


def test_recover_async_is_not_answered(raw_channel: RawChannel, held: str) -> None:
    raw_channel.send("basic.recover-async", requeue=True)

    assert _bodies(raw_channel, held) == [b"1", b"2", b"3", b"4", b"5"]
