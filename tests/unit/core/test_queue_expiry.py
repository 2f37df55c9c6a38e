"""Messages and queues that expire: when, in which order, and where they go."""

from __future__ import annotations

from headrace.model.policy import Policy
from support.fake_loop import Inbox, Stage, message, ready


def test_a_queue_ttl_expires_messages_without_consumers(stage: Stage) -> None:
    queue = stage.queue(message_ttl=100)
    stage.publish("a")
    stage.advance(60)
    stage.publish("b")

    stage.advance(40)
    assert (queue.backlog.count, queue.counters.expired) == (1, 1)
    stage.advance(60)
    assert (queue.backlog.count, queue.counters.expired) == (0, 2)


def test_the_smaller_of_both_ttls_counts(stage: Stage) -> None:
    queue = stage.queue(message_ttl=100)
    stage.publish("a", ttl_ms=30)
    stage.publish("b", ttl_ms=300)

    stage.advance(30)
    assert ready(queue) == ["b"]
    stage.advance(70)
    assert queue.backlog.count == 0


def test_a_message_expires_only_at_the_head(stage: Stage) -> None:
    queue = stage.queue(dead_letter_exchange="", dead_letter_routing_key="dead")
    dead = stage.queue("dead")
    stage.publish("lasting")
    stage.publish("short", ttl_ms=10)

    stage.advance(50)
    assert (queue.backlog.count, dead.backlog.count) == (2, 0)

    inbox = Inbox()
    assert inbox.get(queue) == "lasting"
    assert inbox.get(queue) is None
    assert stage.take_all(dead) == ["short"]


def test_a_message_that_becomes_head_by_a_get_expires_on_time(stage: Stage) -> None:
    queue = stage.queue()
    stage.publish("lasting")
    stage.publish("short", ttl_ms=50)
    assert Inbox().get(queue) == "lasting"

    stage.advance(50)

    assert queue.backlog.count == 0


def test_a_message_that_becomes_head_by_a_delivery_expires_on_time(stage: Stage) -> None:
    queue = stage.queue()
    stage.publish("lasting")
    stage.publish("short", ttl_ms=50)
    Inbox().consume(queue, prefetch=1)
    stage.run()
    assert queue.backlog.count == 1

    stage.advance(50)

    assert queue.backlog.count == 0


def test_ttl_zero_reaches_a_consumer_who_is_ready(stage: Stage) -> None:
    queue = stage.queue()
    inbox = Inbox()
    inbox.consume(queue, prefetch=1)

    stage.publish("now", "never", ttl_ms=0)

    assert inbox.seen == ["now"]
    assert (queue.backlog.count, queue.counters.expired) == (0, 1)


def test_a_ttl_of_zero_drops_messages_without_a_consumer(stage: Stage) -> None:
    queue = stage.queue(message_ttl=0)

    stage.publish("a", "b")

    assert (queue.backlog.count, queue.counters.expired) == (0, 2)


def test_an_expired_message_is_not_delivered_to_a_consumer_who_comes_late(stage: Stage) -> None:
    queue = stage.queue()
    stage.publish("lasting")
    stage.publish("short", ttl_ms=10)
    stage.advance(20)

    inbox = Inbox()
    inbox.consume(queue, prefetch=1)
    stage.run()
    inbox.ack(1)
    stage.run()

    assert inbox.seen == ["lasting"]


def test_a_requeued_message_whose_time_is_over_expires(stage: Stage) -> None:
    queue = stage.queue()
    inbox = Inbox()
    stage.publish("a", ttl_ms=10)
    inbox.get(queue)
    stage.advance(20)

    inbox.requeue()
    stage.run()

    assert (queue.backlog.count, queue.counters.expired) == (0, 1)


def test_a_message_with_ttl_zero_is_not_delivered_again_when_requeued(stage: Stage) -> None:
    """Not even in the millisecond of its arrival: a requeue is no arrival."""
    queue = stage.queue(dead_letter_exchange="", dead_letter_routing_key="dead")
    dead = stage.queue("dead")
    inbox = Inbox()
    inbox.consume(queue)
    stage.publish("now", ttl_ms=0)

    inbox.requeue()
    stage.run()

    assert (inbox.seen, queue.counters.expired, ready(dead)) == (["now"], 1, ["now"])


def test_a_requeue_beside_an_arrival_does_not_renew_what_has_expired(stage: Stage) -> None:
    queue = stage.queue(message_ttl=0)
    inbox = Inbox()
    inbox.consume(queue)
    stage.publish("old")
    stage.publish("new", turn=False)

    inbox.requeue()
    stage.run()

    assert inbox.seen == ["old", "new"]


def test_a_requeued_message_keeps_its_time(stage: Stage) -> None:
    queue = stage.queue(message_ttl=100)
    inbox = Inbox()
    stage.publish("a")
    inbox.get(queue)
    stage.advance(60)
    inbox.requeue()
    stage.run()
    assert queue.backlog.count == 1

    stage.advance(40)

    assert queue.backlog.count == 0


def test_each_priority_has_its_own_head(stage: Stage) -> None:
    queue = stage.queue(max_priority=5)
    stage.publish("lasting")
    stage.publish_contents([message("urgent", priority=5)], ttl_ms=10)

    stage.advance(10)

    assert ready(queue) == ["lasting"]
    assert queue.counters.expired == 1


def test_an_unused_queue_goes_after_its_time(stage: Stage) -> None:
    stage.queue(expires=100)
    stage.publish("a")

    stage.advance(99)
    assert "q" in stage.vhost.queues
    stage.advance(1)
    assert "q" not in stage.vhost.queues


def test_declaring_and_getting_use_a_queue_but_publishing_does_not(stage: Stage) -> None:
    queue = stage.queue(expires=100)
    stage.advance(60)
    stage.queue(expires=100)
    stage.advance(60)
    Inbox().get(queue)
    stage.advance(60)
    stage.publish("a")
    assert not queue.deleted

    stage.advance(40)

    assert queue.deleted


def test_a_queue_with_a_consumer_does_not_expire_until_it_leaves(stage: Stage) -> None:
    queue = stage.queue(expires=100)
    inbox = Inbox()
    consumer = inbox.consume(queue)
    stage.advance(1000)
    assert not queue.deleted

    queue.unsubscribe(consumer)
    stage.advance(99)
    assert not queue.deleted
    stage.advance(1)
    assert queue.deleted


def test_a_policy_with_a_shorter_time_counts_at_once(stage: Stage) -> None:
    queue = stage.queue()
    for expires in (60_000, 100):
        definition = {"expires": expires}
        stage.vhost.policies.set(Policy.checked("p", "/", "^q$", "queues", 0, definition))

    stage.advance(100)

    assert queue.deleted


def test_a_removed_policy_no_longer_deletes_the_queue(stage: Stage) -> None:
    queue = stage.queue()
    stage.vhost.policies.set(Policy.checked("p", "/", "^q$", "queues", 0, {"expires": 100}))
    stage.vhost.policies.clear("p")

    stage.advance(1000)

    assert not queue.deleted
