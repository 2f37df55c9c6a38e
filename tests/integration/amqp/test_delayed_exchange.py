"""Exchanges of type x-delayed-message: routing which waits for the x-delay header."""

import time

import pytest

from support.amqp_codec import Typed, plain
from support.amqp_types import Namer, RawChannel
from support.raw_amqp import ChannelClosed

pytestmark = pytest.mark.usefixtures("headrace_only")


@pytest.fixture
def delayed(raw_channel: RawChannel, name: Namer, queue: str) -> str:
    """A delayed direct exchange with `queue` bound by the key "k"."""
    exchange = name("delayed")
    raw_channel.call(
        "exchange.declare",
        exchange=exchange,
        type="x-delayed-message",
        arguments={"x-delayed-type": "direct"},
    )
    raw_channel.call("queue.bind", queue=queue, exchange=exchange, routing_key="k")
    return exchange


def test_message_without_delay_is_routed_at_once(
    raw_channel: RawChannel, delayed: str, queue: str
) -> None:
    raw_channel.publish(delayed, "k", b"x")

    assert raw_channel.get(queue).body == b"x"


@pytest.mark.parametrize("delay", [0, -5])
def test_delay_which_is_over_is_routed_at_once(
    raw_channel: RawChannel, delayed: str, queue: str, delay: int
) -> None:
    raw_channel.publish(delayed, "k", b"x", {"headers": {"x-delay": delay}})

    assert raw_channel.get(queue).body == b"x"


def test_delayed_message_comes_after_its_time(
    raw_channel: RawChannel, delayed: str, queue: str
) -> None:
    began = time.monotonic()
    raw_channel.publish(delayed, "k", b"x", {"headers": {"x-delay": 150}})
    assert raw_channel.get(queue) is None

    got = raw_channel.get_soon(queue)
    assert time.monotonic() - began >= 0.149
    assert (got.exchange, got.routing_key, got.body) == (delayed, "k", b"x")


@pytest.mark.parametrize("code", ["I", "l", "s", "u", "i"])
def test_delivered_message_carries_the_delay_negated(
    raw_channel: RawChannel, delayed: str, queue: str, code: str
) -> None:
    headers = {"x-delay": Typed(code, 20), "own": Typed("s", 3)}
    raw_channel.publish(delayed, "k", b"x", {"headers": headers, "message_id": "m"})

    content = raw_channel.get_soon(queue).content
    assert plain(content.headers) == {"x-delay": -20, "own": 3}
    assert content.headers["own"].code == "s"
    assert content.properties["message_id"] == "m"


def test_shorter_delay_overtakes_a_longer_one(
    raw_channel: RawChannel, delayed: str, queue: str
) -> None:
    for delay in (150, 50, 100):
        raw_channel.publish(delayed, "k", str(delay).encode(), {"headers": {"x-delay": delay}})

    assert [raw_channel.get_soon(queue).body for _ in range(3)] == [b"50", b"100", b"150"]


def test_equal_delays_keep_the_order(raw_channel: RawChannel, delayed: str, queue: str) -> None:
    for number in range(20):
        raw_channel.publish(delayed, "k", bytes([number]), {"headers": {"x-delay": 50}})

    assert [raw_channel.get_soon(queue).body[0] for _ in range(20)] == list(range(20))


def test_inner_type_decides_the_routing(raw_channel: RawChannel, name: Namer, queue: str) -> None:
    exchange = name("delayed")
    raw_channel.call(
        "exchange.declare",
        exchange=exchange,
        type="x-delayed-message",
        arguments={"x-delayed-type": "topic"},
    )
    raw_channel.call("queue.bind", queue=queue, exchange=exchange, routing_key="a.*")
    for key in ("b.c", "a.b"):
        raw_channel.publish(exchange, key, key.encode(), {"headers": {"x-delay": 20}})

    assert raw_channel.get_soon(queue).body == b"a.b"
    assert raw_channel.get(queue) is None


def test_delayed_message_is_confirmed_before_it_is_routed(
    raw_channel: RawChannel, delayed: str, queue: str
) -> None:
    raw_channel.call("confirm.select")
    raw_channel.publish(delayed, "k", b"x", {"headers": {"x-delay": 150}})

    assert raw_channel.read().name == "basic.ack"
    assert raw_channel.get_soon(queue).body == b"x"


@pytest.mark.parametrize(
    "arguments", [{}, {"x-delayed-type": "no-such"}, {"x-delayed-type": 1}], ids=str
)
def test_inner_type_must_be_known(
    raw_channel: RawChannel, name: Namer, arguments: dict[str, object]
) -> None:
    with pytest.raises(ChannelClosed) as caught:
        raw_channel.call(
            "exchange.declare",
            exchange=name("delayed"),
            type="x-delayed-message",
            arguments=arguments,
        )
    assert caught.value.code == 406


def test_other_inner_type_on_an_existing_exchange_is_refused(
    raw_channel: RawChannel, delayed: str
) -> None:
    with pytest.raises(ChannelClosed) as caught:
        raw_channel.call(
            "exchange.declare",
            exchange=delayed,
            type="x-delayed-message",
            arguments={"x-delayed-type": "topic"},
        )
    assert caught.value.code == 406
