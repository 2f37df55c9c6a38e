"""Auto-delete queues: they go with their last consumer."""

import pytest

from headrace.testing import wait_for
from support.amqp_observer import Inbox, exists
from support.amqp_types import Channel, Connection, Namer, RawConnect


@pytest.fixture
def fleeting(channel: Channel, name: Namer) -> str:
    """A queue which is deleted when unused."""
    queue = name()
    channel.queue_declare(queue, auto_delete=True)
    return queue


def test_it_goes_when_the_last_consumer_is_cancelled(
    connection: Connection, channel: Channel, fleeting: str
) -> None:
    inboxes = [Inbox(channel, fleeting) for _ in range(2)]

    channel.basic_cancel(inboxes[0].tag)
    assert exists(connection, fleeting)
    channel.basic_cancel(inboxes[1].tag)
    wait_for(lambda: not exists(connection, fleeting))


def test_it_goes_when_the_channel_of_the_last_consumer_is_closed(
    connection: Connection, fleeting: str
) -> None:
    consuming = connection.channel()
    Inbox(consuming, fleeting)

    consuming.close()
    wait_for(lambda: not exists(connection, fleeting))


def test_it_goes_when_the_connection_of_the_last_consumer_is_cut(
    raw: RawConnect, connection: Connection, fleeting: str
) -> None:
    client = raw()
    client.open_channel().call("basic.consume", queue=fleeting)

    client.cut()
    wait_for(lambda: not exists(connection, fleeting))


def test_it_stays_when_it_never_had_a_consumer(
    connection: Connection, channel: Channel, fleeting: str
) -> None:
    channel.basic_publish("", fleeting, b"x")
    channel.basic_get(fleeting, auto_ack=True)
    channel.close()

    assert exists(connection, fleeting)


def test_it_goes_with_the_messages_in_it(
    connection: Connection, channel: Channel, fleeting: str
) -> None:
    inbox = Inbox(channel, fleeting)
    channel.basic_publish("", fleeting, b"x")
    inbox.wait(1)

    channel.basic_cancel(inbox.tag)
    wait_for(lambda: not exists(connection, fleeting))
