"""Channels: opening, closing, errors, and what stays inside one."""

import pytest

from headrace.testing import wait_for
from support.amqp_observer import ready
from support.amqp_types import Channel, Namer, RawChannel, RawClient, RawConnect
from support.raw_amqp import ChannelClosed, NothingCame


def _break(channel: RawChannel, name: Namer) -> None:
    """Makes the broker close the channel, and leaves its close unanswered."""
    with pytest.raises(ChannelClosed):
        channel.call("queue.declare", queue=name(), passive=True)


def test_close_is_answered(raw_channel: RawChannel) -> None:
    assert raw_channel.call("channel.close").name == "channel.close-ok"


def test_closed_number_can_be_opened_again(raw_channel: RawChannel) -> None:
    for _ in range(3):
        raw_channel.call("channel.close")
        assert raw_channel.call("channel.open").name == "channel.open-ok"


def test_a_refusal_has_code_text_and_method(raw_channel: RawChannel, name: Namer) -> None:
    queue = name()
    with pytest.raises(ChannelClosed) as caught:
        raw_channel.call("queue.purge", queue=queue)

    close = caught.value.close
    assert close.code == 404
    assert close.text == f"NOT_FOUND - no queue '{queue}' in vhost '/'"
    assert (close.class_id, close.method_id) == (50, 30)


def test_long_name_in_a_refusal_is_cut_to_a_short_string(raw_channel: RawChannel) -> None:
    with pytest.raises(ChannelClosed) as caught:
        raw_channel.call("queue.purge", queue="n" * 255)

    assert caught.value.text.startswith("NOT_FOUND - no queue 'nnn")
    assert len(caught.value.text) <= 255


def test_number_can_be_opened_again_after_a_refusal_was_answered(
    raw_channel: RawChannel, name: Namer
) -> None:
    for _ in range(3):
        _break(raw_channel, name)
        raw_channel.send("channel.close-ok")
        assert raw_channel.call("channel.open").name == "channel.open-ok"


def test_everything_after_a_refusal_is_ignored_until_it_is_answered(
    raw_channel: RawChannel, name: Namer, queue: str
) -> None:
    _break(raw_channel, name)
    raw_channel.publish("", queue, b"ignored")
    raw_channel.send("queue.delete", queue=queue)
    raw_channel.send("basic.get", queue=queue)
    raw_channel.send("channel.close-ok")

    assert raw_channel.call("channel.open").name == "channel.open-ok"
    answer = raw_channel.call("queue.declare", queue=queue, passive=True)
    assert answer.message_count == 0


def test_close_which_crosses_a_refusal_is_answered(raw_channel: RawChannel, name: Namer) -> None:
    _break(raw_channel, name)

    assert raw_channel.call("channel.close").name == "channel.close-ok"


def test_opening_before_the_refusal_was_answered_closes_the_connection(
    raw_channel: RawChannel, name: Namer
) -> None:
    _break(raw_channel, name)
    raw_channel.send("channel.open")

    raw_channel.client.expect_close(504)


def test_refusal_leaves_other_channels_alone(raw: RawConnect, name: Namer, queue: str) -> None:
    client = raw()
    broken, whole = client.open_channel(1), client.open_channel(2)
    _break(broken, name)

    whole.publish("", queue, b"x")
    assert whole.get(queue) is not None


def test_closing_returns_messages_marked_as_redelivered(
    raw: RawConnect, channel: Channel, queue: str
) -> None:
    channel.basic_publish("", queue, b"x")
    other = raw().open_channel()
    other.get_soon(queue, no_ack=False)
    other.call("channel.close")

    wait_for(lambda: ready(channel, queue) == 1)
    assert channel.basic_get(queue)[0].redelivered


def test_closing_removes_its_consumers(raw: RawConnect, channel: Channel, queue: str) -> None:
    other = raw().open_channel()
    other.call("basic.consume", queue=queue)
    other.call("channel.close")

    answer = channel.queue_declare(queue, passive=True)
    assert answer.method.consumer_count == 0


def test_refusal_removes_the_consumers_of_the_channel(
    raw: RawConnect, channel: Channel, name: Namer, queue: str
) -> None:
    other = raw().open_channel()
    other.call("basic.consume", queue=queue)
    _break(other, name)

    wait_for(lambda: channel.queue_declare(queue, passive=True).method.consumer_count == 0)


def test_reopened_channel_counts_its_tags_from_one(raw_channel: RawChannel, queue: str) -> None:
    for _ in range(2):
        raw_channel.publish("", queue, b"x")
        assert raw_channel.get(queue).delivery_tag == 1
        raw_channel.call("channel.close")
        raw_channel.call("channel.open")


def test_reopened_channel_has_forgotten_its_prefetch(raw_channel: RawChannel, queue: str) -> None:
    raw_channel.call("basic.qos", prefetch_count=1)
    raw_channel.call("channel.close")
    raw_channel.call("channel.open")
    for _ in range(3):
        raw_channel.publish("", queue, b"x")
    raw_channel.call("basic.consume", queue=queue)

    assert [raw_channel.read().delivery_tag for _ in range(3)] == [1, 2, 3]


def test_methods_are_answered_in_order(raw_channel: RawChannel, queue: str) -> None:
    raw_channel.send("queue.declare", queue=queue, passive=True)
    raw_channel.send("basic.qos", prefetch_count=5)
    raw_channel.publish("", queue, b"x")
    raw_channel.send("basic.get", queue=queue)
    raw_channel.send("queue.purge", queue=queue)

    names = [raw_channel.read().name for _ in range(4)]
    assert names == ["queue.declare-ok", "basic.qos-ok", "basic.get-ok", "queue.purge-ok"]


def test_frames_of_two_channels_may_interleave(raw: RawConnect, queue: str) -> None:
    client = raw()
    one, two = client.open_channel(1), client.open_channel(2)
    first = _frames(one.publish_bytes("", queue, b"one"))
    second = _frames(two.publish_bytes("", queue, b"two"))
    for pair in zip(first, second, strict=True):
        client.send(b"".join(pair))

    assert {one.get(queue).body, two.get_soon(queue).body} == {b"one", b"two"}


def test_flow_on_is_answered(raw_channel: RawChannel) -> None:
    answer = raw_channel.call("channel.flow", active=True)

    assert (answer.name, answer.active) == ("channel.flow-ok", True)


def test_flow_off_is_not_implemented(raw_channel: RawChannel) -> None:
    raw_channel.send("channel.flow", active=False)

    raw_channel.client.expect_close(540)


def test_access_request_is_answered_with_ticket_one(raw_channel: RawChannel) -> None:
    answer = raw_channel.call("access.request", realm="/data", active=True, read=True)

    assert (answer.name, answer.ticket) == ("access.request-ok", 1)


def test_ticket_of_a_method_is_ignored(raw_channel: RawChannel, queue: str) -> None:
    answer = raw_channel.call("queue.purge", ticket=77, queue=queue)

    assert answer.name == "queue.purge-ok"


def test_high_channel_number_can_be_opened(raw: RawConnect) -> None:
    client = raw()
    for number in (3000, 65535):
        client.open_channel(number)


def test_one_channel_too_many_closes_the_connection(raw: RawConnect) -> None:
    client = raw(channel_max=3)
    for number in (1, 2, 3):
        client.open_channel(number)
    client.send_method(4, "channel.open")

    client.expect_close(530)


def test_closed_channels_do_not_count_against_the_maximum(raw: RawConnect) -> None:
    client = raw(channel_max=2)
    for number in range(1, 10):
        client.open_channel(number).call("channel.close")

    client.open_channel(20)


def test_quiet_channel_hears_nothing(raw: RawConnect) -> None:
    client: RawClient = raw()
    client.open_channel()

    with pytest.raises(NothingCame):
        client.read_frame(limit=0.05)


def _frames(data: bytes) -> list[bytes]:
    frames = []
    while data:
        size = int.from_bytes(data[3:7], "big") + 8
        frames.append(data[:size])
        data = data[size:]
    return frames
