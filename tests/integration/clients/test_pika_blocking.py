"""pika's BlockingConnection: the everyday operations of an AMQP client."""

from __future__ import annotations

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import (
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    NackError,
    ProbableAuthenticationError,
    UnroutableError,
)

from support.endpoint import Address, Names

pytestmark = pytest.mark.timeout(30)
REPLY_TO = "amq.rabbitmq.reply-to"


def take(channel: BlockingChannel, queue: str, count: int, **options: bool) -> list[tuple]:
    """The next ``count`` deliveries, or fewer when five seconds bring none."""
    taken = []
    for method, properties, body in channel.consume(queue, inactivity_timeout=5, **options):
        if method is None:
            break
        taken.append((method, properties, body))
        if len(taken) == count:
            break
    return taken


def test_published_messages_are_consumed_in_order(channel: BlockingChannel, names: Names) -> None:
    queue = names.queue()
    channel.queue_declare(queue, durable=True)
    for number in range(20):
        channel.basic_publish("", queue, b"%d" % number)

    deliveries = take(channel, queue, 20)
    channel.basic_ack(deliveries[-1][0].delivery_tag, multiple=True)
    channel.cancel()

    assert [body for _, _, body in deliveries] == [b"%d" % number for number in range(20)]
    assert channel.queue_declare(queue, passive=True).method.message_count == 0


def test_all_properties_and_headers_arrive_as_sent(channel: BlockingChannel, names: Names) -> None:
    queue = names.queue()
    channel.queue_declare(queue)
    sent = pika.BasicProperties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers={"text": "ä", "number": 7, "big": 2**40, "flag": True, "none": None, "list": [1]},
        delivery_mode=2,
        priority=5,
        correlation_id="c-1",
        reply_to="elsewhere",
        expiration="60000",
        message_id="m-1",
        timestamp=1700000000,
        type="kind",
        user_id="guest",
        app_id="tests",
    )

    channel.basic_publish("", queue, b"body", sent)

    assert channel.basic_get(queue, auto_ack=True)[1] == sent


@pytest.mark.parametrize("size", [0, 1, 131072 - 8, 131072 - 7, 1_000_000])
def test_bodies_of_every_size_arrive_whole(
    channel: BlockingChannel, names: Names, size: int
) -> None:
    queue = names.queue()
    channel.queue_declare(queue)
    body = bytes(index % 251 for index in range(size))

    channel.basic_publish("", queue, body)

    assert channel.basic_get(queue, auto_ack=True)[2] == body


def test_requeued_messages_return_to_their_place_marked_redelivered(
    channel: BlockingChannel, names: Names
) -> None:
    queue = names.queue()
    channel.queue_declare(queue)
    for body in (b"a", b"b", b"c"):
        channel.basic_publish("", queue, body)

    first = [channel.basic_get(queue)[0] for _ in range(2)]
    channel.basic_nack(first[1].delivery_tag, multiple=True, requeue=True)
    again = [channel.basic_get(queue, auto_ack=True) for _ in range(3)]

    assert [body for _, _, body in again] == [b"a", b"b", b"c"]
    assert [method.redelivered for method, _, _ in again] == [True, True, False]


def test_rejected_messages_go_to_the_dead_letter_exchange(
    channel: BlockingChannel, names: Names
) -> None:
    queue, dead = names.queue(), names.queue("dead")
    channel.queue_declare(dead)
    channel.queue_declare(
        queue, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    )
    channel.basic_publish("", queue, b"unwanted")

    channel.basic_reject(channel.basic_get(queue)[0].delivery_tag, requeue=False)
    ((_, properties, body),) = take(channel, dead, 1, auto_ack=True)
    channel.cancel()

    assert body == b"unwanted"
    assert properties.headers["x-death"][0]["reason"] == "rejected"
    assert properties.headers["x-death"][0]["queue"] == queue


def test_a_confirmed_publish_returns_only_after_the_queue_has_the_message(
    channel: BlockingChannel, names: Names
) -> None:
    queue = names.queue()
    channel.queue_declare(queue, durable=True)
    channel.confirm_delivery()

    for _ in range(10):
        channel.basic_publish("", queue, b"kept", pika.BasicProperties(delivery_mode=2))

    assert channel.queue_declare(queue, passive=True).method.message_count == 10


def test_a_full_queue_that_rejects_publishes_is_a_nack(
    channel: BlockingChannel, names: Names
) -> None:
    queue = names.queue()
    channel.queue_declare(queue, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"fits")

    with pytest.raises(NackError):
        channel.basic_publish("", queue, b"does not")


def test_an_unroutable_mandatory_message_comes_back(channel: BlockingChannel, names: Names) -> None:
    channel.confirm_delivery()

    with pytest.raises(UnroutableError) as caught:
        channel.basic_publish("", names.queue("absent"), b"lost", mandatory=True)

    (returned,) = caught.value.messages
    assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
    assert returned.body == b"lost"


def test_a_return_reaches_the_callback_without_confirms(
    connection: pika.BlockingConnection, channel: BlockingChannel, names: Names
) -> None:
    returned: list[bytes] = []
    channel.add_on_return_callback(lambda _c, _m, _p, body: returned.append(body))

    channel.basic_publish("", names.queue("absent"), b"lost", mandatory=True)
    while not returned:
        connection.process_data_events(time_limit=1)

    assert returned == [b"lost"]


def test_a_request_is_answered_by_direct_reply_to(
    connection: pika.BlockingConnection, channel: BlockingChannel, names: Names
) -> None:
    queue, replies = names.queue("rpc"), []
    channel.queue_declare(queue)

    def answer(
        server: BlockingChannel, _method: object, request: pika.BasicProperties, body: bytes
    ) -> None:
        reply = pika.BasicProperties(correlation_id=request.correlation_id)
        server.basic_publish("", request.reply_to, body.upper(), reply)

    connection.channel().basic_consume(queue, answer, auto_ack=True)
    channel.basic_consume(
        REPLY_TO, lambda _c, _m, p, body: replies.append((p.correlation_id, body)), auto_ack=True
    )

    request = pika.BasicProperties(reply_to=REPLY_TO, correlation_id="42")
    channel.basic_publish("", queue, b"shout", request)
    while not replies:
        connection.process_data_events(time_limit=1)

    assert replies == [("42", b"SHOUT")]


def test_get_returns_the_remaining_count_or_get_empty(
    channel: BlockingChannel, names: Names
) -> None:
    queue = names.queue()
    channel.queue_declare(queue)
    channel.basic_publish("", queue, b"one")
    channel.basic_publish("", queue, b"two")

    assert channel.basic_get(queue, auto_ack=True)[0].message_count == 1
    assert channel.basic_get(queue, auto_ack=True)[0].message_count == 0
    assert channel.basic_get(queue, auto_ack=True) == (None, None, None)


def test_a_transaction_shows_nothing_before_commit_and_nothing_after_rollback(
    connection: pika.BlockingConnection, channel: BlockingChannel, names: Names
) -> None:
    queue, observer = names.queue(), connection.channel()
    channel.queue_declare(queue)
    channel.tx_select()

    channel.basic_publish("", queue, b"undone")
    channel.tx_rollback()
    channel.basic_publish("", queue, b"done")
    before = observer.queue_declare(queue, passive=True).method.message_count
    channel.tx_commit()

    assert before == 0
    assert observer.basic_get(queue, auto_ack=True)[2] == b"done"
    assert observer.basic_get(queue, auto_ack=True)[0] is None


def test_the_consumer_gets_a_cancel_when_its_queue_is_deleted(
    connection: pika.BlockingConnection, channel: BlockingChannel, names: Names
) -> None:
    queue, cancelled = names.queue(), []
    channel.queue_declare(queue)
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    tag = channel.basic_consume(queue, lambda *_: None)

    connection.channel().queue_delete(queue)
    while not cancelled:
        connection.process_data_events(time_limit=1)

    assert cancelled == [tag]
    assert channel.is_open


def test_a_channel_error_closes_the_channel_and_leaves_the_connection(
    connection: pika.BlockingConnection, channel: BlockingChannel, names: Names
) -> None:
    absent = names.queue("absent")
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_declare(absent, passive=True)

    assert caught.value.reply_code == 404
    assert caught.value.reply_text == f"NOT_FOUND - no queue '{absent}' in vhost '/'"
    assert connection.channel().queue_declare("", exclusive=True).method.message_count == 0


def test_a_connection_error_closes_the_connection_with_its_code(
    connection: pika.BlockingConnection, channel: BlockingChannel, names: Names
) -> None:
    queue = names.queue()
    channel.queue_declare(queue)
    channel.basic_consume(queue, lambda *_: None, consumer_tag="same")

    # pika itself refuses to reuse a tag, so a second consumer is asked for behind its back
    channel._impl._consumers.pop("same")
    with pytest.raises(ConnectionClosedByBroker) as caught:
        channel._impl.basic_consume(queue, lambda *_: None, consumer_tag="same")
        connection.process_data_events(time_limit=5)

    assert caught.value.reply_code == 530


def test_prefetch_limits_what_is_outstanding(
    connection: pika.BlockingConnection, channel: BlockingChannel, names: Names
) -> None:
    queue, held = names.queue(), []
    channel.queue_declare(queue)
    channel.confirm_delivery()  # a count is only sure to include what was confirmed
    for number in range(5):
        channel.basic_publish("", queue, b"%d" % number)
    channel.basic_qos(prefetch_count=2)
    channel.basic_consume(queue, lambda _c, method, _p, _b: held.append(method.delivery_tag))
    while len(held) < 2:
        connection.process_data_events(time_limit=1)

    # the reply to a declare comes after any delivery that was already on its way
    left = connection.channel().queue_declare(queue, passive=True).method.message_count
    assert (held, left) == ([1, 2], 3)

    channel.basic_ack(2, multiple=True)
    while len(held) < 4:
        connection.process_data_events(time_limit=1)
    assert held == [1, 2, 3, 4]


def test_a_wrong_password_is_an_authentication_error(amqp_address: Address) -> None:
    credentials = pika.PlainCredentials("guest", "wrong")
    with pytest.raises(ProbableAuthenticationError):
        pika.BlockingConnection(
            pika.ConnectionParameters(*amqp_address, credentials=credentials, retry_delay=0)
        )
