"""An empty queue name means the queue which the channel declared last."""

import pytest

from support.amqp_types import Namer, RawChannel
from support.raw_amqp import ChannelClosed


@pytest.fixture
def last(raw_channel: RawChannel, name: Namer) -> str:
    """The queue declared last on `raw_channel`."""
    queue = name()
    raw_channel.call("queue.declare", queue=queue)
    return queue


def test_bind_means_the_last_queue(raw_channel: RawChannel, last: str) -> None:
    raw_channel.call("queue.bind", queue="", exchange="amq.direct", routing_key=last + ".k")
    raw_channel.publish("amq.direct", last + ".k", b"x")

    assert raw_channel.get(last) is not None


def test_bind_without_name_and_key_uses_the_queue_name_as_key(
    raw_channel: RawChannel, last: str
) -> None:
    raw_channel.call("queue.bind", queue="", exchange="amq.direct", routing_key="")
    raw_channel.publish("amq.direct", last, b"x")

    assert raw_channel.get(last) is not None


def test_bind_with_a_name_keeps_an_empty_key(raw_channel: RawChannel, last: str) -> None:
    raw_channel.call("queue.bind", queue=last, exchange="amq.direct", routing_key="")
    raw_channel.publish("amq.direct", last, b"x")

    assert raw_channel.get(last) is None


def test_unbind_means_the_last_queue(raw_channel: RawChannel, last: str) -> None:
    raw_channel.call("queue.bind", queue=last, exchange="amq.direct", routing_key=last)
    raw_channel.call("queue.unbind", queue="", exchange="amq.direct", routing_key=last)
    raw_channel.publish("amq.direct", last, b"x")

    assert raw_channel.get(last) is None


def test_get_means_the_last_queue(raw_channel: RawChannel, last: str) -> None:
    raw_channel.publish("", last, b"x")

    assert raw_channel.get("").body == b"x"


def test_consume_means_the_last_queue(raw_channel: RawChannel, last: str) -> None:
    raw_channel.publish("", last, b"x")
    raw_channel.call("basic.consume", queue="")

    assert raw_channel.read().body == b"x"


def test_purge_means_the_last_queue(raw_channel: RawChannel, last: str) -> None:
    raw_channel.publish("", last, b"x")

    assert raw_channel.call("queue.purge", queue="").message_count == 1


def test_delete_means_the_last_queue(raw_channel: RawChannel, last: str) -> None:
    raw_channel.publish("", last, b"x")

    assert raw_channel.call("queue.delete", queue="").message_count == 1


def test_passive_declaration_counts_as_declaration(
    raw_channel: RawChannel, last: str, name: Namer
) -> None:
    other = name()
    raw_channel.call("queue.declare", queue=other)
    raw_channel.call("queue.declare", queue=last, passive=True)
    raw_channel.publish("", last, b"x")

    assert raw_channel.get("").body == b"x"


def test_server_named_queue_is_the_last_queue(raw_channel: RawChannel) -> None:
    named = raw_channel.call("queue.declare", queue="", exclusive=True).queue
    raw_channel.publish("", named, b"x")

    assert raw_channel.get("").body == b"x"


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("queue.bind", {"exchange": "amq.direct"}),
        ("queue.unbind", {"exchange": "amq.direct"}),
        ("queue.purge", {}),
        ("queue.delete", {}),
        ("basic.get", {}),
        ("basic.consume", {}),
    ],
)
def test_without_a_declaration_it_is_refused(
    raw_channel: RawChannel, method: str, arguments: dict[str, str]
) -> None:
    with pytest.raises(ChannelClosed) as caught:
        raw_channel.call(method, queue="", **arguments)
    assert caught.value.code == 404


def test_other_channels_do_not_share_it(raw_channel: RawChannel, last: str) -> None:
    other = raw_channel.client.open_channel(2)

    with pytest.raises(ChannelClosed) as caught:
        other.call("queue.purge", queue="")
    assert caught.value.code == 404
