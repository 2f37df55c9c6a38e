"""Messages that are nacked, redelivered, and given up."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.errors import BadTopicValue, ClaimLost
from headrace.model.topics.message_priority import Priority
from headrace.store.topics.engine import TopicEngine
from headrace.store.topics.types import ConsumerSpec, ReadResult
from headrace.testing import wait_for

Fill = Callable[..., list[int]]
ANN = ConsumerSpec("ann", "g", max_attempts=3)
BOB = ConsumerSpec("bob", "g", max_attempts=3)
LATER = 3_600_000


def bodies(taken: ReadResult) -> list[str]:
    return [message.body.decode() for message in taken.messages]


def read_some(engine: TopicEngine, topic: str, reader: ConsumerSpec) -> ReadResult:
    def read() -> ReadResult | None:
        taken = engine.read(topic, reader, 100)
        return taken if taken.messages else None

    return wait_for(read)  # type: ignore[return-value]


def give_back(
    engine: TopicEngine, topic: str, reader: ConsumerSpec, taken: ReadResult, delay: int
) -> None:
    """Nack the first message, commit the rest."""
    first = taken.messages[0]
    engine.nack(topic, reader, taken.claim, [(first.priority, first.id)], delay, "no such order")
    engine.commit(topic, reader, taken.claim)


def test_nacked_messages_are_redelivered_and_the_rest_is_committed(
    engine: TopicEngine, topic: str, fill: Fill
) -> None:
    fill(*"abc")
    give_back(engine, topic, ANN, engine.read(topic, ANN, 10), 0)

    again = read_some(engine, topic, BOB)

    assert bodies(again) == ["a"]
    assert again.messages[0].attempts == 2
    engine.commit(topic, BOB, again.claim)
    assert engine.read(topic, ANN, 10) == ReadResult()
    assert all(lag.messages == 0 for lag in engine.lag(topic, ANN))


def test_until_the_delay_is_over_it_waits(engine: TopicEngine, topic: str, fill: Fill) -> None:
    fill("a")
    give_back(engine, topic, ANN, engine.read(topic, ANN, 1), LATER)

    assert engine.read(topic, BOB, 10) == ReadResult()
    lag = {one.priority: one for one in engine.lag(topic, ANN)}[Priority.MIDDLE]
    assert (lag.messages, lag.retrying, lag.dead) == (1, 1, 0)


def test_an_uncommitted_retry_is_redelivered(engine: TopicEngine, topic: str, fill: Fill) -> None:
    fill("a")
    give_back(engine, topic, ANN, engine.read(topic, ANN, 1), 0)
    lost = read_some(engine, topic, ConsumerSpec("slow", "g", lease_ms=1))

    again = read_some(engine, topic, BOB)

    assert bodies(again) == ["a"]
    assert again.messages[0].attempts == 3
    with pytest.raises(ClaimLost):
        engine.commit(topic, ConsumerSpec("slow", "g"), lost.claim)


def test_after_too_many_attempts_it_is_dead(engine: TopicEngine, topic: str, fill: Fill) -> None:
    (number,) = fill("a")
    for _ in range(3):
        give_back(engine, topic, ANN, read_some(engine, topic, ANN), 0)

    assert engine.read(topic, ANN, 10) == ReadResult()
    ((message, reason),) = engine.dead(topic, "g")
    assert (message.id, message.body, message.attempts) == (number, b"a", 3)
    assert reason == "no such order"
    lag = {one.priority: one for one in engine.lag(topic, ANN)}[Priority.MIDDLE]
    assert (lag.messages, lag.retrying, lag.dead) == (0, 0, 1)


def test_other_groups_still_get_it(engine: TopicEngine, topic: str, fill: Fill) -> None:
    fill("a")
    give_back(engine, topic, ANN, engine.read(topic, ANN, 1), LATER)

    assert bodies(engine.read(topic, ConsumerSpec("ann", "other"), 10)) == ["a"]
    assert engine.dead(topic, "other") == []


def test_only_messages_of_the_claim_can_be_nacked(
    engine: TopicEngine, topic: str, fill: Fill
) -> None:
    (first, second) = fill(*"ab")
    taken = engine.read(topic, ANN, 1)

    for wrong in ((Priority.MIDDLE, second), (Priority.HIGH, first), (Priority.MIDDLE, 1 << 50)):
        with pytest.raises(BadTopicValue):
            engine.nack(topic, ANN, taken.claim, [(Priority.MIDDLE, first), wrong], 0)

    engine.commit(topic, ANN, taken.claim)
    assert bodies(engine.read(topic, BOB, 10)) == ["b"]


def test_giving_back_needs_the_claim(engine: TopicEngine, topic: str, fill: Fill) -> None:
    (number,) = fill("a")
    taken = engine.read(topic, ANN, 1)

    with pytest.raises(ClaimLost):
        engine.nack(topic, BOB, taken.claim, [(Priority.MIDDLE, number)], 0)
    engine.commit(topic, ANN, taken.claim)
    with pytest.raises(ClaimLost):
        engine.nack(topic, ANN, taken.claim, [(Priority.MIDDLE, number)], 0)


def test_messages_of_all_priorities_can_be_nacked_at_once(
    engine: TopicEngine, topic: str, fill: Fill
) -> None:
    for priority in Priority:
        fill(priority.label, priority=priority)
    taken = engine.read(topic, ANN, 10)
    engine.nack(topic, ANN, taken.claim, [(one.priority, one.id) for one in taken.messages], 0)
    engine.commit(topic, ANN, taken.claim)

    assert bodies(read_some(engine, topic, BOB)) == ["high", "middle", "low"]


def test_a_retry_from_a_lost_claim_can_be_nacked_again(
    engine: TopicEngine, topic: str, fill: Fill
) -> None:
    """The range that was lost and the message out of it are in one claim now."""
    fill(*"abc")
    ann, late, bob = (
        ConsumerSpec("ann", "g"),
        ConsumerSpec("ann", "g", lease_ms=1),
        ConsumerSpec("bob", "g"),
    )
    taken = engine.read(topic, ann, 10)
    second = (Priority.MIDDLE, taken.messages[1].id)
    engine.nack(topic, ann, taken.claim, [second], 0)
    engine.renew(topic, late, taken.claim)

    def read_all() -> ReadResult | None:
        found = engine.read(topic, bob, 10)
        if bodies(found) == ["b"]:  # the lease is not over yet
            engine.nack(topic, bob, found.claim, [second], 0)
            engine.commit(topic, bob, found.claim)
        return found if len(found.messages) == 3 else None

    again = wait_for(read_all)
    assert again is not None
    engine.nack(topic, bob, again.claim, [second], LATER, "not yet")
    engine.commit(topic, bob, again.claim)

    lag = {one.priority: one for one in engine.lag(topic, bob)}[Priority.MIDDLE]
    assert (lag.messages, lag.retrying) == (1, 1)


def test_messages_over_the_attempt_limit_do_not_hide_due_ones_behind_them(
    engine: TopicEngine, topic: str, fill: Fill
) -> None:
    fill(*"abcd")
    once = ConsumerSpec("ann", "g", max_attempts=9)
    taken = engine.read(topic, once, 10)
    for one in taken.messages:
        engine.nack(topic, once, taken.claim, [(one.priority, one.id)], 0)
    engine.commit(topic, once, taken.claim)
    first = engine.read(topic, once, 3)  # a, b and c for the second time
    engine.nack(topic, once, first.claim, [(one.priority, one.id) for one in first.messages], 0)
    engine.commit(topic, once, first.claim)

    last = read_some(engine, topic, ConsumerSpec("bob", "g", max_attempts=2))
    assert "d" in bodies(last)


def test_nacking_a_whole_claim_ends_it(engine: TopicEngine, topic: str, fill: Fill) -> None:
    fill(*"abc")
    fill("h", priority=Priority.HIGH)
    taken = engine.read(topic, ANN, 10)
    first = taken.messages[0]
    engine.nack(topic, ANN, taken.claim, [(first.priority, first.id)], 0, "alone")

    engine.nack(topic, ANN, taken.claim, None, 0, "all")

    with pytest.raises(ClaimLost):
        engine.commit(topic, ANN, taken.claim)
    found: list[str] = []
    while len(found) < 4:
        again = read_some(engine, topic, BOB)
        assert {message.attempts for message in again.messages} == {2}
        found += bodies(again)
        engine.commit(topic, BOB, again.claim)
    assert sorted(found) == ["a", "b", "c", "h"]
    assert engine.read(topic, ANN, 10) == ReadResult()
    assert all(lag.messages == 0 for lag in engine.lag(topic, ANN))


def test_a_whole_claim_tried_often_enough_is_dead(
    engine: TopicEngine, topic: str, fill: Fill
) -> None:
    fill(*"ab")
    reader = ConsumerSpec("ann", "g", max_attempts=1)
    engine.nack(topic, reader, engine.read(topic, reader, 10).claim, None, LATER, "no use")

    assert engine.read(topic, reader, 10) == ReadResult()
    dead = engine.dead(topic, "g", 10)
    assert [(one.body, reason) for one, reason in dead] == [(b"a", "no use"), (b"b", "no use")]
