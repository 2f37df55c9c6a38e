"""A channel's deliveries and settlements, down to the frames."""

from __future__ import annotations

import pytest

from headrace.core.queues.consumer import Consumer
from headrace.core.queues.queue import Queue
from headrace.core.reply_to import ReplyAddress
from headrace.errors import NotFound, PreconditionFailed
from headrace.server.amqp.channel import Channel
from headrace.server.base_channel import OUT_HIGH
from headrace.wire.amqp.content import make_content
from headrace.wire.amqp.methods import BasicCancel, BasicDeliver
from headrace.wire.amqp.properties import Properties
from support.fake_loop import Stage, ready
from support.fake_session import Desk, frames_in


@pytest.fixture
def queue(stage: Stage) -> Queue:
    return stage.queue()


def consume(channel: Channel, queue: Queue, tag: str = "c", *, no_ack: bool = False) -> Consumer:
    consumer = Consumer(queue, channel, tag, no_ack=no_ack, prefetch=channel.default_prefetch)
    queue.subscribe(consumer)
    channel.consumers[tag] = consumer
    return consumer


def deliver(tag: int, *, redelivered: bool = False, consumer_tag: str = "c") -> BasicDeliver:
    return BasicDeliver(
        consumer_tag=consumer_tag,
        delivery_tag=tag,
        redelivered=redelivered,
        exchange="",
        routing_key="q",
    )


def test_deliveries_are_written_with_rising_tags(
    stage: Stage, desk: Desk, channel: Channel, queue: Queue
) -> None:
    consume(channel, queue)

    stage.publish("a")
    stage.publish("b", "")

    assert desk.take() == [(7, deliver(1), "a"), (7, deliver(2), "b"), (7, deliver(3), "")]
    assert channel.unacked_count == 3


def test_frames_are_cut_to_the_size_the_peer_wants(
    stage: Stage, desk: Desk, channel: Channel, queue: Queue
) -> None:
    desk.small_frames, desk.frame_max = True, 4096
    consume(channel, queue)

    stage.publish_contents([make_content(Properties(), b"x" * 10_000, channel=3)])

    assert max(len(frame) for _, _, frame in frames_in(b"".join(desk.output.parts))) == 4096
    assert desk.take() == [(7, deliver(1), "x" * 10_000)]


def test_a_requeued_message_is_delivered_as_redelivered(
    stage: Stage, desk: Desk, channel: Channel, queue: Queue
) -> None:
    consume(channel, queue)
    stage.publish("a")
    desk.take()

    channel.reject(1, multiple=False, requeue=True)
    stage.run()

    assert desk.take() == [(7, deliver(2, redelivered=True), "a")]


def test_settling_an_unknown_tag_fails_after_the_known_ones(
    stage: Stage, channel: Channel, queue: Queue
) -> None:
    consume(channel, queue)
    stage.publish("a", "b")

    with pytest.raises(PreconditionFailed, match="unknown delivery tag 3"):
        channel.acknowledge(1, 3)

    assert (queue.unacked, channel.unacked_count) == (0, 0)
    with pytest.raises(PreconditionFailed, match="unknown delivery tag 1"):
        channel.reject(1, multiple=False, requeue=True)


def test_a_limit_shared_by_the_channel_counts_all_its_consumers(
    stage: Stage, channel: Channel, queue: Queue
) -> None:
    other = stage.queue("other")
    channel.prefetch = 3
    consume(channel, queue, "one")
    consume(channel, other, "two")

    stage.publish(*"abcd")
    stage.publish(*"wxyz", to="other")
    assert (channel.unacked_count, queue.unacked, other.unacked) == (3, 3, 0)

    channel.acknowledge_upto(3)
    stage.run()

    assert (channel.unacked_count, queue.unacked + other.unacked) == (3, 3)
    assert queue.backlog.count + other.backlog.count == 2


def test_gets_do_not_count_against_the_shared_limit(
    stage: Stage, channel: Channel, queue: Queue
) -> None:
    stage.publish("a")
    run = queue.take_one()
    assert run is not None
    channel.delivery_tag += 1
    channel.unacked.add(1, Consumer(queue, channel, ""), run)

    channel.acknowledge(1, 1)

    assert channel.unacked_count == 0


def test_a_full_socket_makes_the_queue_wait(
    stage: Stage, desk: Desk, channel: Channel, queue: Queue
) -> None:
    consume(channel, queue, no_ack=True)

    stage.publish(b"x" * (OUT_HIGH + 1))
    stage.publish("later")

    assert desk.output.is_full
    assert desk.output.waiting == {queue}
    assert ready(queue) == ["later"]


def test_closing_a_channel_gives_everything_back_to_others(
    stage: Stage, desk: Desk, channel: Channel, queue: Queue
) -> None:
    consume(channel, queue)
    stage.publish("a", "b")
    desk.take()
    second = Channel(desk.session, 8)
    consume(second, queue, "d")

    channel.release()
    stage.run()

    expected = [deliver(tag, redelivered=True, consumer_tag="d") for tag in (1, 2)]
    assert desk.take() == [(8, expected[0], "a"), (8, expected[1], "b")]
    assert (channel.unacked_count, len(channel.consumers), queue.unacked) == (0, 0, 2)


def test_closing_a_channel_ends_an_auto_delete_queue_only_with_its_last_consumer(
    stage: Stage, desk: Desk, channel: Channel
) -> None:
    queue = stage.vhost.declare_queue("auto", auto_delete=True)
    second = Channel(desk.session, 8)
    consume(channel, queue)
    consume(second, queue)

    channel.release()
    assert not queue.deleted
    second.release()
    assert queue.deleted


def test_a_deleted_queue_cancels_its_consumer(
    stage: Stage, desk: Desk, channel: Channel, queue: Queue
) -> None:
    consume(channel, queue)

    stage.vhost.delete_queue("q", None)

    assert desk.take() == [(7, BasicCancel(consumer_tag="c", nowait=True), None)]
    assert not channel.consumers


def test_an_ack_timeout_frees_the_channel(stage: Stage, channel: Channel) -> None:
    queue = stage.queue("timed", ack_timeout=100)
    channel.default_prefetch = 1
    consumer = consume(channel, queue)
    stage.publish("a", to="timed")

    stage.clock.advance(100)

    assert (channel.unacked_count, consumer.unacked, queue.unacked) == (0, 0, 0)
    channel.acknowledge(1, 1)  # too late, and forgiven


def test_an_answer_to_a_reply_address_is_a_delivery(
    stage: Stage, desk: Desk, channel: Channel
) -> None:
    address = channel.reply_address = ReplyAddress("replies", channel.deliver_reply)
    stage.vhost.replies.add(address)

    stage.publish("answer", to=address.name)
    ((number, method, body),) = desk.take()

    assert (number, body) == (7, "answer")
    assert isinstance(method, BasicDeliver)
    assert (method.consumer_tag, method.routing_key) == ("replies", address.name)
    channel.close_reply_address()
    assert stage.vhost.replies.find(address.name) is None


def test_the_empty_name_is_the_queue_declared_last(channel: Channel) -> None:
    with pytest.raises(NotFound, match="no previously declared queue"):
        channel.queue_name("")
    channel.last_queue = "q"

    assert (channel.queue_name(""), channel.queue_name("other")) == ("q", "other")
