"""Messages that are nacked, redelivered, and given up."""

from __future__ import annotations

import pytest

from headrace.errors import BadTopicValue, ClaimLost
from headrace.model.topics.message_priority import Priority
from headrace.store.topics.types import ConsumerSpec, ReadResult
from headrace.testing import wait_for
from headrace.testing.topic_engine_contract.fixtures import Subject, bodies, ids_of

ANN = ConsumerSpec("ann", "g", max_attempts=3)
BOB = ConsumerSpec("bob", "g", max_attempts=3)
LATER = 3_600_000


def give_back(subject: Subject, reader: ConsumerSpec, taken: ReadResult, delay: int) -> None:
    """Nack the first message, commit the rest."""
    subject.nack(reader, taken, ids_of(taken)[:1], delay, "no such order")
    subject.commit(reader, taken)


def test_nacked_messages_are_redelivered_and_the_rest_is_committed(subject: Subject) -> None:
    subject.fill(*"abc")
    give_back(subject, ANN, subject.read(ANN), 0)

    again = subject.read_some(BOB)

    assert bodies(again) == ["a"]
    assert again.messages[0].attempts == 2
    subject.commit(BOB, again)
    assert subject.read(ANN) == ReadResult()
    assert all(lag.messages == 0 for lag in subject.engine.lag(subject.name, ANN))


def test_until_the_delay_is_over_it_waits(subject: Subject) -> None:
    subject.fill("a")
    give_back(subject, ANN, subject.read(ANN, 1), LATER)

    assert subject.read(BOB) == ReadResult()
    lag = subject.lag(ANN)
    assert (lag.messages, lag.retrying, lag.dead) == (1, 1, 0)


def test_an_uncommitted_retry_is_redelivered(subject: Subject) -> None:
    subject.fill("a")
    give_back(subject, ANN, subject.read(ANN, 1), 0)
    lost = subject.read_some(ConsumerSpec("slow", "g", lease_ms=1))

    again = subject.read_some(BOB)

    assert bodies(again) == ["a"]
    assert again.messages[0].attempts == 3
    with pytest.raises(ClaimLost):
        subject.commit(ConsumerSpec("slow", "g"), lost)


def test_after_too_many_attempts_it_is_dead(subject: Subject) -> None:
    (number,) = subject.fill("a")
    for _ in range(3):
        give_back(subject, ANN, subject.read_some(ANN), 0)

    assert subject.read(ANN) == ReadResult()
    ((message, reason),) = subject.engine.dead(subject.name, "g")
    assert (message.id, message.body, message.attempts) == (number, b"a", 3)
    assert reason == "no such order"
    lag = subject.lag(ANN)
    assert (lag.messages, lag.retrying, lag.dead) == (0, 0, 1)


def test_other_groups_still_get_it(subject: Subject) -> None:
    subject.fill("a")
    give_back(subject, ANN, subject.read(ANN, 1), LATER)

    assert subject.bodies(ConsumerSpec("ann", "other")) == ["a"]
    assert subject.engine.dead(subject.name, "other") == []


def test_only_messages_of_the_claim_can_be_nacked(subject: Subject) -> None:
    (first, second) = subject.fill(*"ab")
    taken = subject.read(ANN, 1)

    for wrong in ((Priority.MIDDLE, second), (Priority.HIGH, first), (Priority.MIDDLE, 1 << 50)):
        with pytest.raises(BadTopicValue):
            subject.nack(ANN, taken, [(Priority.MIDDLE, first), wrong], 0)

    subject.commit(ANN, taken)
    assert subject.bodies(BOB) == ["b"]


def test_giving_back_needs_the_claim(subject: Subject) -> None:
    (number,) = subject.fill("a")
    taken = subject.read(ANN, 1)

    with pytest.raises(ClaimLost):
        subject.nack(BOB, taken, [(Priority.MIDDLE, number)])
    subject.commit(ANN, taken)
    with pytest.raises(ClaimLost):
        subject.nack(ANN, taken, [(Priority.MIDDLE, number)])


def test_messages_of_all_priorities_can_be_nacked_at_once(subject: Subject) -> None:
    for priority in Priority:
        subject.fill(priority.label, priority=priority)
    taken = subject.read(ANN)
    subject.nack(ANN, taken, ids_of(taken), 0)
    subject.commit(ANN, taken)

    assert bodies(subject.read_some(BOB)) == ["high", "middle", "low"]


def test_a_retry_from_a_lost_claim_can_be_nacked_again(subject: Subject) -> None:
    """The range that was lost and the message out of it are in one claim now."""
    subject.fill(*"abc")
    ann, late, bob = (
        ConsumerSpec("ann", "g"),
        ConsumerSpec("ann", "g", lease_ms=1),
        ConsumerSpec("bob", "g"),
    )
    taken = subject.read(ann)
    second = (Priority.MIDDLE, taken.messages[1].id)
    subject.nack(ann, taken, [second])
    subject.engine.renew(subject.name, late, taken.claim)

    def read_all() -> ReadResult | None:
        found = subject.read(bob)
        if bodies(found) == ["b"]:  # the lease is not over yet
            subject.nack(bob, found, [second])
            subject.commit(bob, found)
        return found if len(found.messages) == 3 else None

    again = wait_for(read_all)
    assert again is not None
    subject.nack(bob, again, [second], LATER, "not yet")
    subject.commit(bob, again)

    lag = subject.lag(bob)
    assert (lag.messages, lag.retrying) == (1, 1)


def test_messages_over_the_attempt_limit_do_not_hide_due_ones_behind_them(subject: Subject) -> None:
    subject.fill(*"abcd")
    once = ConsumerSpec("ann", "g", max_attempts=9)
    taken = subject.read(once)
    for one in taken.messages:
        subject.nack(once, taken, [(one.priority, one.id)])
    subject.commit(once, taken)
    first = subject.read(once, 3)  # a, b and c for the second time
    subject.nack(once, first, ids_of(first), 0)
    subject.commit(once, first)

    last = subject.read_some(ConsumerSpec("bob", "g", max_attempts=2))
    assert "d" in bodies(last)


def test_nacking_a_whole_claim_ends_it(subject: Subject) -> None:
    subject.fill(*"abc")
    subject.fill("h", priority=Priority.HIGH)
    taken = subject.read(ANN)
    first = taken.messages[0]
    subject.nack(ANN, taken, [(first.priority, first.id)], reason="alone")

    subject.nack(ANN, taken, None, reason="all")

    with pytest.raises(ClaimLost):
        subject.commit(ANN, taken)
    found: list[str] = []
    while len(found) < 4:
        again = subject.read_some(BOB)
        assert {message.attempts for message in again.messages} == {2}
        found += bodies(again)
        subject.commit(BOB, again)
    assert sorted(found) == ["a", "b", "c", "h"]
    assert subject.read(ANN) == ReadResult()
    assert all(lag.messages == 0 for lag in subject.engine.lag(subject.name, ANN))


def test_a_whole_claim_tried_often_enough_is_dead(subject: Subject) -> None:
    subject.fill(*"ab")
    reader = ConsumerSpec("ann", "g", max_attempts=1)
    subject.engine.nack(subject.name, reader, subject.read(reader).claim, None, LATER, "no use")

    assert subject.read(reader) == ReadResult()
    dead = subject.engine.dead(subject.name, "g", 10)
    assert [(one.body, reason) for one, reason in dead] == [(b"a", "no use"), (b"b", "no use")]
