"""Queues: declaring, counting, purging and deleting."""

import re

import pytest

from headrace.testing import wait_for
from support.amqp_observer import (
    Inbox,
    channel_refused,
    consumers,
    exists,
    publish_all,
    ready,
    take_all,
)
from support.amqp_types import Channel, Connect, Connection, Namer, RawChannel
from support.raw_amqp import ChannelClosed


def test_server_names_a_queue_declared_without_name(channel: Channel) -> None:
    name = channel.queue_declare("", exclusive=True).method.queue

    assert re.fullmatch(r"amq\.gen-[A-Za-z0-9_-]{22}", name)


def test_server_given_names_differ(channel: Channel) -> None:
    names = {channel.queue_declare("", exclusive=True).method.queue for _ in range(5)}

    assert len(names) == 5


def test_server_named_queue_can_be_declared_passively(channel: Channel) -> None:
    name = channel.queue_declare("", exclusive=True).method.queue

    assert channel.queue_declare(name, passive=True).method.queue == name


def test_server_named_queue_cannot_be_declared_by_that_name(channel: Channel) -> None:
    name = channel.queue_declare("", exclusive=True).method.queue

    with channel_refused(403):
        channel.queue_declare(name, exclusive=True)


def test_passive_declaration_without_name_is_refused(raw_channel: RawChannel) -> None:
    with pytest.raises(ChannelClosed) as caught:
        raw_channel.call("queue.declare", queue="", passive=True)
    assert caught.value.code == 404


def test_new_queue_with_reserved_prefix_is_refused(channel: Channel) -> None:
    with channel_refused(403):
        channel.queue_declare("amq.conformance")


def test_declaration_is_answered_with_name_and_no_messages(channel: Channel, name: Namer) -> None:
    queue = name()

    ok = channel.queue_declare(queue).method
    assert (ok.queue, ok.message_count, ok.consumer_count) == (queue, 0, 0)


def test_declaration_counts_ready_messages(channel: Channel, queue: str) -> None:
    publish_all(channel, queue, "1", "2", "3")
    channel.basic_get(queue)

    assert channel.queue_declare(queue).method.message_count == 2


def test_declaration_counts_consumers(channel: Channel, queue: str) -> None:
    Inbox(channel, queue)
    Inbox(channel, queue)

    assert consumers(channel, queue) == 2


def test_equal_declaration_keeps_the_messages(channel: Channel, queue: str) -> None:
    publish_all(channel, queue, "kept")

    channel.queue_declare(queue)
    assert take_all(channel, queue) == [b"kept"]


@pytest.mark.parametrize("other", [{"durable": True}, {"auto_delete": True}], ids=str)
def test_declaration_which_differs_is_refused(
    channel: Channel, queue: str, other: dict[str, bool]
) -> None:
    with channel_refused(406):
        channel.queue_declare(queue, **other)


def test_refusal_names_the_argument_and_both_values(raw_channel: RawChannel, queue: str) -> None:
    with pytest.raises(ChannelClosed) as caught:
        raw_channel.call("queue.declare", queue=queue, durable=True)

    close = caught.value.close
    assert (close.class_id, close.method_id) == (50, 10)
    assert close.text == (
        f"PRECONDITION_FAILED - inequivalent arg 'durable' for queue '{queue}' in vhost '/': "
        "received 'true' but current is 'false'"
    )


def test_passive_declaration_compares_nothing(channel: Channel, queue: str) -> None:
    channel.queue_declare(queue, passive=True, durable=True, auto_delete=True)


def test_passive_declaration_of_a_missing_queue_is_refused(
    raw_channel: RawChannel, name: Namer
) -> None:
    queue = name()
    with pytest.raises(ChannelClosed) as caught:
        raw_channel.call("queue.declare", queue=queue, passive=True)

    assert caught.value.code == 404
    assert caught.value.text == f"NOT_FOUND - no queue '{queue}' in vhost '/'"


def test_declare_without_waiting_gets_no_answer(raw_channel: RawChannel, name: Namer) -> None:
    queue = name()
    raw_channel.send("queue.declare", queue=queue, nowait=True)
    raw_channel.send("queue.bind", queue=queue, exchange="amq.fanout", nowait=True)

    answer = raw_channel.call("queue.purge", queue=queue)
    assert answer.name == "queue.purge-ok"


def test_refusal_comes_even_without_waiting(raw_channel: RawChannel, queue: str) -> None:
    raw_channel.send("queue.declare", queue=queue, durable=True, nowait=True)

    raw_channel.expect_close(406)


def test_messages_come_in_the_order_of_publishing(channel: Channel, queue: str) -> None:
    numbers = [str(number) for number in range(200)]
    publish_all(channel, queue, *numbers)

    assert [body.decode() for body in take_all(channel, queue)] == numbers


def test_delete_answers_with_the_number_of_ready_messages(channel: Channel, queue: str) -> None:
    publish_all(channel, queue, "1", "2", "3")
    channel.basic_get(queue)

    assert channel.queue_delete(queue).method.message_count == 2


def test_deleted_queue_is_gone(channel: Channel, connection: Connection, queue: str) -> None:
    channel.queue_delete(queue)

    assert not exists(connection, queue)


def test_deleting_a_missing_queue_is_no_error(channel: Channel, name: Namer) -> None:
    assert channel.queue_delete(name()).method.message_count == 0


def test_queue_with_consumers_is_not_deleted_if_unused(
    channel: Channel, connection: Connection, queue: str
) -> None:
    Inbox(connection.channel(), queue)

    with channel_refused(406):
        channel.queue_delete(queue, if_unused=True)


def test_queue_with_messages_is_not_deleted_if_empty(channel: Channel, queue: str) -> None:
    publish_all(channel, queue, "x")

    with channel_refused(406):
        channel.queue_delete(queue, if_empty=True)


def test_unused_and_empty_queue_is_deleted_under_both_conditions(
    channel: Channel, connection: Connection, queue: str
) -> None:
    channel.queue_delete(queue, if_unused=True, if_empty=True)

    assert not exists(connection, queue)


def test_deleted_queue_is_unbound(channel: Channel, queue: str, name: Namer) -> None:
    exchange = name("exchange")
    channel.exchange_declare(exchange, "fanout")
    channel.queue_bind(queue, exchange)
    channel.queue_delete(queue)
    channel.queue_declare(queue)

    channel.basic_publish(exchange, "", b"x")
    assert take_all(channel, queue) == []


def test_purge_takes_the_ready_messages_and_counts_them(channel: Channel, queue: str) -> None:
    publish_all(channel, queue, "1", "2", "3")

    assert channel.queue_purge(queue).method.message_count == 3
    assert ready(channel, queue) == 0


def test_purge_leaves_unacknowledged_messages(channel: Channel, queue: str) -> None:
    publish_all(channel, queue, "held", "purged")
    method, _, _ = channel.basic_get(queue)

    assert channel.queue_purge(queue).method.message_count == 1
    channel.basic_nack(method.delivery_tag)
    assert take_all(channel, queue) == [b"held"]


def test_purging_a_missing_queue_is_refused(channel: Channel, name: Namer) -> None:
    with channel_refused(404):
        channel.queue_purge(name())


def test_queue_outlives_its_connection(
    connect: Connect, connection: Connection, name: Namer
) -> None:
    queue = name()
    other = connect()
    other.channel().queue_declare(queue)
    other.close()

    assert exists(connection, queue)


def test_connections_see_the_same_queue(connect: Connect, channel: Channel, queue: str) -> None:
    other = connect().channel()
    publish_all(other, queue, "x")

    wait_for(lambda: ready(channel, queue) == 1)


def test_names_are_declared_bound_and_deleted_without_line_ends(
    raw_channel: RawChannel, name: Namer
) -> None:
    queue, exchange = name(), name()
    broken = {one: f"{one[:3]}\r\n{one[3:]}\n" for one in (queue, exchange)}
    assert raw_channel.call("queue.declare", queue=broken[queue]).queue == queue
    raw_channel.call("exchange.declare", exchange=broken[exchange], type="fanout")
    raw_channel.call("queue.bind", queue=broken[queue], exchange=broken[exchange])
    raw_channel.publish(exchange, "", b"x")
    assert raw_channel.get_soon(queue).body == b"x"

    raw_channel.call("exchange.delete", exchange=broken[exchange])
    raw_channel.call("queue.delete", queue=broken[queue])
    raw_channel.send("queue.declare", queue=queue, passive=True)
    raw_channel.expect_close(404)
