"""Direct reply-to: answers without a queue of one's own."""

import pytest

from support.amqp_types import Channel, RawChannel, RawConnect
from support.raw_amqp import ChannelClosed, NothingCame

REPLY_TO = "amq.rabbitmq.reply-to"


@pytest.fixture
def asking(raw_channel: RawChannel) -> RawChannel:
    """A channel which waits for replies."""
    raw_channel.call("basic.consume", queue=REPLY_TO, no_ack=True, consumer_tag="replies")
    return raw_channel


def _ask(asking: RawChannel, responder: RawChannel, queue: str) -> str:
    """Sends a question and returns the address which the responder is given."""
    asking.publish("", queue, b"question", {"reply_to": REPLY_TO})
    return str(responder.get_soon(queue).content.properties["reply_to"])


def test_question_carries_an_address_of_its_own(
    asking: RawChannel, raw: RawConnect, queue: str
) -> None:
    address = _ask(asking, raw().open_channel(), queue)

    assert address.startswith(REPLY_TO + ".")
    assert len(address) > len(REPLY_TO) + 1


def test_reply_comes_back_to_the_asking_channel(
    asking: RawChannel, raw: RawConnect, queue: str
) -> None:
    responder = raw().open_channel()
    address = _ask(asking, responder, queue)
    responder.publish("", address, b"answer", {"correlation_id": "7"})

    reply = asking.read()
    assert (reply.name, reply.consumer_tag, reply.body) == ("basic.deliver", "replies", b"answer")
    assert (reply.exchange, reply.routing_key) == ("", address)
    assert reply.content.properties["correlation_id"] == "7"


def test_several_replies_to_one_address_all_come(
    asking: RawChannel, raw: RawConnect, queue: str
) -> None:
    responder = raw().open_channel()
    address = _ask(asking, responder, queue)
    for body in (b"1", b"2"):
        responder.publish("", address, body)

    assert [asking.read().body for _ in range(2)] == [b"1", b"2"]


def test_mandatory_reply_comes_too(asking: RawChannel, raw: RawConnect, queue: str) -> None:
    # RabbitMQ also returns it to the responder, as no queue was found; nobody should rely on that.
    responder = raw().open_channel()
    address = _ask(asking, responder, queue)
    responder.publish("", address, b"answer", mandatory=True)

    assert asking.read().body == b"answer"


def test_consumer_which_would_acknowledge_is_refused(raw_channel: RawChannel) -> None:
    with pytest.raises(ChannelClosed) as caught:
        raw_channel.call("basic.consume", queue=REPLY_TO, no_ack=False)
    assert caught.value.code == 406


def test_second_reply_consumer_on_the_channel_is_refused(asking: RawChannel) -> None:
    with pytest.raises(ChannelClosed) as caught:
        asking.call("basic.consume", queue=REPLY_TO, no_ack=True, consumer_tag="second")
    assert caught.value.code == 406


def test_question_without_a_reply_consumer_is_refused(raw_channel: RawChannel, queue: str) -> None:
    raw_channel.publish("", queue, b"question", {"reply_to": REPLY_TO})

    raw_channel.expect_close(406)


def test_other_reply_addresses_are_left_alone(raw_channel: RawChannel, queue: str) -> None:
    raw_channel.publish("", queue, b"question", {"reply_to": "my.own.queue"})

    assert raw_channel.get(queue).content.properties["reply_to"] == "my.own.queue"


def test_a_reply_address_can_be_declared_passively_while_its_client_waits(
    asking: RawChannel, raw: RawConnect, queue: str
) -> None:
    responder = raw().open_channel()
    address = _ask(asking, responder, queue)

    answer = responder.call("queue.declare", queue=address, passive=True)
    assert (answer.message_count, answer.consumer_count) == (0, 1)


def test_address_dies_with_the_asking_channel(
    asking: RawChannel, raw: RawConnect, queue: str
) -> None:
    responder = raw().open_channel()
    address = _ask(asking, responder, queue)
    asking.call("channel.close")

    responder.call("confirm.select")
    responder.publish("", address, b"late")
    assert responder.read().name == "basic.ack"


def test_pseudo_queue_can_be_declared_passively(channel: Channel) -> None:
    answer = channel.queue_declare(REPLY_TO, passive=True).method

    assert answer.message_count == 0


def test_cancelled_reply_consumer_gets_nothing_more(
    asking: RawChannel, raw: RawConnect, queue: str
) -> None:
    responder = raw().open_channel()
    address = _ask(asking, responder, queue)
    asking.call("basic.cancel", consumer_tag="replies")
    responder.publish("", address, b"late")
    responder.round_trip()
    asking.round_trip()

    with pytest.raises(NothingCame):
        asking.read(limit=0.05)


def test_reply_consumer_can_be_set_again_after_a_cancel(asking: RawChannel) -> None:
    asking.call("basic.cancel", consumer_tag="replies")

    answer = asking.call("basic.consume", queue=REPLY_TO, no_ack=True)
    assert answer.name == "basic.consume-ok"


@pytest.mark.usefixtures("headrace_only")  # RabbitMQ 3.10 stumbles: 541
def test_made_up_address_is_unroutable(raw_channel: RawChannel) -> None:
    raw_channel.publish("", REPLY_TO + ".made.up", b"x", mandatory=True)

    assert raw_channel.read().code == 312
