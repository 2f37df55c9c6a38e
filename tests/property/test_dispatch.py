"""Dealing with any consumers and any credit: in turn, in order, nothing lost, nothing doubled."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from support.fake_loop import Inbox, Stage

portions = st.lists(st.integers(1, 60), min_size=1, max_size=12)


def publish(stage: Stage, sizes: list[int]) -> int:
    number = 0
    for size in sizes:
        stage.publish(*(str(one) for one in range(number, number + size)))
        number += size
    return number


@given(portions, st.integers(1, 6), st.booleans())
def test_equal_consumers_get_equal_shares_in_turn(
    sizes: list[int], consumers: int, shared: bool
) -> None:
    stage = Stage()
    queue = stage.queue()
    connection = object() if shared else None
    inboxes = [Inbox(connection) for _ in range(consumers)]
    for inbox in inboxes:
        inbox.consume(queue)

    total = publish(stage, sizes)

    for which, inbox in enumerate(inboxes):
        assert inbox.seen == [str(number) for number in range(which, total, consumers)]


@given(
    portions,
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2)), min_size=1, max_size=6),
    st.booleans(),
)
def test_credit_and_priority_are_kept_and_nothing_is_lost(
    sizes: list[int], kinds: list[tuple[int, int]], shared: bool
) -> None:
    stage = Stage()
    queue = stage.queue()
    connection = object() if shared else None
    log: list[tuple[str, str]] = []
    inboxes = [Inbox(connection) for _ in kinds]
    for number, (inbox, (prefetch, priority)) in enumerate(zip(inboxes, kinds, strict=True)):
        inbox.log = log
        inbox.consume(queue, str(number), prefetch=prefetch, priority=priority)

    total = publish(stage, sizes)

    for inbox, (prefetch, _) in zip(inboxes, kinds, strict=True):
        assert inbox.seen == sorted(inbox.seen, key=int)
        assert not prefetch or len(inbox.seen) <= prefetch
    delivered = sorted(int(body) for _, body in log)
    assert delivered == list(range(len(delivered)))  # the head of the queue, each message once
    assert len(delivered) + queue.backlog.count == total
    if queue.backlog.count:
        assert all(len(inbox.seen) == prefetch for inbox, (prefetch, _) in zip(
            inboxes, kinds, strict=True))  # fmt: skip
    if shared:
        assert [int(body) for _, body in log] == delivered
