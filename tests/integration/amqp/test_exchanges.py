"""Exchanges: declaring, deleting, binding, and what direct and fanout do."""

import pytest
from pika.exceptions import ChannelClosedByBroker

from headrace.testing import wait_for
from support.amqp_observer import channel_refused, exchange_exists, take_all
from support.amqp_types import Channel, Connection, Namer, RawChannel, RawConnect
from support.raw_amqp import ChannelClosed, ConnectionClosed


@pytest.fixture
def exchange(channel: Channel, name: Namer) -> str:
    """A direct exchange."""
    exchange = name("exchange")
    channel.exchange_declare(exchange, "direct")
    return exchange


@pytest.mark.parametrize(
    ("exchange", "kind"),
    [
        ("amq.direct", "direct"),
        ("amq.fanout", "fanout"),
        ("amq.topic", "topic"),
        ("amq.headers", "headers"),
        ("amq.match", "headers"),
    ],
)
def test_predeclared_exchange_is_durable_and_of_its_type(
    channel: Channel, exchange: str, kind: str
) -> None:
    channel.exchange_declare(exchange, kind, durable=True)


def test_trace_exchange_is_an_internal_durable_topic(channel: Channel) -> None:
    channel.exchange_declare("amq.rabbitmq.trace", "topic", durable=True, internal=True)


def test_predeclared_exchange_declared_differently_is_refused(channel: Channel) -> None:
    with channel_refused(406):
        channel.exchange_declare("amq.direct", "direct", durable=False)


def test_new_exchange_with_reserved_prefix_is_refused(channel: Channel) -> None:
    with channel_refused(403):
        channel.exchange_declare("amq.conformance", "direct")


def test_predeclared_exchange_cannot_be_deleted(channel: Channel) -> None:
    with channel_refused(403):
        channel.exchange_delete("amq.direct")


@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers"])
def test_equal_declaration_of_an_existing_exchange_is_accepted(
    channel: Channel, name: Namer, kind: str
) -> None:
    exchange = name("exchange")
    channel.exchange_declare(exchange, kind, durable=True, auto_delete=True)

    channel.exchange_declare(exchange, kind, durable=True, auto_delete=True)


@pytest.mark.parametrize(
    "other",
    [
        {"exchange_type": "topic"},
        {"durable": True},
        {"auto_delete": True},
        {"internal": True},
        {"arguments": {"alternate-exchange": "amq.fanout"}},
    ],
    ids=lambda other: next(iter(other)),
)
def test_declaration_which_differs_in_one_point_is_refused(
    channel: Channel, exchange: str, other: dict[str, object]
) -> None:
    with channel_refused(406):
        channel.exchange_declare(exchange, **{"exchange_type": "direct", **other})


def test_unknown_argument_is_not_compared(channel: Channel, exchange: str) -> None:
    channel.exchange_declare(exchange, "direct", arguments={"x-whatever": 1})


def test_a_passive_declaration_checks_the_name_only(channel: Channel, exchange: str) -> None:
    channel.exchange_declare(exchange, "topic", passive=True, durable=True)


def test_passive_declaration_of_a_missing_exchange_is_refused(
    channel: Channel, name: Namer
) -> None:
    with channel_refused(404):
        channel.exchange_declare(name("exchange"), passive=True)


def test_unknown_exchange_type_is_refused(
    raw_channel: RawChannel, name: Namer, is_reference: bool
) -> None:
    # RabbitMQ 3.10 closes the connection by 503; 4.x, and we, the channel by 406.
    expected, code = (ConnectionClosed, 503) if is_reference else (ChannelClosed, 406)

    with pytest.raises(expected) as caught:
        raw_channel.call("exchange.declare", exchange=name("exchange"), type="no-such-type")
    assert caught.value.code == code


def test_declare_without_waiting_gets_no_answer(raw_channel: RawChannel, name: Namer) -> None:
    exchange = name("exchange")
    raw_channel.send("exchange.declare", exchange=exchange, type="direct", nowait=True)

    answer = raw_channel.call("exchange.declare", exchange=exchange, passive=True)
    assert answer.name == "exchange.declare-ok"
    raw_channel.send("exchange.delete", exchange=exchange, nowait=True)
    with pytest.raises(ChannelClosed) as caught:
        raw_channel.call("exchange.declare", exchange=exchange, passive=True)
    assert caught.value.code == 404


def test_deleting_a_missing_exchange_is_no_error(channel: Channel, name: Namer) -> None:
    channel.exchange_delete(name("exchange"))


def test_deleted_exchange_is_gone(channel: Channel, connection: Connection, exchange: str) -> None:
    channel.exchange_delete(exchange)

    assert not exchange_exists(connection, exchange)


def test_bound_exchange_is_not_deleted_if_unused(
    channel: Channel, exchange: str, queue: str
) -> None:
    channel.queue_bind(queue, exchange, "k")

    with channel_refused(406):
        channel.exchange_delete(exchange, if_unused=True)


def test_unbound_exchange_is_deleted_if_unused(
    channel: Channel, connection: Connection, exchange: str
) -> None:
    channel.exchange_delete(exchange, if_unused=True)

    assert not exchange_exists(connection, exchange)


def test_exchange_with_incoming_bindings_only_counts_as_unused(
    channel: Channel, connection: Connection, exchange: str
) -> None:
    channel.exchange_bind(exchange, "amq.fanout")

    channel.exchange_delete(exchange, if_unused=True)
    assert not exchange_exists(connection, exchange)


def test_bindings_do_not_survive_their_exchange(
    channel: Channel, exchange: str, queue: str
) -> None:
    channel.queue_bind(queue, exchange, "k")
    channel.exchange_delete(exchange)
    channel.exchange_declare(exchange, "direct")

    channel.basic_publish(exchange, "k", b"x")
    assert take_all(channel, queue) == []


def test_auto_delete_exchange_goes_with_its_last_binding(
    channel: Channel, connection: Connection, name: Namer, queue: str
) -> None:
    exchange = name("exchange")
    channel.exchange_declare(exchange, "direct", auto_delete=True)
    channel.queue_bind(queue, exchange, "a")
    channel.queue_bind(queue, exchange, "b")

    channel.queue_unbind(queue, exchange, "a")
    assert exchange_exists(connection, exchange)
    channel.queue_unbind(queue, exchange, "b")
    assert not exchange_exists(connection, exchange)


def test_auto_delete_exchange_goes_with_its_last_queue(
    channel: Channel, connection: Connection, name: Namer, queue: str
) -> None:
    exchange = name("exchange")
    channel.exchange_declare(exchange, "fanout", auto_delete=True)
    channel.queue_bind(queue, exchange, "")

    channel.queue_delete(queue)
    wait_for(lambda: not exchange_exists(connection, exchange))


def test_auto_delete_exchange_which_was_never_bound_stays(
    channel: Channel, connection: Connection, name: Namer, queue: str
) -> None:
    exchange = name("exchange")
    channel.exchange_declare(exchange, "direct", auto_delete=True)

    channel.queue_unbind(queue, exchange, "never")
    assert exchange_exists(connection, exchange)


def test_publishing_to_an_internal_exchange_is_refused(channel: Channel, name: Namer) -> None:
    exchange = name("exchange")
    channel.exchange_declare(exchange, "fanout", internal=True)
    channel.confirm_delivery()

    with channel_refused(403):
        channel.basic_publish(exchange, "", b"x")


def test_publishing_to_a_missing_exchange_closes_the_channel(
    raw_channel: RawChannel, name: Namer
) -> None:
    raw_channel.publish(name("exchange"), "k", b"x")

    close = raw_channel.expect_close(404)
    assert (close.class_id, close.method_id) == (60, 40)
    assert close.text.startswith("NOT_FOUND - ")


def test_direct_exchange_compares_keys_exactly(channel: Channel, exchange: str, queue: str) -> None:
    channel.queue_bind(queue, exchange, "Key")

    for key in ["Key", "key", "Key.x", "Ke", "#", "*", ""]:
        channel.basic_publish(exchange, key, key.encode())
    assert take_all(channel, queue) == [b"Key"]


def test_fanout_exchange_ignores_the_key(channel: Channel, name: Namer, queue: str) -> None:
    exchange = name("exchange")
    channel.exchange_declare(exchange, "fanout")
    channel.queue_bind(queue, exchange, "bound")

    channel.basic_publish(exchange, "other", b"1")
    channel.basic_publish(exchange, "", b"2")
    assert take_all(channel, queue) == [b"1", b"2"]


def test_every_bound_queue_gets_a_copy(channel: Channel, exchange: str, name: Namer) -> None:
    queues = [name() for _ in range(3)]
    for queue in queues:
        channel.queue_declare(queue)
        channel.queue_bind(queue, exchange, "k")

    channel.basic_publish(exchange, "k", b"x")
    assert [take_all(channel, queue) for queue in queues] == [[b"x"]] * 3


def test_identical_bindings_are_one(channel: Channel, exchange: str, queue: str) -> None:
    channel.queue_bind(queue, exchange, "k", {"a": 1})
    channel.queue_bind(queue, exchange, "k", {"a": 1})
    channel.basic_publish(exchange, "k", b"x")
    assert take_all(channel, queue) == [b"x"]

    channel.queue_unbind(queue, exchange, "k", {"a": 1})
    channel.basic_publish(exchange, "k", b"y")
    assert take_all(channel, queue) == []


def test_same_key_with_other_arguments_is_a_second_binding_but_one_copy(
    channel: Channel, exchange: str, queue: str
) -> None:
    channel.queue_bind(queue, exchange, "k", {"a": 1})
    channel.queue_bind(queue, exchange, "k", {"a": 2})
    channel.basic_publish(exchange, "k", b"x")
    assert take_all(channel, queue) == [b"x"]

    channel.queue_unbind(queue, exchange, "k", {"a": 1})
    channel.basic_publish(exchange, "k", b"y")
    assert take_all(channel, queue) == [b"y"]


def test_unbound_key_is_no_longer_routed(channel: Channel, exchange: str, queue: str) -> None:
    channel.queue_bind(queue, exchange, "a")
    channel.queue_bind(queue, exchange, "b")
    channel.queue_unbind(queue, exchange, "a")

    channel.basic_publish(exchange, "a", b"a")
    channel.basic_publish(exchange, "b", b"b")
    assert take_all(channel, queue) == [b"b"]


def test_unbinding_what_is_not_bound_is_no_error(
    channel: Channel, exchange: str, queue: str
) -> None:
    channel.queue_unbind(queue, exchange, "never")


def test_unbinding_a_missing_queue_is_no_error(
    channel: Channel, exchange: str, name: Namer
) -> None:
    channel.queue_unbind(name(), exchange, "k")


def test_unbinding_from_a_missing_exchange_is_no_error(
    channel: Channel, queue: str, name: Namer
) -> None:
    channel.queue_unbind(queue, name("exchange"), "k")


def test_binding_a_missing_queue_is_refused(channel: Channel, exchange: str, name: Namer) -> None:
    with channel_refused(404):
        channel.queue_bind(name(), exchange, "k")


def test_binding_to_a_missing_exchange_is_refused(
    channel: Channel, queue: str, name: Namer
) -> None:
    with channel_refused(404):
        channel.queue_bind(queue, name("exchange"), "k")


def test_message_is_routed_once_when_it_is_published(
    channel: Channel, exchange: str, queue: str, name: Namer
) -> None:
    late = name()
    channel.queue_bind(queue, exchange, "k")
    channel.basic_publish(exchange, "k", b"early")
    channel.queue_declare(late)
    channel.queue_bind(late, exchange, "k")

    assert take_all(channel, late) == []
    assert take_all(channel, queue) == [b"early"]


def test_delivery_shows_exchange_and_key_of_the_publish(
    channel: Channel, exchange: str, queue: str
) -> None:
    channel.queue_bind(queue, exchange, "the.key")
    channel.basic_publish(exchange, "the.key", b"x")

    method, _, _ = channel.basic_get(queue, auto_ack=True)
    assert (method.exchange, method.routing_key) == (exchange, "the.key")


def test_exchange_and_queue_names_are_apart(
    channel: Channel, connection: Connection, name: Namer
) -> None:
    shared = name()
    channel.exchange_declare(shared, "fanout")
    with pytest.raises(ChannelClosedByBroker):
        channel.queue_declare(shared, passive=True)

    channel = connection.channel()
    channel.queue_declare(shared)
    channel.queue_bind(shared, shared)
    channel.basic_publish(shared, "", b"x")
    assert take_all(channel, shared) == [b"x"]


def test_names_of_several_bytes_per_letter_are_kept(
    raw: RawConnect, channel: Channel, name: Namer
) -> None:
    queue = name() + "-größe-日本"
    channel.queue_declare(queue, exclusive=True)
    channel.basic_publish("", queue, b"x")

    method, _, body = channel.basic_get(queue, auto_ack=True)
    assert (method.routing_key, body) == (queue, b"x")
