"""pika's BlockingConnection: queues, exchanges bindings, and what is refused about them."""

from __future__ import annotations

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from support.endpoint import Address, Names

pytestmark = pytest.mark.timeout(30)


def test_an_exclusive_queue_is_locked_for_others_and_gone_with_its_connection(
    amqp_address: Address, channel: BlockingChannel
) -> None:
    parameters = pika.URLParameters(amqp_address.url)
    with pika.BlockingConnection(parameters) as owner:
        queue = owner.channel().queue_declare("", exclusive=True).method.queue
        with pytest.raises(ChannelClosedByBroker) as locked:
            channel.basic_get(queue)

    with pytest.raises(ChannelClosedByBroker) as gone:
        channel.connection.channel().queue_declare(queue, passive=True)

    assert queue.startswith("amq.gen-")
    assert (locked.value.reply_code, gone.value.reply_code) == (405, 404)


def test_redeclaring_with_other_settings_is_refused(
    connection: pika.BlockingConnection, channel: BlockingChannel, names: Names
) -> None:
    queue = names.queue()
    channel.queue_declare(queue, durable=True)

    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_declare(queue, durable=False)

    assert caught.value.reply_code == 406
    assert "inequivalent arg 'durable'" in caught.value.reply_text


@pytest.mark.parametrize(
    ("kind", "binding", "key"),
    [("direct", "a", "a"), ("fanout", "", "any"), ("topic", "a.*.#", "a.b.c.d")],
)
def test_each_kind_of_exchange_routes_to_its_bindings(
    channel: BlockingChannel, names: Names, kind: str, binding: str, key: str
) -> None:
    exchange, queue = names.exchange(kind), names.queue()
    channel.exchange_declare(exchange, kind, durable=True)
    channel.queue_declare(queue)
    channel.queue_bind(queue, exchange, binding)

    channel.basic_publish(exchange, key, b"routed")

    method, _, body = channel.basic_get(queue, auto_ack=True)
    assert (method.exchange, method.routing_key, body) == (exchange, key, b"routed")


def test_headers_exchanges_and_exchange_bindings_route(
    channel: BlockingChannel, names: Names
) -> None:
    first, second, queue = names.exchange("headers"), names.exchange("fanout"), names.queue()
    channel.exchange_declare(first, "headers")
    channel.exchange_declare(second, "fanout")
    channel.queue_declare(queue)
    channel.exchange_bind(second, first, "", {"x-match": "all", "colour": "red", "size": 3})
    channel.queue_bind(queue, second)

    for size in (3, 4):
        channel.basic_publish(
            first, "", b"%d" % size, pika.BasicProperties(headers={"colour": "red", "size": size})
        )

    assert channel.basic_get(queue, auto_ack=True)[2] == b"3"
    assert channel.basic_get(queue, auto_ack=True)[0] is None


def test_purge_unbind_and_conditional_delete_answer_as_expected(
    connection: pika.BlockingConnection, channel: BlockingChannel, names: Names
) -> None:
    exchange, queue = names.exchange(), names.queue()
    channel.exchange_declare(exchange, "fanout")
    channel.queue_declare(queue)
    channel.queue_bind(queue, exchange, "key")
    channel.basic_publish(exchange, "", b"one")
    channel.queue_unbind(queue, exchange, "key")
    channel.basic_publish(exchange, "", b"two")

    with pytest.raises(ChannelClosedByBroker) as caught:
        connection.channel().queue_delete(queue, if_empty=True)

    assert caught.value.reply_code == 406
    assert channel.queue_purge(queue).method.message_count == 1
    assert channel.queue_delete(queue, if_empty=True).method.message_count == 0
