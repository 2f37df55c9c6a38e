"""Headers exchanges: bindings which compare header values instead of the key."""

from typing import Any

import pytest

from support.amqp_codec import Typed
from support.amqp_types import Namer, RawChannel
from support.raw_amqp import ChannelClosed

MATCHES = [
    ({"a": 1}, {"a": 1}),
    ({"x-match": "all", "a": 1, "b": "two"}, {"a": 1, "b": "two", "c": 3}),
    ({"x-match": "any", "a": 1, "b": 2}, {"a": 1}),
    ({"x-match": "any", "a": 1, "b": 2}, {"b": 2, "c": 9}),
    ({"x-match": "all", "x-secret": 1, "a": 1}, {"a": 1}),
    ({"x-match": "all-with-x", "x-secret": 1, "a": 1}, {"a": 1, "x-secret": 1}),
    ({"x-match": "any-with-x", "x-secret": 1, "a": 1}, {"x-secret": 1}),
    ({"a": None}, {"a": "anything"}),
    ({"a": None}, {"a": 5}),
    ({"a": True}, {"a": True}),
    ({"a": Typed("I", 7)}, {"a": Typed("l", 7)}),
    ({"a": Typed("s", 7)}, {"a": Typed("B", 7)}),
    ({"a": Typed("S", "text")}, {"a": Typed("S", "text")}),
    ({"a": 1.5}, {"a": 1.5}),
    ({}, {}),
    ({}, {"a": 1}),
    ({"x-match": "all"}, {"a": 1}),
]

MISMATCHES = [
    ({"a": 1}, {}),
    ({"a": 1}, {"a": 2}),
    ({"a": 1}, {"b": 1}),
    ({"x-match": "all", "a": 1, "b": 2}, {"a": 1}),
    ({"x-match": "any", "a": 1, "b": 2}, {"a": 2, "b": 1}),
    ({"x-match": "any", "x-secret": 1, "a": 1}, {"x-secret": 1}),
    ({"x-match": "all-with-x", "x-secret": 1, "a": 1}, {"a": 1}),
    ({"x-match": "any"}, {"a": 1}),
    ({"x-match": "any"}, {}),
    ({"a": 1}, {"a": "1"}),
    ({"a": 1}, {"a": True}),
    ({"a": "true"}, {"a": True}),
    ({"a": None}, {"b": 1}),
    ({"a": "Text"}, {"a": "text"}),
]


@pytest.fixture
def exchange(raw_channel: RawChannel, name: Namer) -> str:
    exchange = name("headers")
    raw_channel.call("exchange.declare", exchange=exchange, type="headers")
    return exchange


@pytest.mark.parametrize(("binding", "headers"), MATCHES)
def test_binding_matches_headers(
    raw_channel: RawChannel,
    exchange: str,
    queue: str,
    binding: dict[str, Any],
    headers: dict[str, Any],
) -> None:
    raw_channel.call("queue.bind", queue=queue, exchange=exchange, arguments=binding)

    raw_channel.publish(exchange, "any.key", b"x", {"headers": headers})
    assert raw_channel.get(queue) is not None


@pytest.mark.parametrize(("binding", "headers"), MISMATCHES)
def test_binding_does_not_match_headers(
    raw_channel: RawChannel,
    exchange: str,
    queue: str,
    binding: dict[str, Any],
    headers: dict[str, Any],
) -> None:
    raw_channel.call("queue.bind", queue=queue, exchange=exchange, arguments=binding)

    raw_channel.publish(exchange, "any.key", b"x", {"headers": headers})
    assert raw_channel.get(queue) is None


def test_message_without_headers_matches_a_binding_without_criteria(
    raw_channel: RawChannel, exchange: str, queue: str
) -> None:
    raw_channel.call("queue.bind", queue=queue, exchange=exchange)

    raw_channel.publish(exchange, "", b"x")
    assert raw_channel.get(queue) is not None


def test_message_without_headers_does_not_match_a_criterion(
    raw_channel: RawChannel, exchange: str, queue: str
) -> None:
    raw_channel.call("queue.bind", queue=queue, exchange=exchange, arguments={"a": 1})

    raw_channel.publish(exchange, "", b"x")
    assert raw_channel.get(queue) is None


@pytest.mark.parametrize("match", ["some", "", 1, True])
def test_unknown_x_match_is_refused_at_bind(
    raw_channel: RawChannel, exchange: str, queue: str, match: object
) -> None:
    with pytest.raises(ChannelClosed) as caught:
        raw_channel.call("queue.bind", queue=queue, exchange=exchange, arguments={"x-match": match})
    assert caught.value.code == 406


def test_two_matching_bindings_give_one_copy(
    raw_channel: RawChannel, exchange: str, queue: str
) -> None:
    for criteria in ({"a": 1}, {"b": 2}):
        raw_channel.call("queue.bind", queue=queue, exchange=exchange, arguments=criteria)

    raw_channel.publish(exchange, "", b"x", {"headers": {"a": 1, "b": 2}})
    assert raw_channel.get(queue) is not None
    assert raw_channel.get(queue) is None


def test_unbinding_takes_the_binding_with_those_arguments(
    raw_channel: RawChannel, exchange: str, queue: str
) -> None:
    for criteria in ({"a": 1}, {"b": 2}):
        raw_channel.call("queue.bind", queue=queue, exchange=exchange, arguments=criteria)
    raw_channel.call("queue.unbind", queue=queue, exchange=exchange, arguments={"a": 1})

    raw_channel.publish(exchange, "", b"1", {"headers": {"a": 1}})
    raw_channel.publish(exchange, "", b"2", {"headers": {"b": 2}})
    found = raw_channel.get(queue)
    assert found is not None
    assert found.body == b"2"
