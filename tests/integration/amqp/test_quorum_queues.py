"""Quorum queues: delivery counts, the limit of them, and what such a queue cannot be."""

from typing import Any

import pytest

from support.amqp_codec import Typed, plain
from support.amqp_types import Namer, RawChannel
from support.raw_amqp import ChannelClosed


def _declare(channel: RawChannel, queue: str, **arguments: Any) -> None:  # noqa: ANN401
    table = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
    channel.call(
        "queue.declare", queue=queue, durable=True, arguments={"x-queue-type": "quorum", **table}
    )


@pytest.fixture
def quorum(raw_channel: RawChannel, name: Namer) -> str:
    queue = name("quorum")
    _declare(raw_channel, queue)
    return queue


def _returned_to(channel: RawChannel, queue: str) -> Any:  # noqa: ANN401
    """Takes a message, gives it back, and takes it again."""
    got = channel.get_soon(queue, no_ack=False)
    channel.send("basic.nack", delivery_tag=got.delivery_tag, requeue=True)
    return channel.get_soon(queue, no_ack=False)


@pytest.mark.parametrize(
    "flags",
    [
        {"durable": False},
        {"durable": True, "exclusive": True},
        {"durable": True, "auto_delete": True},
    ],
    ids=str,
)
def test_it_must_be_durable_shared_and_lasting(
    raw_channel: RawChannel, name: Namer, flags: dict[str, bool]
) -> None:
    with pytest.raises(ChannelClosed) as caught:
        raw_channel.call(
            "queue.declare", queue=name(), arguments={"x-queue-type": "quorum"}, **flags
        )
    assert caught.value.code == 406


def test_it_has_no_priorities(raw_channel: RawChannel, name: Namer) -> None:
    with pytest.raises(ChannelClosed) as caught:
        _declare(raw_channel, name(), max_priority=5)
    assert caught.value.code == 406


def test_type_of_an_existing_queue_is_compared(raw_channel: RawChannel, quorum: str) -> None:
    with pytest.raises(ChannelClosed) as caught:
        raw_channel.call("queue.declare", queue=quorum, durable=True)
    assert caught.value.code == 406


def test_first_delivery_has_count_zero(raw_channel: RawChannel, quorum: str) -> None:
    raw_channel.publish("", quorum, b"x")

    got = raw_channel.get_soon(quorum)
    assert plain(got.content.headers["x-delivery-count"]) == 0


def test_count_rises_with_each_return(raw_channel: RawChannel, quorum: str) -> None:
    raw_channel.publish("", quorum, b"x")
    counts = []
    got = raw_channel.get_soon(quorum, no_ack=False)
    for _ in range(3):
        raw_channel.send("basic.nack", delivery_tag=got.delivery_tag, requeue=True)
        got = raw_channel.get_soon(quorum, no_ack=False)
        counts.append(plain(got.content.headers["x-delivery-count"]))

    assert counts == [1, 2, 3]
    assert got.redelivered


def test_count_is_an_integer_beside_the_own_headers(raw_channel: RawChannel, quorum: str) -> None:
    raw_channel.publish("", quorum, b"x", {"headers": {"own": Typed("s", 5)}})

    headers = raw_channel.get_soon(quorum).content.headers
    assert headers["own"] == Typed("s", 5)
    assert headers["x-delivery-count"].code in "bBsuIil"


def test_consumers_see_the_count(raw_channel: RawChannel, quorum: str) -> None:
    raw_channel.publish("", quorum, b"x")
    raw_channel.call("basic.consume", queue=quorum)

    first = raw_channel.read()
    # As RabbitMQ, which sends it with a get only.
    assert "x-delivery-count" not in (first.content.headers or {})
    raw_channel.send("basic.nack", delivery_tag=first.delivery_tag, requeue=True)
    second = raw_channel.read()
    assert plain(second.content.headers["x-delivery-count"]) == 1


def test_message_is_dropped_at_the_limit(raw_channel: RawChannel, name: Namer) -> None:
    queue = name("quorum")
    _declare(raw_channel, queue, delivery_limit=2)
    raw_channel.publish("", queue, b"x")
    raw_channel.publish("", queue, b"next")

    for _ in range(3):
        got = raw_channel.get_soon(queue, no_ack=False)
        assert got.body == b"x"
        raw_channel.send("basic.nack", delivery_tag=got.delivery_tag, requeue=True)
    assert raw_channel.get_soon(queue).body == b"next"


def test_message_is_dead_lettered_at_the_limit(raw_channel: RawChannel, name: Namer) -> None:
    queue, grave = name("quorum"), name("grave")
    raw_channel.call("queue.declare", queue=grave)
    _declare(
        raw_channel,
        queue,
        delivery_limit=1,
        dead_letter_exchange="",
        dead_letter_routing_key=grave,
    )
    raw_channel.publish("", queue, b"x")
    got = _returned_to(raw_channel, queue)
    raw_channel.send("basic.nack", delivery_tag=got.delivery_tag, requeue=True)

    letter = raw_channel.get_soon(grave)
    assert plain(letter.content.headers["x-death"])[0]["reason"] == "delivery_limit"
    assert plain(letter.content.headers["x-death"])[0]["queue"] == queue


def test_consuming_under_a_global_prefetch_closes_the_connection(
    raw_channel: RawChannel, quorum: str
) -> None:
    raw_channel.call("basic.qos", prefetch_count=1, global_=True)
    raw_channel.send("basic.consume", queue=quorum)

    raw_channel.client.expect_close(540)


def test_messages_are_confirmed(raw_channel: RawChannel, quorum: str) -> None:
    raw_channel.call("confirm.select")
    raw_channel.publish("", quorum, b"x", {"delivery_mode": 2})

    assert raw_channel.read().name == "basic.ack"


def test_length_limit_drops_the_oldest(raw_channel: RawChannel, name: Namer) -> None:
    queue = name("quorum")
    _declare(raw_channel, queue, max_length=1)
    raw_channel.call("confirm.select")
    for body in (b"1", b"2"):
        raw_channel.publish("", queue, body)
        assert raw_channel.read().name == "basic.ack"

    assert raw_channel.get_soon(queue).body == b"2"
