"""Exchanges bound to exchanges."""

import pytest

from support.amqp_observer import channel_refused, exchange_exists, take_all
from support.amqp_types import Channel, Connection, Namer, RawChannel


@pytest.fixture
def source(channel: Channel, name: Namer) -> str:
    source = name("source")
    channel.exchange_declare(source, "direct")
    return source


@pytest.fixture
def target(channel: Channel, name: Namer, queue: str) -> str:
    """A fanout exchange in front of `queue`."""
    target = name("target")
    channel.exchange_declare(target, "fanout")
    channel.queue_bind(queue, target, "")
    return target


def test_destination_gets_the_messages_of_its_source(
    channel: Channel, source: str, target: str, queue: str
) -> None:
    channel.exchange_bind(target, source, "k")

    channel.basic_publish(source, "k", b"yes")
    channel.basic_publish(source, "other", b"no")
    assert take_all(channel, queue) == [b"yes"]


def test_delivery_shows_the_exchange_of_the_publish(
    channel: Channel, source: str, target: str, queue: str
) -> None:
    channel.exchange_bind(target, source, "k")
    channel.basic_publish(source, "k", b"x")

    method, _, _ = channel.basic_get(queue, auto_ack=True)
    assert (method.exchange, method.routing_key) == (source, "k")


def test_destination_routes_by_the_original_key(
    channel: Channel, source: str, queue: str, name: Namer
) -> None:
    topic = name("topic")
    channel.exchange_declare(topic, "topic")
    channel.exchange_bind(topic, source, "a.b")
    channel.queue_bind(queue, topic, "a.*")

    channel.basic_publish(source, "a.b", b"x")
    assert take_all(channel, queue) == [b"x"]


def test_queue_reached_by_two_ways_gets_one_copy(
    channel: Channel, source: str, target: str, queue: str
) -> None:
    channel.exchange_bind(target, source, "k")
    channel.queue_bind(queue, source, "k")

    channel.basic_publish(source, "k", b"x")
    assert take_all(channel, queue) == [b"x"]


def test_cycle_of_exchanges_gives_one_copy(
    channel: Channel, target: str, queue: str, name: Namer
) -> None:
    other = name("exchange")
    channel.exchange_declare(other, "fanout")
    channel.exchange_bind(other, target)
    channel.exchange_bind(target, other)
    channel.exchange_bind(other, other)

    channel.basic_publish(other, "", b"x")
    assert take_all(channel, queue) == [b"x"]


def test_unbound_exchange_gets_nothing_more(
    channel: Channel, source: str, target: str, queue: str
) -> None:
    channel.exchange_bind(target, source, "k")
    channel.exchange_unbind(target, source, "k")

    channel.basic_publish(source, "k", b"x")
    assert take_all(channel, queue) == []


def test_unbind_is_answered_by_method_51(raw_channel: RawChannel, source: str, target: str) -> None:
    answer = raw_channel.call("exchange.unbind", destination=target, source=source)

    assert answer.name == "exchange.unbind-ok"


def test_unbinding_what_is_not_bound_is_no_error(
    channel: Channel, source: str, target: str
) -> None:
    channel.exchange_unbind(target, source, "never")


@pytest.mark.parametrize("missing", ["source", "destination"])
def test_binding_a_missing_exchange_is_refused(
    channel: Channel, source: str, name: Namer, missing: str
) -> None:
    ends = {"source": source, "destination": source, missing: name("missing")}

    with channel_refused(404):
        channel.exchange_bind(**ends)


def test_exchange_bound_to_itself_is_in_use(channel: Channel, source: str) -> None:
    channel.exchange_bind(source, source, "k")

    with channel_refused(406):
        channel.exchange_delete(source, if_unused=True)


def test_auto_delete_source_goes_when_its_destination_is_deleted(
    channel: Channel, connection: Connection, target: str, name: Namer
) -> None:
    source = name("source")
    channel.exchange_declare(source, "fanout", auto_delete=True)
    channel.exchange_bind(target, source)

    channel.exchange_delete(target)
    assert not exchange_exists(connection, source)


def test_internal_exchange_can_be_reached_through_a_binding(
    channel: Channel, source: str, queue: str, name: Namer
) -> None:
    internal = name("internal")
    channel.exchange_declare(internal, "fanout", internal=True)
    channel.exchange_bind(internal, source, "k")
    channel.queue_bind(queue, internal, "")

    channel.basic_publish(source, "k", b"x")
    assert take_all(channel, queue) == [b"x"]
