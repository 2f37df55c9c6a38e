"""Exclusive queues: for one connection, and gone with it."""

import pytest

from headrace.testing import wait_for
from support.amqp_observer import channel_refused, exists, publish_all, take_soon
from support.amqp_types import Channel, Connect, Connection, Namer, RawConnect
from support.raw_amqp import ChannelClosed


@pytest.fixture
def exclusive(channel: Channel, name: Namer) -> str:
    """An exclusive queue of `connection`."""
    queue = name()
    channel.queue_declare(queue, exclusive=True)
    return queue


def test_other_channel_of_the_same_connection_may_use_it(
    connection: Connection, exclusive: str
) -> None:
    other = connection.channel()
    publish_all(other, exclusive, "x")

    assert take_soon(other, exclusive)[2] == b"x"


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("queue.declare", {"exclusive": True}),
        ("queue.declare", {"exclusive": False}),
        ("queue.declare", {"passive": True}),
        ("queue.bind", {"exchange": "amq.direct", "routing_key": "k"}),
        ("queue.unbind", {"exchange": "amq.direct", "routing_key": "k"}),
        ("queue.purge", {}),
        ("queue.delete", {}),
        ("basic.get", {}),
        ("basic.consume", {}),
    ],
)
def test_other_connection_is_locked_out(
    raw: RawConnect, channel: Channel, exclusive: str, method: str, arguments: dict[str, object]
) -> None:
    # Bound, because to unbind what is not bound is never refused.
    channel.queue_bind(exclusive, "amq.direct", "k")

    with pytest.raises(ChannelClosed) as caught:
        raw().open_channel().call(method, queue=exclusive, **arguments)
    assert caught.value.code == 405
    assert caught.value.text.startswith("RESOURCE_LOCKED - ")


def test_other_connection_may_publish_to_it(
    connect: Connect, channel: Channel, exclusive: str
) -> None:
    publish_all(connect().channel(), exclusive, "x")

    assert take_soon(channel, exclusive)[2] == b"x"


def test_owner_declaring_it_as_shared_is_refused(channel: Channel, exclusive: str) -> None:
    with channel_refused(405):
        channel.queue_declare(exclusive, exclusive=False)


def test_shared_queue_declared_as_exclusive_is_refused(channel: Channel, queue: str) -> None:
    with channel_refused(405):
        channel.queue_declare(queue, exclusive=True)


def test_it_outlives_the_channel_which_declared_it(
    connection: Connection, channel: Channel, exclusive: str
) -> None:
    channel.close()

    assert exists(connection, exclusive)


@pytest.mark.parametrize("durable", [False, True])
def test_it_is_gone_as_soon_as_its_connection_is_closed(
    connect: Connect, connection: Connection, name: Namer, durable: bool
) -> None:
    queue = name()
    owner = connect()
    owner.channel().queue_declare(queue, exclusive=True, durable=durable)

    owner.close()
    assert not exists(connection, queue)


def test_it_is_gone_after_its_connection_was_cut(
    raw: RawConnect, connection: Connection, name: Namer
) -> None:
    queue = name()
    owner = raw()
    owner.open_channel().call("queue.declare", queue=queue, exclusive=True)

    owner.cut()

    def gone() -> bool:
        channel = raw().open_channel()
        try:
            channel.call("queue.declare", queue=queue, passive=True)
        except ChannelClosed as closed:
            return closed.code == 404
        return False

    wait_for(gone)
