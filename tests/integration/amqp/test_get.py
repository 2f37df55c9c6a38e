"""Taking single messages by basic.get."""

import pytest

from support.amqp_types import Namer, RawChannel
from support.raw_amqp import ChannelClosed


def test_empty_queue_answers_get_empty(raw_channel: RawChannel, queue: str) -> None:
    assert raw_channel.call("basic.get", queue=queue).name == "basic.get-empty"


def test_count_is_what_is_left(raw_channel: RawChannel, queue: str) -> None:
    for _ in range(3):
        raw_channel.publish("", queue, b"x")

    assert [raw_channel.get(queue).message_count for _ in range(3)] == [2, 1, 0]


def test_count_leaves_out_what_others_hold(raw_channel: RawChannel, queue: str) -> None:
    for _ in range(3):
        raw_channel.publish("", queue, b"x")
    raw_channel.get(queue, no_ack=False)

    assert raw_channel.get(queue, no_ack=False).message_count == 1


def test_missing_queue_is_refused(raw_channel: RawChannel, name: Namer) -> None:
    with pytest.raises(ChannelClosed) as caught:
        raw_channel.call("basic.get", queue=name())
    assert caught.value.code == 404


def test_message_taken_without_acknowledgement_is_gone(raw_channel: RawChannel, queue: str) -> None:
    raw_channel.publish("", queue, b"x")
    raw_channel.get(queue, no_ack=True)
    raw_channel.call("basic.recover", requeue=True)

    assert raw_channel.get(queue) is None


def test_message_taken_with_acknowledgement_is_held(raw_channel: RawChannel, queue: str) -> None:
    raw_channel.publish("", queue, b"x")
    got = raw_channel.get(queue, no_ack=False)

    assert raw_channel.get(queue) is None
    raw_channel.send("basic.nack", delivery_tag=got.delivery_tag, requeue=True)
    assert raw_channel.get(queue).body == b"x"


def test_get_ok_shows_where_the_message_comes_from(raw_channel: RawChannel, queue: str) -> None:
    raw_channel.call("queue.bind", queue=queue, exchange="amq.topic", routing_key=f"{queue}.*")
    raw_channel.publish("amq.topic", f"{queue}.k", b"x")

    got = raw_channel.get(queue)
    assert (got.exchange, got.routing_key, got.redelivered) == ("amq.topic", f"{queue}.k", False)
