"""Consumers of a queue take turns, as far as their credit allows."""

from __future__ import annotations

from support.fake_loop import Inbox, Stage


def numbers(n: int, start: int = 0) -> list[str]:
    return [str(number) for number in range(start, start + n)]


def test_three_equal_consumers_get_a_hundred_each_in_turn(stage: Stage) -> None:
    queue = stage.queue()
    inboxes = [Inbox() for _ in range(3)]
    for inbox in inboxes:
        inbox.consume(queue)

    stage.publish(*numbers(300))

    assert [len(inbox.seen) for inbox in inboxes] == [100, 100, 100]
    assert inboxes[0].seen == numbers(300)[0::3]
    assert inboxes[2].seen == numbers(300)[2::3]


def test_the_rotation_goes_on_where_it_stopped(stage: Stage) -> None:
    queue = stage.queue()
    inboxes = [Inbox() for _ in range(3)]
    for inbox in inboxes:
        inbox.consume(queue)

    for size in (1, 1, 2, 4, 1, 5, 1):  # 15 messages in uneven portions
        stage.publish(*["x"] * size)

    assert [len(inbox.seen) for inbox in inboxes] == [5, 5, 5]


def test_a_new_consumer_waits_for_its_turn_in_round_robin(stage: Stage) -> None:
    queue = stage.queue()
    first, second, third = Inbox(), Inbox(), Inbox()
    first.consume(queue)
    second.consume(queue)
    stage.publish("0")

    third.consume(queue)
    stage.publish("1", "2", "3")

    assert (first.seen, second.seen, third.seen) == (["0", "2"], ["1"], ["3"])


def test_a_consumer_who_leaves_does_not_disturb_the_rotation(stage: Stage) -> None:
    queue = stage.queue()
    first, second, third = Inbox(), Inbox(), Inbox()
    consumers = [inbox.consume(queue) for inbox in (first, second, third)]
    stage.publish("0")

    queue.unsubscribe(consumers[1])
    stage.publish("1", "2")

    assert (first.seen, second.seen, third.seen) == (["0", "2"], [], ["1"])


def test_prefetch_limits_what_a_consumer_holds(stage: Stage) -> None:
    queue = stage.queue()
    inbox = Inbox()
    inbox.consume(queue, prefetch=2)
    stage.publish(*numbers(5))
    assert inbox.seen == ["0", "1"]

    inbox.ack(1)
    stage.run()

    assert inbox.seen == ["0", "1", "2"]
    assert (queue.unacked, queue.backlog.count) == (2, 2)


def test_prefetch_does_not_limit_a_consumer_without_acks(stage: Stage) -> None:
    queue = stage.queue()
    inbox = Inbox()
    inbox.consume(queue, prefetch=2, no_ack=True)

    stage.publish(*numbers(50))

    assert (len(inbox.seen), queue.unacked, queue.counters.acked) == (50, 0, 50)


def test_a_full_consumer_is_skipped_and_comes_back(stage: Stage) -> None:
    queue = stage.queue()
    slow, fast = Inbox(), Inbox()
    slow.consume(queue, prefetch=1)
    fast.consume(queue, prefetch=100)
    stage.publish(*numbers(10))
    assert (slow.seen, fast.seen) == (["0"], numbers(9, start=1))

    slow.ack(1)
    stage.publish("10", "11")

    assert (slow.seen[1:], fast.seen[9:]) == (["10"], ["11"])


def test_a_higher_priority_is_served_first(stage: Stage) -> None:
    queue = stage.queue()
    low, high = Inbox(), Inbox()
    low.consume(queue, priority=0, prefetch=10)
    high.consume(queue, priority=5, prefetch=2)

    stage.publish(*numbers(5))

    assert (high.seen, low.seen) == (["0", "1"], ["2", "3", "4"])


def test_equal_priorities_take_turns_above_the_others(stage: Stage) -> None:
    queue = stage.queue()
    low, first, second = Inbox(), Inbox(), Inbox()
    low.consume(queue, priority=-1)
    first.consume(queue, priority=1)
    second.consume(queue, priority=1)

    stage.publish(*numbers(4))

    assert (low.seen, first.seen, second.seen) == ([], ["0", "2"], ["1", "3"])


def test_a_single_active_consumer_gets_all_until_it_leaves(stage: Stage) -> None:
    queue = stage.queue(single_active_consumer=True)
    first, second = Inbox(), Inbox()
    active = first.consume(queue, prefetch=2)
    second.consume(queue)
    stage.publish(*numbers(4))
    assert (first.seen, second.seen) == (["0", "1"], [])

    queue.unsubscribe(active)
    stage.run()

    assert second.seen == ["2", "3"]


def test_consumers_of_one_connection_see_the_order_of_the_queue(stage: Stage) -> None:
    queue = stage.queue()
    connection = object()
    log: list[tuple[str, str]] = []
    for tag in "abc":
        inbox = Inbox(connection)
        inbox.log = log
        inbox.consume(queue, tag, prefetch=50)

    stage.publish(*numbers(60))

    assert [body for _, body in log] == numbers(60)
    assert "".join(tag for tag, _ in log) == "abc" * 20


def test_without_free_prefetch_messages_stay_ready(stage: Stage) -> None:
    queue = stage.queue()
    for _ in range(2):
        inbox = Inbox()
        inbox.limit = 0
        inbox.consume(queue)

    stage.publish(*numbers(3))

    assert queue.backlog.count == 3


def test_uneven_credit_is_used_up_to_the_last(stage: Stage) -> None:
    queue = stage.queue()
    inboxes = [Inbox(), Inbox(), Inbox()]
    for inbox, prefetch in zip(inboxes, (1, 4, 7), strict=True):
        inbox.consume(queue, prefetch=prefetch)

    stage.publish(*numbers(20))

    assert [len(inbox.seen) for inbox in inboxes] == [1, 4, 7]
    assert queue.backlog.count == 8


def test_the_only_one_with_room_gets_its_messages_in_one_go(stage: Stage) -> None:
    queue = stage.queue()
    full, free = Inbox(), Inbox()
    full.consume(queue, prefetch=1)
    free.consume(queue)
    stage.publish("0")

    stage.publish(*numbers(500, start=1))

    assert (full.seen, free.seen) == (["0"], numbers(500, start=1))
    assert len(free.runs) == 1


def test_adding_and_removing_a_consumer_does_not_scan_the_others(stage: Stage) -> None:
    looks = 0

    class Counting(Inbox):
        @property
        def connection(self) -> object:
            nonlocal looks
            looks += 1
            return super().connection

    queue, inbox = stage.queue(), Counting()
    consumers = [inbox.consume(queue, f"c{i}", priority=i % 3) for i in range(300)]
    for consumer in consumers:
        queue.unsubscribe(consumer)
    assert looks == 2 * len(consumers)
