"""CC and BCC headers: further routing keys inside the message."""

import pytest

from support.amqp_codec import Typed, plain
from support.amqp_types import Namer, RawChannel


@pytest.fixture
def queues(raw_channel: RawChannel, name: Namer) -> list[str]:
    """Three queues, reached by their names."""
    queues = [name() for _ in range(3)]
    for queue in queues:
        raw_channel.call("queue.declare", queue=queue)
    return queues


def test_cc_keys_are_routed_as_well(raw_channel: RawChannel, queues: list[str]) -> None:
    first, second, third = queues
    raw_channel.publish("", first, b"x", {"headers": {"CC": [second, third]}})

    assert all(raw_channel.get(queue) is not None for queue in queues)


def test_cc_stays_in_the_delivered_headers(raw_channel: RawChannel, queues: list[str]) -> None:
    first, second, _ = queues
    raw_channel.publish("", first, b"x", {"headers": {"CC": [second]}})

    found = raw_channel.get(second)
    assert found is not None
    assert plain(found.content.headers) == {"CC": [second]}


def test_bcc_keys_are_routed_and_the_header_is_taken_out(
    raw_channel: RawChannel, queues: list[str]
) -> None:
    first, second, _ = queues
    raw_channel.publish("", first, b"x", {"headers": {"BCC": [second], "kept": 1}})

    for queue in (first, second):
        found = raw_channel.get(queue)
        assert found is not None
        assert found.content.headers == {"kept": Typed("I", 1)}


def test_delivery_of_a_cc_copy_shows_the_published_key(
    raw_channel: RawChannel, queues: list[str]
) -> None:
    first, second, _ = queues
    raw_channel.publish("", first, b"x", {"headers": {"CC": [second]}})

    found = raw_channel.get(second)
    assert found is not None
    assert (found.exchange, found.routing_key) == ("", first)


def test_same_queue_by_key_cc_and_bcc_gets_one_copy(
    raw_channel: RawChannel, queues: list[str]
) -> None:
    first = queues[0]
    raw_channel.publish("", first, b"x", {"headers": {"CC": [first], "BCC": [first]}})

    assert raw_channel.get(first) is not None
    assert raw_channel.get(first) is None


def test_cc_works_on_a_topic_exchange(
    raw_channel: RawChannel, queues: list[str], name: Namer
) -> None:
    exchange = name("topic")
    raw_channel.call("exchange.declare", exchange=exchange, type="topic")
    raw_channel.call("queue.bind", queue=queues[0], exchange=exchange, routing_key="a.*")

    raw_channel.publish(exchange, "nobody", b"x", {"headers": {"CC": ["a.b"]}})
    assert raw_channel.get(queues[0]) is not None


def test_message_reached_by_cc_only_is_not_returned(
    raw_channel: RawChannel, queues: list[str], name: Namer
) -> None:
    raw_channel.call("confirm.select")
    raw_channel.publish("", name(), b"x", {"headers": {"CC": [queues[0]]}}, mandatory=True)

    assert raw_channel.read().name == "basic.ack"


@pytest.mark.parametrize("header", ["CC", "BCC"])
@pytest.mark.parametrize("value", ["text", 1, True, {"a": 1}], ids=str)
def test_header_which_is_no_array_is_refused(
    raw_channel: RawChannel, queues: list[str], header: str, value: object
) -> None:
    raw_channel.publish("", queues[0], b"x", {"headers": {header: value}})

    raw_channel.expect_close(406)
