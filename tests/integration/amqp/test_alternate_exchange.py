"""Alternate exchanges: where a message goes that its exchange cannot route."""

import pytest

from support.amqp_observer import channel_refused, take_all
from support.amqp_types import Channel, Namer, RawChannel


@pytest.fixture
def alternate(channel: Channel, name: Namer, queue: str) -> str:
    """A fanout exchange in front of `queue`."""
    alternate = name("alternate")
    channel.exchange_declare(alternate, "fanout")
    channel.queue_bind(queue, alternate, "")
    return alternate


@pytest.fixture
def exchange(channel: Channel, name: Namer, alternate: str) -> str:
    exchange = name("exchange")
    channel.exchange_declare(exchange, "direct", arguments={"alternate-exchange": alternate})
    return exchange


def test_unroutable_message_goes_to_the_alternate(
    channel: Channel, exchange: str, queue: str
) -> None:
    channel.basic_publish(exchange, "nobody", b"x")

    method, _, body = channel.basic_get(queue, auto_ack=True)
    assert (method.exchange, method.routing_key, body) == (exchange, "nobody", b"x")


def test_routable_message_does_not_go_to_the_alternate(
    channel: Channel, exchange: str, queue: str, name: Namer
) -> None:
    bound = name()
    channel.queue_declare(bound)
    channel.queue_bind(bound, exchange, "k")

    channel.basic_publish(exchange, "k", b"x")
    assert take_all(channel, bound) == [b"x"]
    assert take_all(channel, queue) == []


def test_mandatory_message_routed_by_the_alternate_is_not_returned(
    raw_channel: RawChannel, exchange: str, queue: str
) -> None:
    raw_channel.call("confirm.select")
    raw_channel.publish(exchange, "nobody", b"x", mandatory=True)

    assert raw_channel.read().name == "basic.ack"
    assert raw_channel.get(queue) is not None


def test_mandatory_message_is_returned_when_the_alternate_is_missing(
    raw_channel: RawChannel, name: Namer
) -> None:
    exchange = name("exchange")
    raw_channel.call(
        "exchange.declare",
        exchange=exchange,
        type="direct",
        arguments={"alternate-exchange": name("missing")},
    )
    raw_channel.publish(exchange, "nobody", b"x", mandatory=True)

    returned = raw_channel.read()
    assert (returned.name, returned.code) == ("basic.return", 312)
    assert returned.exchange == exchange


def test_mandatory_message_is_returned_when_the_alternate_cannot_route_either(
    raw_channel: RawChannel, exchange: str, alternate: str, queue: str
) -> None:
    raw_channel.call("queue.unbind", queue=queue, exchange=alternate)
    raw_channel.publish(exchange, "nobody", b"x", mandatory=True)

    assert raw_channel.read().code == 312


def test_alternates_follow_one_another(
    channel: Channel, exchange: str, queue: str, name: Namer
) -> None:
    first = name("exchange")
    channel.exchange_declare(first, "topic", arguments={"alternate-exchange": exchange})

    channel.basic_publish(first, "nobody", b"x")
    assert take_all(channel, queue) == [b"x"]


def test_alternates_in_a_circle_end(raw_channel: RawChannel, name: Namer) -> None:
    one, other = name("exchange"), name("exchange")
    for exchange, alternate in ((one, other), (other, one)):
        raw_channel.call(
            "exchange.declare",
            exchange=exchange,
            type="direct",
            arguments={"alternate-exchange": alternate},
        )
    raw_channel.publish(one, "nobody", b"x", mandatory=True)

    assert raw_channel.read().code == 312


def test_alternate_which_is_no_string_is_refused(channel: Channel, name: Namer) -> None:
    with channel_refused(406):
        channel.exchange_declare(name("exchange"), "direct", arguments={"alternate-exchange": 1})
