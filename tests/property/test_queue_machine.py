"""A queue driven at random: nothing lost, nothing doubled, in order except for requeues."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headrace.core.queues.consumer import Consumer
from support.example_counts import examples
from support.fake_loop import Inbox, Stage, ready


class QueueMachine(RuleBasedStateMachine):
    """Messages are numbered; each is ready, held by one inbox, or done."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage()
        self.queue = self.stage.queue()
        self.getter = Inbox()
        self.inboxes: dict[Consumer, Inbox] = {}
        self.left: list[Inbox] = []  # cancelled consumers whose channels live on
        self.published = 0
        self.done: set[int] = set()
        self.requeued: set[int] = set()

    # -- what clients do ----------------------------------------------------------------------

    @rule(count=st.integers(1, 60), portions=st.integers(1, 3))
    def publish(self, count: int, portions: int) -> None:
        for _ in range(portions):
            numbers = range(self.published, self.published + count)
            self.published += count
            self.stage.publish(*map(str, numbers), turn=False)
        self.stage.run()

    @rule()
    def get(self) -> None:
        expected = ready(self.queue)[:1]
        body = self.getter.get(self.queue)
        assert expected == ([] if body is None else [body])

    @precondition(lambda self: len(self.inboxes) < 5)
    @rule(
        prefetch=st.integers(0, 20),
        priority=st.integers(0, 1),
        shared=st.booleans(),
    )
    def consume(self, prefetch: int, priority: int, shared: bool) -> None:
        inbox = Inbox(self.stage if shared else None)
        consumer = inbox.consume(self.queue, prefetch=prefetch, priority=priority)
        self.inboxes[consumer] = inbox
        self.stage.run()

    @rule(which=st.integers(0, 10), tag=st.integers(0, 300), more=st.integers(0, 10))
    def ack(self, which: int, tag: int, more: int) -> None:
        inbox = self._holder(which)
        for number in self._some(inbox, tag, more):
            self.done.add(int(inbox.deliveries[number][0]))
            inbox.ack(number)
        self.stage.run()

    @rule(which=st.integers(0, 10), tag=st.integers(0, 300), more=st.integers(0, 10))
    def requeue(self, which: int, tag: int, more: int) -> None:
        inbox = self._holder(which)
        tags = self._some(inbox, tag, more)
        self.requeued |= {int(inbox.deliveries[number][0]) for number in tags}
        if tags:
            inbox.requeue(*tags)
        self.stage.run()

    @rule(which=st.integers(0, 10), tag=st.integers(0, 300))
    def reject(self, which: int, tag: int) -> None:
        inbox = self._holder(which)
        for number in self._some(inbox, tag, 0):
            self.done.add(int(inbox.deliveries[number][0]))
            inbox.reject(number)
        self.stage.run()

    @precondition(lambda self: self.inboxes)
    @rule(which=st.integers(0, 4))
    def cancel(self, which: int) -> None:
        consumer = list(self.inboxes)[which % len(self.inboxes)]
        self.left.append(self.inboxes.pop(consumer))
        self.queue.unsubscribe(consumer)
        self.stage.run()

    @precondition(lambda self: self.inboxes)
    @rule(which=st.integers(0, 4))
    def disconnect(self, which: int) -> None:
        consumer = list(self.inboxes)[which % len(self.inboxes)]
        inbox = self.inboxes.pop(consumer)
        self.queue.consumers.remove(consumer)
        tags = _outstanding(inbox)
        self.requeued |= {int(inbox.deliveries[number][0]) for number in tags}
        inbox.requeue()
        self.queue.consumers_left()
        self.stage.run()

    @rule()
    def purge(self) -> None:
        gone = ready(self.queue)
        assert self.queue.purge() == len(gone)
        self.done |= set(map(int, gone))

    # -- what must hold -------------------------------------------------------------------------

    @invariant()
    def every_message_is_in_one_place(self) -> None:
        places = list(map(int, ready(self.queue))) + sorted(self.done) + self._held()
        assert sorted(places) == list(range(self.published))

    @invariant()
    def counters_agree(self) -> None:
        queue = self.queue
        assert queue.counters.published == self.published
        assert queue.unacked == len(self._held())
        assert queue.backlog.count + queue.unacked + len(self.done) == self.published
        assert all(one.unacked == len(_outstanding(inbox)) for one, inbox in self.inboxes.items())

    @invariant()
    def what_is_ready_is_in_order(self) -> None:
        numbers = list(map(int, ready(self.queue)))
        assert numbers == sorted(numbers)

    @invariant()
    def first_deliveries_are_in_order_and_others_are_marked(self) -> None:
        for inbox in [self.getter, *self.inboxes.values(), *self.left]:
            fresh = [int(body) for body, times in inbox.deliveries.values() if not times]
            again = {int(body) for body, times in inbox.deliveries.values() if times}
            assert fresh == sorted(fresh)
            assert again <= self.requeued

    @invariant()
    def nobody_waits_while_there_are_messages(self) -> None:
        if self.queue.backlog.count:
            assert all(inbox.room(one) <= 0 for one, inbox in self.inboxes.items())

    @invariant()
    def prefetch_is_kept(self) -> None:
        for consumer in self.inboxes:
            assert not consumer.prefetch or consumer.unacked <= consumer.prefetch

    # -- helpers ----------------------------------------------------------------------------------

    def _holder(self, which: int) -> Inbox:
        holders = [self.getter, *self.inboxes.values(), *self.left]
        return holders[which % len(holders)]

    def _some(self, inbox: Inbox, start: int, more: int) -> list[int]:
        tags = _outstanding(inbox)
        start = start % len(tags) if tags else 0
        return tags[start : start + more + 1]

    def _held(self) -> list[int]:
        holders = [self.getter, *self.inboxes.values(), *self.left]
        return [int(one.deliveries[tag][0]) for one in holders for tag in _outstanding(one)]


def _outstanding(inbox: Inbox) -> list[int]:
    return [tag for tag in inbox.deliveries if inbox.unacked.knows(tag)]


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(
    max_examples=examples(60), stateful_step_count=40, deadline=None
)
