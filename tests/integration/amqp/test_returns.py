"""Messages which come back, and publishes which are refused."""

import pytest

from support.amqp_types import Namer, RawChannel
from support.raw_amqp import NothingCame


def test_unroutable_mandatory_message_is_returned_with_its_content(
    raw_channel: RawChannel, name: Namer
) -> None:
    nobody = name()
    properties = {"headers": {"own": 1}, "message_id": "m", "delivery_mode": 2}
    raw_channel.publish("", nobody, b"back", properties, mandatory=True)

    returned = raw_channel.read()
    assert (returned.name, returned.code, returned.text) == ("basic.return", 312, "NO_ROUTE")
    assert (returned.exchange, returned.routing_key) == ("", nobody)
    assert returned.body == b"back"
    assert returned.content.properties["message_id"] == "m"
    assert returned.content.properties["delivery_mode"] == 2


def test_routable_mandatory_message_is_not_returned(raw_channel: RawChannel, queue: str) -> None:
    raw_channel.publish("", queue, b"x", mandatory=True)

    assert raw_channel.get(queue) is not None


def test_unroutable_message_which_is_not_mandatory_is_dropped(
    raw_channel: RawChannel, name: Namer
) -> None:
    raw_channel.publish("", name(), b"x")
    raw_channel.round_trip()

    with pytest.raises(NothingCame):
        raw_channel.read(limit=0.02)


def test_returned_body_may_have_several_frames(raw_channel: RawChannel, name: Namer) -> None:
    body = b"0123456789" * 30000
    raw_channel.publish("", name(), body, mandatory=True)

    assert raw_channel.read().body == body


def test_empty_message_is_returned(raw_channel: RawChannel, name: Namer) -> None:
    raw_channel.publish("", name(), b"", mandatory=True)

    assert raw_channel.read().body == b""


def test_returns_come_in_the_order_of_publishing(raw_channel: RawChannel, name: Namer) -> None:
    nobody = name()
    for body in (b"1", b"2", b"3"):
        raw_channel.publish("", nobody, body, mandatory=True)

    assert [raw_channel.read().body for _ in range(3)] == [b"1", b"2", b"3"]


def test_topic_exchange_returns_what_no_binding_matches(
    raw_channel: RawChannel, name: Namer, queue: str
) -> None:
    exchange = name("topic")
    raw_channel.call("exchange.declare", exchange=exchange, type="topic")
    raw_channel.call("queue.bind", queue=queue, exchange=exchange, routing_key="a.*")
    raw_channel.publish(exchange, "b.c", b"x", mandatory=True)

    returned = raw_channel.read()
    assert (returned.exchange, returned.routing_key) == (exchange, "b.c")


def test_immediate_is_not_implemented(raw_channel: RawChannel, queue: str) -> None:
    raw_channel.publish("", queue, b"x", immediate=True)

    raw_channel.client.expect_close(540)


def test_a_user_id_of_another_user_is_refused(raw_channel: RawChannel, queue: str) -> None:
    raw_channel.publish("", queue, b"x", {"user_id": "bob"})

    raw_channel.expect_close(406)


def test_own_user_id_is_accepted_and_delivered(raw_channel: RawChannel, queue: str) -> None:
    raw_channel.publish("", queue, b"x", {"user_id": "guest"})

    assert raw_channel.get(queue).content.properties["user_id"] == "guest"


@pytest.mark.parametrize("mode", [0, 3, 255])
def test_unknown_delivery_mode_is_refused(raw_channel: RawChannel, queue: str, mode: int) -> None:
    raw_channel.publish("", queue, b"x", {"delivery_mode": mode})

    raw_channel.expect_close(406)


@pytest.mark.usefixtures("headrace_only")
def test_message_above_sixteen_mebibytes_is_refused(raw_channel: RawChannel, queue: str) -> None:
    raw_channel.publish("", queue, b"x" * (16 * 1024 * 1024 + 1))

    raw_channel.expect_close(406)


def test_message_of_sixteen_mebibytes_is_accepted(raw_channel: RawChannel, queue: str) -> None:
    body = bytes(16 * 1024 * 1024)
    raw_channel.publish("", queue, body)

    assert raw_channel.get(queue).body == body
