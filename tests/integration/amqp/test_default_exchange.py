"""The exchange without a name: it reaches every queue, and nobody may change it."""

import pytest

from support.amqp_codec import method_payload
from support.amqp_observer import take_all
from support.amqp_types import Channel, Namer, RawChannel
from support.raw_amqp import METHOD


def test_routing_key_names_the_queue(channel: Channel, queue: str) -> None:
    channel.basic_publish("", queue, b"x")

    method, _, body = channel.basic_get(queue, auto_ack=True)
    assert (method.exchange, method.routing_key, body) == ("", queue, b"x")


def test_key_of_no_queue_is_dropped_silently(channel: Channel, queue: str, name: Namer) -> None:
    channel.basic_publish("", name(), b"lost")
    channel.basic_publish("", queue, b"kept")

    assert take_all(channel, queue) == [b"kept"]


def test_key_is_not_a_pattern(channel: Channel, queue: str) -> None:
    channel.basic_publish("", "#", b"x")

    assert take_all(channel, queue) == []


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("exchange.declare", {"exchange": "", "type": "direct", "durable": True}),
        ("exchange.declare", {"exchange": "", "type": "direct", "passive": True}),
        ("exchange.delete", {"exchange": ""}),
        ("queue.bind", {"queue": "{queue}", "exchange": "", "routing_key": "k"}),
        ("queue.unbind", {"queue": "{queue}", "exchange": "", "routing_key": "k"}),
        ("exchange.bind", {"destination": "amq.fanout", "source": ""}),
        ("exchange.bind", {"destination": "", "source": "amq.fanout"}),
        ("exchange.unbind", {"destination": "amq.fanout", "source": ""}),
    ],
)
def test_operation_on_the_default_exchange_is_refused(
    raw_channel: RawChannel, queue: str, method: str, arguments: dict[str, object]
) -> None:
    if "queue" in arguments:
        arguments = {**arguments, "queue": queue}
    raw_channel.client.send_frame(METHOD, 1, method_payload(method, **arguments))

    raw_channel.expect_close(403)
