"""Transactions: publishes and acknowledgements which wait for the commit."""

import pytest

from headrace.testing import wait_for
from support.amqp_observer import ready, take_all
from support.amqp_types import Channel, Namer, RawChannel
from support.raw_amqp import ChannelClosed


@pytest.fixture
def tx(raw_channel: RawChannel) -> RawChannel:
    """A transactional channel."""
    raw_channel.call("tx.select")
    return raw_channel


def test_select_may_be_repeated(tx: RawChannel) -> None:
    assert tx.call("tx.select").name == "tx.select-ok"


def test_publish_waits_for_the_commit(tx: RawChannel, channel: Channel, queue: str) -> None:
    tx.publish("", queue, b"x")
    tx.round_trip()
    assert ready(channel, queue) == 0

    assert tx.call("tx.commit").name == "tx.commit-ok"
    wait_for(lambda: ready(channel, queue) == 1)


def test_rollback_drops_the_publishes(tx: RawChannel, channel: Channel, queue: str) -> None:
    tx.publish("", queue, b"dropped")
    assert tx.call("tx.rollback").name == "tx.rollback-ok"
    tx.publish("", queue, b"kept")
    tx.call("tx.commit")

    assert take_all(channel, queue) == [b"kept"]


def test_publishes_of_a_commit_keep_their_order(
    tx: RawChannel, channel: Channel, queue: str
) -> None:
    for body in (b"1", b"2", b"3"):
        tx.publish("", queue, body)
    tx.call("tx.commit")

    assert take_all(channel, queue) == [b"1", b"2", b"3"]


def test_acknowledgement_waits_for_the_commit(tx: RawChannel, channel: Channel, queue: str) -> None:
    channel.basic_publish("", queue, b"x")
    got = tx.get_soon(queue, no_ack=False)
    tx.send("basic.ack", delivery_tag=got.delivery_tag)
    tx.call("channel.close")

    wait_for(lambda: ready(channel, queue) == 1)


def test_committed_acknowledgement_counts(tx: RawChannel, channel: Channel, queue: str) -> None:
    channel.basic_publish("", queue, b"x")
    got = tx.get_soon(queue, no_ack=False)
    tx.send("basic.ack", delivery_tag=got.delivery_tag)
    tx.call("tx.commit")
    tx.call("channel.close")

    assert ready(channel, queue) == 0


def test_rolled_back_acknowledgement_can_be_made_again(
    tx: RawChannel, channel: Channel, queue: str
) -> None:
    channel.basic_publish("", queue, b"x")
    got = tx.get_soon(queue, no_ack=False)
    tx.send("basic.ack", delivery_tag=got.delivery_tag)
    tx.call("tx.rollback")
    tx.send("basic.ack", delivery_tag=got.delivery_tag)
    tx.call("tx.commit")
    tx.call("channel.close")

    assert ready(channel, queue) == 0


def test_rolled_back_message_stays_with_the_channel(
    tx: RawChannel, channel: Channel, queue: str
) -> None:
    channel.basic_publish("", queue, b"x")
    got = tx.get_soon(queue, no_ack=False)
    tx.send("basic.nack", delivery_tag=got.delivery_tag, requeue=True)
    tx.call("tx.rollback")

    assert ready(channel, queue) == 0


def test_requeue_waits_for_the_commit(tx: RawChannel, channel: Channel, queue: str) -> None:
    channel.basic_publish("", queue, b"x")
    got = tx.get_soon(queue, no_ack=False)
    tx.send("basic.nack", delivery_tag=got.delivery_tag, requeue=True)
    tx.round_trip()
    assert ready(channel, queue) == 0

    tx.call("tx.commit")
    wait_for(lambda: ready(channel, queue) == 1)


def test_mandatory_message_is_returned_at_the_commit(tx: RawChannel, name: Namer) -> None:
    tx.publish("", name(), b"x", mandatory=True)
    tx.send("tx.commit")

    names = {tx.read().name, tx.read().name}
    assert names == {"basic.return", "tx.commit-ok"}


def test_closing_the_channel_is_a_rollback(tx: RawChannel, channel: Channel, queue: str) -> None:
    tx.publish("", queue, b"x")
    tx.call("channel.close")

    assert ready(channel, queue) == 0


@pytest.mark.parametrize("method", ["tx.commit", "tx.rollback"])
def test_channel_without_select_is_refused(raw_channel: RawChannel, method: str) -> None:
    with pytest.raises(ChannelClosed) as caught:
        raw_channel.call(method)
    assert caught.value.code == 406


def test_unknown_tag_is_refused_before_the_commit(tx: RawChannel) -> None:
    tx.send("basic.ack", delivery_tag=7)

    tx.expect_close(406)


def test_empty_commit_and_rollback_are_answered(tx: RawChannel) -> None:
    assert tx.call("tx.commit").name == "tx.commit-ok"
    assert tx.call("tx.rollback").name == "tx.rollback-ok"


def test_what_a_transaction_acknowledged_cannot_be_acknowledged_again(
    tx: RawChannel, channel: Channel, queue: str
) -> None:
    channel.basic_publish("", queue, b"x")
    tag = tx.get_soon(queue, no_ack=False).delivery_tag
    tx.send("basic.ack", delivery_tag=tag)

    with pytest.raises(ChannelClosed) as closed:
        tx.send("basic.ack", delivery_tag=tag)
        tx.round_trip()
    assert closed.value.code == 406


def test_recover_leaves_what_the_transaction_acknowledged(
    tx: RawChannel, channel: Channel, queue: str
) -> None:
    for body in (b"1", b"2", b"3"):
        channel.basic_publish("", queue, body)
    tags = [tx.get_soon(queue, no_ack=False).delivery_tag for _ in range(3)]
    tx.send("basic.ack", delivery_tag=tags[1])
    tx.call("basic.recover", requeue=True)
    assert take_all(channel, queue) == [b"1", b"3"]

    tx.call("tx.commit")
    tx.call("channel.close")
    assert ready(channel, queue) == 0


def test_acknowledging_all_means_all_until_then(
    tx: RawChannel, channel: Channel, queue: str
) -> None:
    channel.basic_publish("", queue, b"seen")
    tx.get_soon(queue, no_ack=False)
    tx.send("basic.ack", delivery_tag=0, multiple=True)
    channel.basic_publish("", queue, b"not seen yet")
    tx.get_soon(queue, no_ack=False)
    tx.call("tx.commit")
    tx.call("channel.close")

    wait_for(lambda: ready(channel, queue) == 1)
