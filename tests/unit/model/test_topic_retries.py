"""Messages that are tried again, thousands of them."""

from __future__ import annotations

from collections.abc import ValuesView

import pytest

from headrace.model.topics import claims
from headrace.model.topics.claims import Claim, GroupClaims
from headrace.model.topics.message_priority import Priority
from headrace.model.topics.partitions import Bound, Partition
from headrace.model.topics.retries import Place

PARTITION = Partition(Priority.MIDDLE, 0)
MANY = 60_000


def test_a_small_batch_does_not_scan_everything_that_is_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broker does nothing else meanwhile: it was more than a second for each read."""
    bounds = {PARTITION: Bound(0, MANY)}
    group = GroupClaims()
    group.begin(PARTITION, 0)
    group.take(1, "ann", group.plan(MANY, 0, 0, bounds), 0, 30_000)
    every_other = [(PARTITION, offset) for offset in range(0, MANY, 2)]
    group.nack(1, "ann", every_other, due=0, now=0, max_attempts=16)
    group.commit(1, "ann", 0)

    looked_at = 0
    due = group.retries.due

    def counted(priority: Priority, now: int, limit: int) -> list[Place]:
        nonlocal looked_at
        found = due(priority, now, limit)
        looked_at += len(found)
        return found

    monkeypatch.setattr(group.retries, "due", counted)
    handed_out = 0
    for number in range(2, 12):
        group.mark_dead(16, 1, bounds, 100)
        spans = group.plan(100, 0, 1, bounds)
        group.take(number, "ann", spans, 1, 30_000)
        group.commit(number, "ann", 1)
        handed_out += sum(span.size for span in spans)

    assert handed_out == 1000
    assert looked_at <= 3 * handed_out  # to give up, to plan, of 30,000


def test_messages_over_the_attempt_limit_are_dropped_before_planning() -> None:
    bounds = {PARTITION: Bound(0, 6)}
    group = GroupClaims()
    group.begin(PARTITION, 0)
    group.take(1, "ann", group.plan(6, 0, 0, bounds), 0, 30_000)
    group.nack(1, "ann", [(PARTITION, n) for n in range(6)], due=0, now=0, max_attempts=16)
    group.commit(1, "ann", 0)
    group.take(2, "ann", group.plan(4, 0, 0, bounds), 0, 30_000)
    group.nack(2, "ann", [(PARTITION, n) for n in range(4)], due=0, now=0, max_attempts=16)
    group.commit(2, "ann", 0)

    buried = group.mark_dead(2, 1, bounds, 2)

    assert [span.start for span in group.plan(2, 0, 1, bounds)] == [4, 5]
    assert buried.retries == {(PARTITION, n) for n in range(4)}


def test_claims_that_are_out_are_not_looked_at_before_a_lease_ends() -> None:
    """A member that reads one by one and commits late has thousands of them."""
    bounds = {PARTITION: Bound(0, MANY)}
    group = GroupClaims()
    group.begin(PARTITION, 0)
    looked = 0

    class Counted(dict[int, Claim]):
        def values(self) -> ValuesView[Claim]:
            nonlocal looked
            looked += 1
            return super().values()

    group._claims = Counted()
    for number in range(100):
        group.mark_dead(16, 1, bounds, 1)
        group.take(number, "ann", group.plan(1, 0, 1, bounds), 1, 30_000)
    assert looked == 0

    group.renew(7, "ann", 2, 5)
    again = group.plan(1, 0, 7, bounds)
    assert [(span.start, span.attempts) for span in again] == [(7, 2)]


def test_thousands_of_retries_are_nacked_without_a_query_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of them is a span of its own: a search through all for each held the broker up."""
    group, bounds = GroupClaims(), {Partition(Priority.MIDDLE, 0): Bound(0, 5000)}
    group.take(1, "m", group.plan(5000, 0, 1, bounds), 1, 30_000)
    group.nack(1, "m", None, due=1, now=1, max_attempts=9)
    group.take(2, "m", group.plan(5000, 0, 2, bounds), 2, 30_000)
    monkeypatch.setattr(claims, "_span_with", None)

    changed = group.nack(2, "m", None, due=2, now=2, max_attempts=9)

    assert len(changed.retries) == 5000
