"""Subscribing, purging, deleting: the life of a queue and of its consumers."""

from __future__ import annotations

import gc

import pytest

from headrace.errors import AccessRefused
from support.fake_loop import Inbox, Stage, ready


def test_messages_wait_until_the_end_of_the_turn(stage: Stage) -> None:
    queue = stage.queue()
    inbox = Inbox()
    inbox.consume(queue)

    stage.publish("a", turn=False)
    stage.publish("b", turn=False)
    assert inbox.seen == []
    stage.run()

    assert inbox.seen == ["a", "b"]
    assert len(inbox.runs) == 1  # dealt together


def test_a_consumer_who_comes_later_gets_what_is_there(stage: Stage) -> None:
    queue = stage.queue()
    stage.publish("a", "b")

    inbox = Inbox()
    inbox.consume(queue)
    stage.run()

    assert inbox.seen == ["a", "b"]


def test_an_auto_delete_queue_goes_with_its_last_consumer(stage: Stage) -> None:
    queue = stage.vhost.declare_queue("q", auto_delete=True)
    consumers = [Inbox().consume(queue) for _ in range(2)]
    queue.unsubscribe(consumers[0])
    assert not queue.deleted

    queue.unsubscribe(consumers[1])

    assert queue.deleted
    assert "q" not in stage.vhost.queues


def test_an_auto_delete_queue_without_a_consumer_stays(stage: Stage) -> None:
    queue = stage.vhost.declare_queue("q", auto_delete=True)

    stage.publish("a")
    Inbox().get(queue)

    assert not queue.deleted


def test_an_exclusive_consumer_wants_to_be_alone(stage: Stage) -> None:
    queue = stage.queue()
    consumer = Inbox().consume(queue)
    with pytest.raises(AccessRefused, match="in exclusive use"):
        Inbox().consume(queue, exclusive=True)

    queue.unsubscribe(consumer)
    Inbox().consume(queue, exclusive=True)
    with pytest.raises(AccessRefused, match="in exclusive use"):
        Inbox().consume(queue)


def test_a_single_active_queue_takes_no_exclusive_consumer(stage: Stage) -> None:
    queue = stage.queue(single_active_consumer=True)

    with pytest.raises(AccessRefused, match="in exclusive use"):
        Inbox().consume(queue, exclusive=True)


def test_purging_drops_what_is_ready_and_leaves_what_is_held(stage: Stage) -> None:
    queue = stage.queue()
    inbox = Inbox()
    stage.publish(*"abc")
    inbox.get(queue)

    assert queue.purge() == 2

    assert (queue.backlog.count, queue.backlog.size, queue.unacked) == (0, 0, 1)
    inbox.requeue()
    assert ready(queue) == ["a"]


def test_purging_gives_consumers_their_messages_first(stage: Stage) -> None:
    queue = stage.queue()
    inbox = Inbox()
    inbox.consume(queue, prefetch=1)
    stage.publish("a", "b", turn=False)

    assert queue.purge() == 1
    assert inbox.seen == ["a"]


def test_deleting_cancels_consumers_and_counts_messages(stage: Stage) -> None:
    queue = stage.queue()
    inbox = Inbox()
    inbox.consume(queue, "one", prefetch=1)
    inbox.consume(queue, "two", prefetch=1)
    stage.publish(*"abcd")

    assert stage.vhost.delete_queue("q", None) == 2

    assert inbox.cancelled_tags == ["one", "two"]
    assert len(queue.consumers) == 0


def test_counters_count_what_happened(stage: Stage) -> None:
    queue = stage.queue()
    inbox = Inbox()
    stage.publish(*"abc")
    inbox.get(queue)
    inbox.get(queue)
    inbox.requeue(2)
    inbox.ack(1)

    counters = queue.counters
    assert (counters.published, counters.delivered, counters.got) == (3, 2, 2)
    assert (counters.acked, counters.returned) == (1, 1)


def test_a_deleted_queue_leaves_nothing_to_the_garbage_collector(stage: Stage) -> None:
    """A flood of declares and deletes made it stop the loop for 60 to 80 ms at a time."""
    inbox = Inbox()
    gc.collect()
    gc.disable()
    try:
        for number in range(20):
            queue = stage.queue(f"q{number}", message_ttl=60_000)
            stage.publish("a", to=queue.name)
            inbox.consume(queue, no_ack=True)
            stage.vhost.remove_queue(queue)
            del queue
        stage.run()
        assert gc.collect() == 0
    finally:
        gc.enable()
