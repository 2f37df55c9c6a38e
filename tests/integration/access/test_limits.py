"""Limits of users and vhosts, and permissions on routing keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import (
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
)

from headrace.core.broker import Broker
from headrace.wire.native.payloads import Op
from support.access_matrix import PASSWORD, USER, Site, clear
from support.raw_native import Native, Refused


@pytest.fixture(autouse=True)
def fresh(site: Site) -> Iterator[None]:
    site.allow_everything()
    yield
    site.do(clear)
    for name in ("max-connections", "max-channels"):
        site.do(lambda broker, n=name: broker.users.clear_user_limit(USER, n))
    for name in ("max-connections", "max-queues"):
        site.do(lambda broker, n=name: broker.users.clear_vhost_limit("/", n))
    site.do(lambda broker: broker.users.clear_topic_permissions(USER, "/"))


@pytest.fixture
def native(site: Site) -> Iterator[Native]:
    native = Native(("127.0.0.1", site.running.ports["native"]))
    native.hello(user=USER, password=PASSWORD)
    native.call(Op.CHANNEL_OPEN, 1)
    yield native
    native.close()


def native_hello(site: Site) -> str:
    native = Native(("127.0.0.1", site.running.ports["native"]))
    try:
        native.hello(user=USER, password=PASSWORD)
    except Refused as refused:
        return str(refused.answer["text"])
    finally:
        native.close()
    return "ok"


def test_connections_of_a_user_are_limited(site: Site) -> None:
    site.do(lambda broker: broker.users.set_user_limit(USER, "max-connections", 1))
    text = f"connection refused for user '{USER}': user connection limit (1) is reached"
    with site.connection(), site.as_guest():
        with pytest.raises(ProbableAccessDeniedError) as denied, site.connection():
            pass
        assert f"NOT_ALLOWED - {text}" in str(denied.value)
        assert native_hello(site) == text
    with site.connection():
        pass


def test_connections_to_a_vhost_are_limited(site: Site) -> None:
    site.do(lambda broker: broker.users.set_vhost_limit("/", "max-connections", 0))
    text = f"access to vhost '/' refused for user '{USER}': connection limit (0) is reached"
    with pytest.raises(ProbableAccessDeniedError) as denied, site.connection():
        pass

    assert text in str(denied.value)
    assert native_hello(site) == text


def test_channels_of_a_user_are_limited_over_all_its_connections(
    site: Site, native: Native
) -> None:
    site.do(lambda broker: broker.users.set_user_limit(USER, "max-channels", 2))
    text = (
        f"number of channels opened for user '{USER}' has reached the maximum allowed user limit "
        "of (2)"
    )
    with ExitStack() as stack:
        connection = stack.enter_context(site.connection())
        connection.channel()
        with pytest.raises(Refused) as refused:
            native.call(Op.CHANNEL_OPEN, 2)
        with pytest.raises(ConnectionClosedByBroker) as closed:
            connection.channel()

    assert refused.value.answer["text"] == text
    assert (closed.value.reply_code, closed.value.reply_text) == (530, f"NOT_ALLOWED - {text}")


def test_queues_of_a_vhost_are_limited(site: Site, native: Native) -> None:
    site.do(lambda broker: broker.users.set_vhost_limit("/", "max-queues", 1))
    text = "cannot declare queue 'second': queue limit in vhost '/' (1) is reached"
    with site.connection() as connection:
        connection.channel().queue_declare("first")
        connection.channel().queue_declare("first")  # it is there: that is no second one
        with pytest.raises(ChannelClosedByBroker) as closed:
            connection.channel().queue_declare("second")
        with pytest.raises(Refused) as refused:
            native.call(Op.QUEUE_DECLARE, name="second")
        with pytest.raises(ChannelClosedByBroker, match=r"queue 'amq\.gen-.* is reached"):
            connection.channel().queue_declare("")

    assert (closed.value.reply_code, closed.value.reply_text) == (
        406,
        f"PRECONDITION_FAILED - {text}",
    )
    assert refused.value.answer["text"] == text


# -- routing keys ---------------------------------------------------------------------------------


def topic_refusal(key: str) -> str:
    return f"access to topic '{key}' in exchange 'amq.topic' in vhost '/' refused for user '{USER}'"


@pytest.fixture
def restricted(site: Site) -> None:
    site.do(
        lambda broker: broker.users.set_topic_permissions(
            USER, "/", "amq.topic", r"^{username}\.", "^a"
        )
    )


@pytest.mark.usefixtures("restricted")
def test_routing_keys_of_a_topic_exchange_are_checked_in_amqp(site: Site) -> None:
    def publish(exchange: str, key: str, **headers: object) -> None:
        channel = connection.channel()
        channel.confirm_delivery()
        properties = pika.BasicProperties(headers=headers or None)
        channel.basic_publish(exchange, key, b"", properties)

    with site.connection() as connection:
        connection.channel().queue_declare("q")
        publish("amq.topic", f"{USER}.1")
        publish("amq.direct", "z")
        connection.channel().queue_bind("q", "amq.topic", "a.#")
        connection.channel().queue_bind("q", "amq.fanout", "z")
        for key, attempt in {
            "z": lambda: publish("amq.topic", "z"),
            "cc": lambda: publish("amq.topic", f"{USER}.1", CC=["cc"]),
            "bcc": lambda: publish("amq.topic", f"{USER}.1", BCC=["bcc"]),
            "b": lambda: connection.channel().queue_bind("q", "amq.topic", "b"),
            "#": lambda: connection.channel().queue_bind("q", "amq.topic", "#"),
            "u": lambda: connection.channel().queue_unbind("q", "amq.topic", "u"),
            "e": lambda: connection.channel().exchange_bind("amq.fanout", "amq.topic", "e"),
            "f": lambda: connection.channel().exchange_unbind("amq.fanout", "amq.topic", "f"),
        }.items():
            with pytest.raises(ChannelClosedByBroker) as closed:
                attempt()
            assert closed.value.reply_code == 403
            assert closed.value.reply_text == f"ACCESS_REFUSED - {topic_refusal(key)}"


@pytest.mark.usefixtures("restricted")
def test_routing_keys_of_a_topic_exchange_are_checked_in_the_native_protocol(
    site: Site, native: Native
) -> None:
    native.queue("q")
    native.publish("amq.topic", f"{USER}.1", b"")
    native.call(Op.BIND, queue="q", source="amq.topic", key="a.#")
    site.do(
        lambda broker: broker.get_vhost("/").bind(
            "amq.topic", broker.get_vhost("/").get_queue("q"), "b"
        )
    )
    for key, attempt in {
        "z": lambda: native.publish("amq.topic", "z", b""),
        "cc": lambda: native.publish("amq.topic", f"{USER}.1", b"", headers={"CC": ["cc"]}),
        "e": lambda: native.call(Op.BIND, queue="q", source="amq.topic", key="e"),
        "b": lambda: native.call(Op.UNBIND, queue="q", source="amq.topic"),  # all of them
    }.items():
        with pytest.raises(Refused) as refused:
            attempt()
        assert refused.value.answer["text"] == topic_refusal(key)


def test_a_topic_permission_set_later_stops_a_publisher_at_once(site: Site) -> None:
    with site.connection() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("amq.topic", "z", b"")
        site.do(lambda broker: broker.users.set_topic_permissions(USER, "/", "amq.topic", "^a", ""))
        with pytest.raises(ChannelClosedByBroker, match="access to topic 'z'"):
            channel.basic_publish("amq.topic", "z", b"")


@pytest.fixture
def strict(site: Site) -> Iterator[None]:
    def set_to(value: bool) -> Callable[[Broker], None]:
        def change(broker: Broker) -> None:
            broker.users.strict_topics = value
            broker.users.set_topic_permissions(USER, "/", "amq.topic", r"^own\.", "^own")

        return change

    site.do(set_to(True))
    yield
    site.do(set_to(False))


FORWARDING: dict[str, Callable[[BlockingChannel], object]] = {
    "dead letters keep their keys": lambda channel: channel.queue_declare(
        "strict-1", arguments={"x-dead-letter-exchange": "amq.topic"}
    ),
    "dead letters get another key": lambda channel: channel.queue_declare(
        "strict-2",
        arguments={"x-dead-letter-exchange": "amq.topic", "x-dead-letter-routing-key": "other"},
    ),
    "alternate exchange": lambda channel: channel.exchange_declare(
        "strict-3", arguments={"alternate-exchange": "amq.topic"}
    ),
    "binding": lambda channel: channel.exchange_bind("amq.topic", "amq.fanout"),
}


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("way", FORWARDING)
def test_strict_topic_permissions_hold_for_what_is_sent_on(site: Site, way: str) -> None:
    with site.connection() as connection, pytest.raises(ChannelClosedByBroker) as closed:
        FORWARDING[way](connection.channel())

    assert closed.value.reply_code == 403
    assert "in exchange 'amq.topic' in vhost '/' refused" in closed.value.reply_text


@pytest.mark.usefixtures("strict")
def test_strict_topic_permissions_hold_in_the_other_protocols(native: Native) -> None:
    dead_letters = {"x-dead-letter-exchange": "amq.topic"}
    with pytest.raises(Refused, match="access_refused: access to topic 'any key'"):
        native.call(Op.BIND, 1, source="amq.fanout", exchange="amq.topic")
    with pytest.raises(Refused, match="access_refused: access to topic 'any key'"):
        native.call(Op.QUEUE_DECLARE, 1, name="strict-4", arguments=dead_letters)


@pytest.mark.usefixtures("strict")
def test_strict_topic_permissions_allow_a_fixed_key_that_matches(site: Site) -> None:
    arguments = {"x-dead-letter-exchange": "amq.topic", "x-dead-letter-routing-key": "own.dead"}
    with site.connection() as connection:
        channel = connection.channel()
        channel.queue_declare("strict-5", arguments=arguments)
        channel.queue_delete("strict-5")
        channel.exchange_bind("amq.direct", "amq.fanout")  # no keys are restricted there
        channel.exchange_unbind("amq.direct", "amq.fanout")
