"""Acks, requeues, rejections, time-outs: what becomes of delivered messages."""

from __future__ import annotations

import random

from headrace.wire.amqp.content import properties_of
from support.fake_loop import Inbox, Stage, ready

DEAD = {"dead_letter_exchange": "", "dead_letter_routing_key": "dead"}


def test_acknowledged_messages_are_gone_and_counted(stage: Stage) -> None:
    queue = stage.queue()
    inbox = Inbox()
    inbox.consume(queue)
    stage.publish(*"abc")
    assert queue.unacked == 3

    inbox.ack(1, 3)

    assert (queue.unacked, queue.counters.acked, queue.backlog.count) == (0, 3, 0)


def test_requeued_messages_return_to_their_original_places(stage: Stage) -> None:
    queue = stage.queue()
    inbox = Inbox()
    stage.publish(*"abcdef")
    for _ in range(4):
        inbox.get(queue)

    inbox.requeue(3)
    inbox.requeue(1)
    assert ready(queue) == ["a", "c", "e", "f"]
    inbox.requeue(4)
    inbox.requeue(2)

    assert ready(queue) == [*"abcdef"]


def test_runs_dealt_to_three_consumers_come_back_interleaved(stage: Stage) -> None:
    queue = stage.queue()
    inboxes = [Inbox(), Inbox(), Inbox()]
    consumers = [inbox.consume(queue) for inbox in inboxes]
    numbers = [str(number) for number in range(100)]
    stage.publish(*numbers)
    for consumer in consumers:
        queue.unsubscribe(consumer)

    for inbox in random.Random(1).sample(inboxes, 3):
        inbox.requeue()

    assert ready(queue) == numbers


def test_a_requeued_message_is_marked_as_redelivered(stage: Stage) -> None:
    queue = stage.queue()
    inbox = Inbox()
    stage.publish("a", "b")
    inbox.get(queue)
    inbox.requeue(1)

    inbox.get(queue)
    inbox.get(queue)

    assert [inbox.deliveries[tag] for tag in (2, 3)] == [("a", 1), ("b", 0)]
    assert queue.counters.redelivered == 1


def test_a_requeued_message_goes_to_another_consumer(stage: Stage) -> None:
    queue = stage.queue()
    first, second = Inbox(), Inbox()
    consumer = first.consume(queue)
    stage.publish("a")

    second.consume(queue)
    queue.consumers.remove(consumer)
    first.requeue()
    queue.consumers_left()
    stage.run()

    assert second.deliveries == {1: ("a", 1)}


def test_rejected_messages_are_dropped_without_a_dead_letter_exchange(stage: Stage) -> None:
    queue = stage.queue()
    inbox = Inbox()
    inbox.consume(queue)
    stage.publish("a", "b")

    inbox.reject()

    assert (queue.unacked, queue.backlog.count, queue.counters.dead_lettered) == (0, 0, 0)


def test_rejecting_makes_room_for_the_next(stage: Stage) -> None:
    queue = stage.queue()
    inbox = Inbox()
    inbox.consume(queue, prefetch=1)
    stage.publish("a", "b")

    inbox.reject(1)
    stage.run()

    assert inbox.seen == ["a", "b"]


def test_the_delivery_limit_buries_a_message_that_always_comes_back(stage: Stage) -> None:
    queue = stage.queue(queue_type="quorum", delivery_limit=2, **DEAD)
    dead = stage.queue("dead")
    inbox = Inbox()
    stage.publish("poison")

    for tag in (1, 2, 3):
        assert inbox.get(queue) == "poison"
        inbox.requeue(tag)

    assert inbox.get(queue) is None
    assert [times for _, times in inbox.deliveries.values()] == [0, 1, 2]
    (run,) = dead.backlog.runs()
    headers = properties_of(run.contents[0]).headers
    assert headers is not None
    assert headers.get("x-first-death-reason") == "delivery_limit"


def test_an_ack_that_comes_too_late_finds_its_message_requeued(stage: Stage) -> None:
    queue = stage.queue(ack_timeout=100)
    inbox = Inbox()
    stage.publish("a", "b")
    inbox.get(queue)
    stage.advance(99)
    assert queue.backlog.count == 1

    stage.advance(1)
    assert (ready(queue), queue.unacked) == (["a", "b"], 0)
    inbox.ack(1)  # forgiven
    assert (ready(queue), queue.unacked, queue.counters.acked) == (["a", "b"], 0, 0)


def test_an_ack_timeout_takes_back_only_what_is_left(stage: Stage) -> None:
    queue = stage.queue(ack_timeout=100)
    inbox = Inbox()
    inbox.consume(queue, prefetch=4)
    stage.publish(*"abcd")
    inbox.ack(1)
    inbox.ack(3)
    inbox.limit = 0

    stage.advance(100)

    assert (ready(queue), queue.unacked) == (["b", "d"], 0)


def test_an_ack_timeout_can_dead_letter(stage: Stage) -> None:
    queue = stage.queue(ack_timeout=100, ack_timeout_action="dead-letter", **DEAD)
    dead = stage.queue("dead")
    inbox = Inbox()
    inbox.consume(queue)
    stage.publish("a")

    stage.advance(100)

    assert (ready(queue), ready(dead), queue.unacked) == ([], ["a"], 0)


def test_each_delivery_has_its_own_ack_timeout(stage: Stage) -> None:
    queue = stage.queue(ack_timeout=100)
    inbox = Inbox()
    stage.publish("a", "b", "c")
    inbox.get(queue)
    stage.advance(50)
    inbox.get(queue)
    inbox.ack(1)

    stage.advance(50)
    assert queue.unacked == 1
    stage.advance(50)
    assert (queue.unacked, ready(queue)) == (0, ["b", "c"])


def test_settled_deliveries_are_not_kept_until_their_timeout(stage: Stage) -> None:
    queue = stage.queue(ack_timeout=1_800_000)
    stuck, busy = Inbox(), Inbox()
    stage.publish("stuck")
    stuck.get(queue)

    for tag in range(1, 2001):
        stage.publish("x")
        busy.get(queue)
        busy.ack(tag)

    assert len(queue._ack_timeouts._leases) < 200


def test_a_deleted_queue_ignores_late_settlements(stage: Stage) -> None:
    queue = stage.queue(ack_timeout=100, **DEAD)
    dead = stage.queue("dead")
    inbox = Inbox()
    inbox.consume(queue)
    stage.publish(*"abcd")

    stage.vhost.delete_queue("q", None)
    assert inbox.cancelled_tags == ["c"]
    inbox.ack(1)
    inbox.requeue(2)
    inbox.reject(3)
    stage.advance(200)

    assert (queue.backlog.count, dead.backlog.count) == (0, 0)
    assert not queue.marked


def test_a_new_queue_of_the_same_name_gets_nothing_of_the_old(stage: Stage) -> None:
    old = stage.queue()
    inbox = Inbox()
    stage.publish("a", "b")
    inbox.get(old)
    stage.vhost.delete_queue("q", None)

    new = stage.queue()
    inbox.requeue()
    stage.publish("c")

    assert ready(new) == ["c"]
