"""Topic exchanges: words, `*` for one of them, `#` for any number."""

import pytest

from support.amqp_observer import take_all
from support.amqp_types import Channel, Namer

MATCHES = [
    ("a", "a"),
    ("a.b.c", "a.b.c"),
    ("*", "a"),
    ("a.*", "a.b"),
    ("*.b", "a.b"),
    ("*.*", "a.b"),
    ("#", "a"),
    ("#", "a.b.c"),
    ("#", ""),
    ("#.#", ""),
    ("", ""),
    ("*.*", "a."),
    ("*.*", ".a"),
    ("*.*", "."),
    ("#", "."),
    ("a.#", "a"),
    ("#.a", "a"),
    ("*.#", "a"),
    ("#.*", "a"),
    ("a.#", "a.b.c"),
    ("#.c", "a.b.c"),
    ("a.#.c", "a.c"),
    ("a.#.c", "a.b.c"),
    ("a.#.c", "a.b.b.c"),
    ("a.*.c", "a..c"),
    ("a.#.c", "a..c"),
    ("*.#.*", "a.b"),
    ("*.#.*", "a.b.c"),
    ("#.b.#", "a.b.c"),
    ("#.b.#", "b"),
    ("#.*.#", "a"),
    ("*", "*"),
    ("*", "#"),
    ("#.#.a", "a"),
    ("a.#.#", "a"),
    ("#.b.*.d", "x.b.b.c.d"),
]

MISMATCHES = [
    ("a", "b"),
    ("a", "A"),
    ("a", "a.b"),
    ("a.b", "a"),
    ("*", ""),
    ("*", "."),
    ("*", "a.b"),
    ("*.*", "a"),
    ("*.#.*", "a"),
    ("*.#", ""),
    ("#.*", ""),
    ("a.*", "a.b.c"),
    ("a.*.c", "a.c"),
    ("a.#.c", "a.b"),
    ("#.c", "a.b"),
    ("a.#", "b.a"),
    ("a", ""),
    ("", "a"),
    ("#.b.*.d", "x.b.d"),
    ("a*", "ab"),
    ("a#", "ab"),
    ("a.", "a"),
]


@pytest.fixture
def exchange(channel: Channel, name: Namer) -> str:
    exchange = name("topic")
    channel.exchange_declare(exchange, "topic")
    return exchange


@pytest.mark.parametrize(("pattern", "key"), MATCHES)
def test_pattern_matches_key(
    channel: Channel, exchange: str, queue: str, pattern: str, key: str
) -> None:
    _bind_exactly(channel, queue, exchange, pattern)

    channel.basic_publish(exchange, key, b"x")
    assert take_all(channel, queue) == [b"x"]


@pytest.mark.parametrize(("pattern", "key"), MISMATCHES)
def test_pattern_does_not_match_key(
    channel: Channel, exchange: str, queue: str, pattern: str, key: str
) -> None:
    _bind_exactly(channel, queue, exchange, pattern)

    channel.basic_publish(exchange, key, b"x")
    assert take_all(channel, queue) == []


def test_queue_bound_by_several_matching_patterns_gets_one_copy(
    channel: Channel, exchange: str, queue: str
) -> None:
    for pattern in ["#", "a.*", "*.b", "a.b", "a.#"]:
        channel.queue_bind(queue, exchange, pattern)

    channel.basic_publish(exchange, "a.b", b"x")
    assert take_all(channel, queue) == [b"x"]


def test_unbound_pattern_no_longer_matches_while_its_neighbours_do(
    channel: Channel, exchange: str, queue: str
) -> None:
    channel.queue_bind(queue, exchange, "a.#")
    channel.queue_bind(queue, exchange, "a.*.c")
    channel.queue_unbind(queue, exchange, "a.#")

    channel.basic_publish(exchange, "a.x", b"1")
    channel.basic_publish(exchange, "a.x.c", b"2")
    assert take_all(channel, queue) == [b"2"]


def _bind_exactly(channel: Channel, queue: str, exchange: str, pattern: str) -> None:
    # pika replaces an empty key by the queue's name only when the key is None.
    channel.queue_bind(queue, exchange, routing_key=pattern)
