"""Publisher confirms: one answer for every publish."""

import pytest

from support.amqp_types import Namer, RawChannel, RawConnect
from support.raw_amqp import ChannelClosed, NothingCame


def _confirmed(channel: RawChannel, count: int) -> set[int]:
    """Reads acks until the numbers up to `count` are covered."""
    covered: set[int] = set()
    while len(covered) < count:
        ack = channel.read()
        assert ack.name == "basic.ack", ack
        last = ack.delivery_tag
        new = set(range(1, last + 1)) - covered if ack.multiple else {last}
        assert not new & covered, f"{last} was confirmed twice"
        covered |= new
    return covered


def test_select_is_answered_and_may_be_repeated(raw_channel: RawChannel) -> None:
    for _ in range(2):
        assert raw_channel.call("confirm.select").name == "confirm.select-ok"


def test_select_without_waiting_is_not_answered(raw_channel: RawChannel, queue: str) -> None:
    raw_channel.send("confirm.select", nowait=True)
    raw_channel.publish("", queue, b"x")

    assert raw_channel.read().name == "basic.ack"


def test_numbers_start_at_one_with_the_first_publish_after_select(
    raw_channel: RawChannel, queue: str
) -> None:
    raw_channel.publish("", queue, b"before")
    raw_channel.call("confirm.select")
    raw_channel.publish("", queue, b"after")

    assert raw_channel.read().delivery_tag == 1


def test_repeated_select_does_not_restart_the_numbers(raw_channel: RawChannel, queue: str) -> None:
    raw_channel.call("confirm.select")
    raw_channel.publish("", queue, b"1")
    raw_channel.read()
    raw_channel.call("confirm.select")
    raw_channel.publish("", queue, b"2")

    assert raw_channel.read().delivery_tag == 2


@pytest.mark.parametrize("mode", [1, 2])
@pytest.mark.parametrize("durable", [False, True])
def test_every_publish_is_confirmed_once(
    raw_channel: RawChannel, name: Namer, mode: int, durable: bool
) -> None:
    queue = name()
    raw_channel.call("queue.declare", queue=queue, durable=durable)
    raw_channel.call("confirm.select")
    for _ in range(100):
        raw_channel.publish("", queue, b"x", {"delivery_mode": mode})

    assert _confirmed(raw_channel, 100) == set(range(1, 101))
    raw_channel.round_trip()
    with pytest.raises(NothingCame):
        raw_channel.read(limit=0.02)


def test_unroutable_message_is_confirmed(raw_channel: RawChannel, name: Namer) -> None:
    raw_channel.call("confirm.select")
    raw_channel.publish("", name(), b"x")

    assert raw_channel.read().name == "basic.ack"


def test_return_comes_before_the_confirm(raw_channel: RawChannel, name: Namer) -> None:
    raw_channel.call("confirm.select")
    raw_channel.publish("", name(), b"x", mandatory=True)

    assert [raw_channel.read().name for _ in range(2)] == ["basic.return", "basic.ack"]


def test_message_of_several_queues_is_confirmed_once(raw_channel: RawChannel, name: Namer) -> None:
    exchange = name("exchange")
    raw_channel.call("exchange.declare", exchange=exchange, type="fanout")
    for _ in range(3):
        queue = name()
        raw_channel.call("queue.declare", queue=queue, durable=True)
        raw_channel.call("queue.bind", queue=queue, exchange=exchange)
    raw_channel.call("confirm.select")
    raw_channel.publish(exchange, "", b"x", {"delivery_mode": 2})

    assert raw_channel.read().delivery_tag == 1
    raw_channel.round_trip()
    with pytest.raises(NothingCame):
        raw_channel.read(limit=0.02)


def test_publish_to_a_missing_exchange_is_not_confirmed(
    raw_channel: RawChannel, name: Namer
) -> None:
    raw_channel.call("confirm.select")
    raw_channel.publish(name("exchange"), "k", b"x")

    with pytest.raises(ChannelClosed) as caught:
        raw_channel.read()
    assert caught.value.code == 404


def test_mode_belongs_to_its_channel(raw: RawConnect, queue: str) -> None:
    client = raw()
    confirmed, plain = client.open_channel(1), client.open_channel(2)
    confirmed.call("confirm.select")

    plain.publish("", queue, b"x")
    assert plain.call("queue.declare", queue=queue, passive=True).name == "queue.declare-ok"
    confirmed.publish("", queue, b"x")
    assert confirmed.read().delivery_tag == 1


def test_reopened_channel_starts_without_confirms(raw_channel: RawChannel, queue: str) -> None:
    raw_channel.call("confirm.select")
    raw_channel.call("channel.close")
    raw_channel.call("channel.open")
    raw_channel.publish("", queue, b"x")

    assert raw_channel.get(queue) is not None


def test_transactional_channel_cannot_switch_to_confirms(raw_channel: RawChannel) -> None:
    raw_channel.call("tx.select")

    with pytest.raises(ChannelClosed) as caught:
        raw_channel.call("confirm.select")
    assert caught.value.code == 406


def test_confirming_channel_cannot_switch_to_transactions(raw_channel: RawChannel) -> None:
    raw_channel.call("confirm.select")

    with pytest.raises(ChannelClosed) as caught:
        raw_channel.call("tx.select")
    assert caught.value.code == 406


def test_confirmed_message_can_be_taken_by_another_connection_at_once(
    raw: RawConnect, queue: str
) -> None:
    writer, reader = raw().open_channel(), raw().open_channel()
    writer.call("confirm.select")
    writer.publish("", queue, b"x")
    writer.read()

    assert reader.get(queue) is not None
