"""The claims of a group as POP uses them: each message is received as a claim of its own.

The number of the claim is what a receipt handle names, the lease is the invisible time.
"""

from __future__ import annotations

from itertools import count

import pytest

from headrace.errors import ClaimLost
from headrace.model.topics.claims import GroupClaims
from headrace.model.topics.message_priority import Priority
from headrace.model.topics.partitions import Bound, Partition

QUEUE = Partition(Priority.MIDDLE, 0)
INVISIBLE_MS = 1000


class PopGroup:
    """Receive, ack, and change of the invisible time, over one queue of ten messages."""

    def __init__(self) -> None:
        self.claims = GroupClaims()
        self._numbers = count(1)
        self._bounds = {QUEUE: Bound(0, 10)}

    def receive(self, batch: int, now: int, client: str = "c1") -> dict[int, tuple[int, int]]:
        """Offset and attempts of each message, by the number of its claim."""
        found = {}
        for span in self.claims.plan(batch, 0, now, self._bounds):
            for offset in range(span.start, span.stop):
                number = next(self._numbers)
                one = span._replace(start=offset, stop=offset + 1)
                self.claims.take(number, client, [one], now, INVISIBLE_MS)
                found[number] = offset, span.attempts
        return found

    def ack(self, number: int, now: int, client: str = "c1") -> None:
        self.claims.commit(number, client, now)

    def change_invisible_time(self, number: int, now: int, invisible_ms: int) -> None:
        self.claims.renew(number, "c1", now, invisible_ms)

    def done(self) -> list[int]:
        missing = {
            offset
            for low, high in self.claims.partitions[QUEUE].done.missing(0, 10)
            for offset in range(low, high)
        }
        return sorted(set(range(10)) - missing)


def test_messages_are_acknowledged_one_by_one_and_in_any_order() -> None:
    group = PopGroup()
    first, second, third = group.receive(3, 0)
    group.ack(third, 10)
    group.ack(first, 20)

    assert group.done() == [0, 2]
    group.ack(second, 30)
    assert group.done() == [0, 1, 2]


def test_clients_receive_different_messages_of_one_queue() -> None:
    group = PopGroup()
    mine, others = group.receive(3, 0), group.receive(3, 0, "c2")

    assert [offset for offset, _ in mine.values()] == [0, 1, 2]
    assert [offset for offset, _ in others.values()] == [3, 4, 5]


def test_what_is_not_acknowledged_becomes_visible_again_alone() -> None:
    group = PopGroup()
    first, second, third = group.receive(3, 0)
    group.ack(second, 10)
    again = group.receive(10, INVISIBLE_MS)

    assert [pair for pair in again.values() if pair[1] == 2] == [(0, 2), (2, 2)]
    assert [offset for offset, tried in again.values() if tried == 1] == [3, 4, 5, 6, 7, 8, 9]
    with pytest.raises(ClaimLost):  # the handles of the first delivery are void
        group.ack(first, INVISIBLE_MS + 1)
    with pytest.raises(ClaimLost):
        group.change_invisible_time(third, INVISIBLE_MS + 1, 5000)


def test_the_invisible_time_of_one_message_can_be_longer() -> None:
    group = PopGroup()
    _, second = group.receive(2, 0)
    group.change_invisible_time(second, 500, 5000)
    again = group.receive(1, INVISIBLE_MS)
    group.ack(second, 5000)

    assert list(again.values()) == [(0, 2)]
    assert group.done() == [1]


def test_the_invisible_time_of_one_message_can_be_shorter() -> None:
    group = PopGroup()
    first, _ = group.receive(2, 0)
    group.change_invisible_time(first, 10, 0)  # a nack: at once

    assert list(group.receive(1, 10).values()) == [(0, 2)]


def test_only_the_client_that_received_a_message_acknowledges_it() -> None:
    group = PopGroup()
    (number,) = group.receive(1, 0)

    with pytest.raises(ClaimLost):
        group.ack(number, 10, "c2")
    assert group.done() == []
