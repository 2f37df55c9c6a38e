"""Length limits and priorities of a queue."""

from __future__ import annotations

import pytest

from headrace.model.policy import Policy
from support.fake_loop import Inbox, Stage, message, ready

DEAD = {"dead_letter_exchange": "", "dead_letter_routing_key": "dead"}


def policy(**definition: object) -> Policy:
    named = {key.replace("_", "-"): value for key, value in definition.items()}
    return Policy.checked("p", "/", "^q$", "queues", 0, named)


def test_drop_head_keeps_the_newest(stage: Stage) -> None:
    queue = stage.queue(max_length=3, **DEAD)
    dead = stage.queue("dead")

    batch = stage.publish(*"abcde")

    assert batch.refused is None
    assert (ready(queue), ready(dead)) == (["c", "d", "e"], ["a", "b"])
    assert queue.counters.dropped == 2


def test_drop_head_counts_what_consumers_could_not_take(stage: Stage) -> None:
    queue = stage.queue(max_length=2)
    inbox = Inbox()
    inbox.consume(queue, prefetch=3)

    stage.publish(*"abcdefg")

    assert (inbox.seen, ready(queue)) == (["a", "b", "c"], ["f", "g"])


def test_many_messages_over_the_limit_are_dropped_in_several_turns(stage: Stage) -> None:
    queue = stage.queue(max_length_bytes=15)
    for number in range(45_000):
        stage.publish(str(number), turn=False)

    stage.turn.finish()
    assert 3 < queue.backlog.count < 45_000
    stage.run()
    assert ready(queue) == ["44997", "44998", "44999"]


def test_drop_head_in_bytes_counts_bodies_only(stage: Stage) -> None:
    queue = stage.queue(max_length_bytes=10)

    stage.publish("aaaa", "bbbb", "cc", "d")

    assert ready(queue) == ["bbbb", "cc", "d"]
    assert queue.backlog.size == 7


def test_a_message_larger_than_the_queue_drops_everything(stage: Stage) -> None:
    queue = stage.queue(max_length_bytes=10)

    stage.publish("aaaa", "x" * 11)

    assert (ready(queue), queue.backlog.size) == ([], 0)


def test_reject_publish_refuses_the_newest_and_says_which(stage: Stage) -> None:
    queue = stage.queue(max_length=3, overflow="reject-publish", **DEAD)
    dead = stage.queue("dead")

    assert stage.publish("a", "b").refused is None
    assert stage.publish("c", "d", "e").refused == {1, 2}
    assert stage.publish("f").refused == {0}

    assert (ready(queue), ready(dead)) == (["a", "b", "c"], [])


def test_reject_publish_dlx_buries_what_it_refuses(stage: Stage) -> None:
    queue = stage.queue(max_length=1, overflow="reject-publish-dlx", **DEAD)
    dead = stage.queue("dead")

    assert stage.publish(*"abc").refused == {1, 2}

    assert (ready(queue), ready(dead)) == (["a"], ["b", "c"])


def test_reject_publish_in_bytes(stage: Stage) -> None:
    queue = stage.queue(max_length_bytes=10, overflow="reject-publish")

    assert stage.publish("aaaa", "bbbb", "cccc", "d").refused == {2, 3}
    assert stage.publish("dd").refused is None
    assert stage.publish("e").refused == {0}

    assert queue.backlog.size == 10


def test_reject_publish_accepts_again_when_there_is_room(stage: Stage) -> None:
    queue = stage.queue(max_length=1, overflow="reject-publish")
    stage.publish("a")
    assert Inbox().get(queue) == "a"

    assert stage.publish("b").refused is None


def test_reject_publish_counts_what_a_consumer_takes_at_once(stage: Stage) -> None:
    queue = stage.queue(max_length=1, overflow="reject-publish")
    inbox = Inbox()
    inbox.consume(queue)

    for body in "abc":
        assert stage.publish(body, turn=False).refused is None
    stage.run()

    assert inbox.seen == ["a", "b", "c"]


def test_a_full_queue_does_not_starve_other_queues(stage: Stage) -> None:
    full, other = stage.queue("full", max_length=1, overflow="reject-publish"), stage.queue("other")
    for queue in (full, other):
        stage.vhost.bind("amq.fanout", queue, "")

    assert stage.publish("a", "b", exchange="amq.fanout", to="").refused == {1}

    assert (ready(full), ready(other)) == (["a"], ["a", "b"])


def test_two_queues_which_refuse_make_one_set_of_refused(stage: Stage) -> None:
    for name, limit in (("one", 1), ("two", 2)):
        queue = stage.queue(name, max_length=limit, overflow="reject-publish")
        stage.vhost.bind("amq.fanout", queue, "")

    assert stage.publish(*"abc", exchange="amq.fanout", to="").refused == {1, 2}


def test_max_length_zero_passes_to_a_consumer_and_keeps_nothing(stage: Stage) -> None:
    queue = stage.queue(max_length=0)
    stage.publish("lost")
    inbox = Inbox()
    inbox.consume(queue)

    stage.publish("passed")

    assert (inbox.seen, queue.backlog.count) == (["passed"], 0)


@pytest.mark.parametrize("overflow", ["drop-head", "reject-publish-dlx"])
def test_a_full_queue_which_is_its_own_dead_letter_queue_does_not_spin(
    stage: Stage, overflow: str
) -> None:
    queue = stage.queue(max_length=2, overflow=overflow, dead_letter_exchange="")

    stage.publish(*"abcd")

    assert queue.backlog.count == 2


def test_two_full_queues_that_dead_letter_into_each_other_settle(stage: Stage) -> None:
    left = stage.queue(
        "left", max_length=500, dead_letter_exchange="", dead_letter_routing_key="right"
    )
    right = stage.queue(
        "right", max_length=500, dead_letter_exchange="", dead_letter_routing_key="left"
    )
    stage.publish(*map(str, range(500)), to="left")
    stage.publish(*map(str, range(500)), to="right")

    stage.publish("last", to="left")

    assert (left.backlog.count, right.backlog.count) == (500, 500)


def test_a_limit_by_policy_counts_at_once_and_ends_with_it(stage: Stage) -> None:
    queue = stage.queue()
    stage.publish(*"abcd")
    stage.vhost.policies.set(policy(max_length=2))
    stage.run()
    assert (ready(queue), queue.policies.policy) == (["c", "d"], "p")

    stage.vhost.policies.clear("p")
    stage.publish(*"ef")

    assert (ready(queue), queue.policies.policy) == (["c", "d", "e", "f"], None)


def test_a_limit_in_bytes_by_policy_measures_bodies_from_then_on(stage: Stage) -> None:
    queue = stage.queue()
    stage.publish("aaaa", "bbbb", "cccc")
    whole = queue.backlog.size
    stage.vhost.policies.set(policy(max_length_bytes=9))
    stage.run()
    assert (ready(queue), queue.backlog.size) == (["bbbb", "cccc"], 8)

    stage.vhost.policies.clear("p")

    assert queue.backlog.size == whole * 2 // 3


def test_requeued_messages_count_towards_a_limit_set_meanwhile(stage: Stage) -> None:
    queue = stage.queue()
    inbox = Inbox()
    stage.publish("aaaa", "bbbb")
    inbox.get(queue)
    stage.vhost.policies.set(policy(max_length_bytes=8))

    inbox.requeue()
    stage.run()

    assert (ready(queue), queue.backlog.size) == (["aaaa", "bbbb"], 8)


def test_higher_priorities_go_first_and_keep_their_order(stage: Stage) -> None:
    queue = stage.queue(max_priority=5)
    levels = (("a", 0), ("b", 5), ("c", None), ("d", 2), ("e", 9), ("f", 2))

    stage.publish_contents([message(body, priority=level) for body, level in levels])

    assert stage.take_all(queue) == ["b", "e", "d", "f", "a", "c"]


def test_a_requeued_message_returns_to_its_place_in_its_level(stage: Stage) -> None:
    queue = stage.queue(max_priority=3)
    inbox = Inbox()
    contents = [message(body, priority=int(body[0])) for body in ("3a", "3b", "1a", "1b")]
    stage.publish_contents(contents)
    for _ in range(3):
        inbox.get(queue)

    inbox.requeue(2)
    inbox.requeue(1)
    inbox.requeue(3)

    assert ready(queue) == ["3a", "3b", "1a", "1b"]


def test_requeued_messages_of_mixed_priorities_return_to_their_places(stage: Stage) -> None:
    queue = stage.queue(max_priority=1)
    inbox = Inbox()
    names = ("1a", "0a", "1b", "1c", "0b", "1d")
    stage.publish_contents([message(body, priority=int(body[0])) for body in names[:3]])
    for body in names[3:]:
        stage.publish_contents([message(body, priority=int(body[0]))])
    for _ in names:
        inbox.get(queue)

    for tag in (6, 3, 1, 5, 2, 4):
        inbox.requeue(tag)

    assert ready(queue) == ["1a", "1b", "1c", "1d", "0a", "0b"]


def test_drop_head_drops_what_would_be_delivered_next(stage: Stage) -> None:
    queue = stage.queue(max_priority=3, max_length=2)

    stage.publish_contents([message(body, priority=int(body[0])) for body in ("1a", "3a", "1b")])

    assert queue.backlog.count == 2
