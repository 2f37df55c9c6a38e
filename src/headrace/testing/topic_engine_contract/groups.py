"""Groups: claims with a lease, shared progress, commits that count once."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from time import sleep

import pytest

from headrace.errors import ClaimLost
from headrace.model.topics.message_priority import Priority
from headrace.store.topics.engine import TopicEngine
from headrace.store.topics.types import ConsumerSpec, Entry, ReadResult
from headrace.testing import wait_for

Fill = Callable[..., list[int]]
ANN, BOB = ConsumerSpec("ann", "g"), ConsumerSpec("bob", "g")
BRIEF = 1  # ms of a lease that is over at once


def bodies(taken: ReadResult) -> list[str]:
    return [message.body.decode() for message in taken.messages]


def take_over(
    engine: TopicEngine, topic: str, reader: ConsumerSpec, batch: int = 100
) -> ReadResult:
    """Read until there is a message: the lease of another member must end first."""

    def read() -> ReadResult | None:
        taken = engine.read(topic, reader, batch)
        return taken if taken.messages else None

    return wait_for(read)  # type: ignore[return-value]


def test_members_share_the_messages(engine: TopicEngine, topic: str, fill: Fill) -> None:
    fill(*"abcdef")

    first, second = engine.read(topic, ANN, 4), engine.read(topic, BOB, 4)

    assert bodies(first) == list("abcd")
    assert bodies(second) == list("ef")
    assert engine.read(topic, ANN, 4) == ReadResult()


def test_what_is_committed_does_not_come_again(engine: TopicEngine, topic: str, fill: Fill) -> None:
    fill(*"abc")
    taken = engine.read(topic, ANN, 2)
    engine.commit(topic, ANN, taken.claim)

    assert bodies(engine.read(topic, BOB, 10)) == ["c"]


def test_groups_do_not_know_of_each_other(engine: TopicEngine, topic: str, fill: Fill) -> None:
    fill(*"ab")
    engine.commit(topic, ANN, engine.read(topic, ANN, 10).claim)

    assert bodies(engine.read(topic, ConsumerSpec("ann", "other"), 10)) == ["a", "b"]


def test_a_member_that_comes_back_goes_on_with_the_group(
    engine: TopicEngine, topic: str, fill: Fill
) -> None:
    fill(*"ab")
    engine.commit(topic, ANN, engine.read(topic, ANN, 1).claim)
    engine.commit(topic, BOB, engine.read(topic, BOB, 1).claim)
    fill("c")

    assert bodies(engine.read(topic, ANN, 10)) == ["c"]


def test_a_commit_counts_once(engine: TopicEngine, topic: str, fill: Fill) -> None:
    fill("a")
    taken = engine.read(topic, ANN, 1)
    engine.commit(topic, ANN, taken.claim)

    with pytest.raises(ClaimLost):
        engine.commit(topic, ANN, taken.claim)


@pytest.mark.parametrize("other", [BOB, ConsumerSpec("ann", "other"), ConsumerSpec("ann")])
def test_a_claim_belongs_to_who_took_it(
    engine: TopicEngine, topic: str, fill: Fill, other: ConsumerSpec
) -> None:
    fill("a", "b")
    taken = engine.read(topic, ANN, 1)
    engine.read(topic, other, 1)

    with pytest.raises(ClaimLost):
        engine.commit(topic, other, taken.claim)
    with pytest.raises(ClaimLost):
        engine.renew(topic, other, taken.claim)

    engine.commit(topic, ANN, taken.claim)


def test_after_the_lease_others_take_over_and_the_late_one_is_refused(
    engine: TopicEngine, topic: str, fill: Fill
) -> None:
    fill(*"ab")
    slow = ConsumerSpec("slow", "g", lease_ms=BRIEF)
    lost = engine.read(topic, slow, 10)

    again = take_over(engine, topic, ANN)

    assert bodies(again) == ["a", "b"]
    assert [one.attempts for one in again.messages] == [2, 2]
    with pytest.raises(ClaimLost):
        engine.commit(topic, slow, lost.claim)
    with pytest.raises(ClaimLost):
        engine.renew(topic, slow, lost.claim)
    engine.commit(topic, ANN, again.claim)
    assert engine.read(topic, BOB, 10) == ReadResult()


def test_after_the_lease_nothing_can_be_committed_even_if_no_member_took_over(
    engine: TopicEngine, topic: str, fill: Fill
) -> None:
    numbers = fill(*"ab")
    slow = ConsumerSpec("slow", "g", lease_ms=BRIEF)
    late = engine.read(topic, slow, 10)
    sleep(0.02)  # a look would take them over

    with pytest.raises(ClaimLost, match="lease"):
        engine.commit(topic, slow, late.claim)
    with pytest.raises(ClaimLost, match="lease"):
        engine.nack(topic, slow, late.claim, [(Priority.MIDDLE, numbers[0])], 0)

    assert bodies(engine.read(topic, ANN, 10)) == ["a", "b"]


def test_a_renewal_after_the_lease_counts_unless_another_member_took_over(
    engine: TopicEngine, topic: str, fill: Fill
) -> None:
    fill("a")
    late = engine.read(topic, ConsumerSpec("ann", "g", lease_ms=BRIEF), 10)
    sleep(0.02)

    engine.renew(topic, ANN, late.claim)

    assert engine.read(topic, BOB, 10) == ReadResult()
    engine.commit(topic, ANN, late.claim)


def test_what_others_left_comes_before_what_is_new(
    engine: TopicEngine, topic: str, fill: Fill
) -> None:
    fill(*"ab")
    engine.read(topic, ConsumerSpec("slow", "g", lease_ms=BRIEF), 2)
    fill("c")

    def all_three() -> ReadResult | None:
        taken = engine.read(topic, ConsumerSpec("ann", "g", lease_ms=BRIEF), 3)
        return taken if len(taken.messages) == 3 else None

    taken = wait_for(all_three)
    assert taken is not None
    assert bodies(taken)[:2] == ["a", "b"]


def test_high_messages_come_before_left_over_low_ones(
    engine: TopicEngine, topic: str, fill: Fill
) -> None:
    fill("low", priority=Priority.LOW)
    engine.read(topic, ConsumerSpec("slow", "g", lease_ms=BRIEF), 1)
    fill("high", priority=Priority.HIGH)

    def both() -> ReadResult | None:
        taken = engine.read(topic, ConsumerSpec("ann", "g", lease_ms=BRIEF), 2)
        return taken if len(taken.messages) == 2 else None

    taken = wait_for(both)
    assert taken is not None
    assert bodies(taken) == ["high", "low"]


def test_a_renewed_lease_is_not_taken_over(engine: TopicEngine, topic: str, fill: Fill) -> None:
    fill("a")
    taken = engine.read(topic, ConsumerSpec("ann", "g", lease_ms=60_000), 1)
    engine.renew(topic, ANN, taken.claim)

    assert engine.read(topic, BOB, 1) == ReadResult()
    engine.commit(topic, ANN, taken.claim)


def test_commits_out_of_order_lose_nothing(engine: TopicEngine, topic: str, fill: Fill) -> None:
    fill(*"abcd")
    slow = engine.read(topic, ConsumerSpec("slow", "g", lease_ms=BRIEF), 2)
    fast = engine.read(topic, ANN, 2)
    if bodies(fast) == ["c", "d"]:
        engine.commit(topic, ANN, fast.claim)
        assert bodies(take_over(engine, topic, BOB)) == ["a", "b"]
    else:  # the lease was over already
        engine.commit(topic, ANN, fast.claim)
        assert bodies(engine.read(topic, BOB, 10)) == ["c", "d"]
    with pytest.raises(ClaimLost):
        engine.commit(topic, ConsumerSpec("slow", "g"), slow.claim)


@pytest.mark.parametrize(
    "claim", [["x"], [1, 2, 3], ["g", "nonsense", 1], [None], [["g"]], ["s", "", "", 0, [1]]]
)
def test_garbage_is_no_claim(
    engine: TopicEngine, topic: str, fill: Fill, claim: list[object]
) -> None:
    fill("a")
    taken = engine.read(topic, ANN, 1)
    engine.read(topic, ConsumerSpec("ann"), 1)
    for reader in (ANN, ConsumerSpec("ann")):
        with pytest.raises(ClaimLost):
            engine.commit(topic, reader, claim)

    engine.commit(topic, ANN, taken.claim)


# -- many at once ---------------------------------------------------------------------------------


def test_sixteen_producers_and_four_members_lose_and_double_nothing(
    engine: TopicEngine, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(queues=2)
    priorities = list(Priority)
    total = 16 * 60
    seen: list[list[tuple[Priority, int, bytes]]] = [[] for _ in range(4)]

    def produce(number: int) -> None:
        for count in range(20):
            entries = [
                Entry(f"{number}-{count}-{each}".encode(), priorities[(count + each) % 3])
                for each in range(3)
            ]
            ids = engine.append(topic, entries)
            assert len(ids) == 3

    def consume(number: int) -> None:
        reader = ConsumerSpec(f"member-{number}", "g", lease_ms=60_000)
        while sum(map(len, seen)) < total:
            taken = engine.read(topic, reader, 37)
            if taken.claim:
                engine.commit(topic, reader, taken.claim)
                seen[number] += [(one.priority, one.id, one.body) for one in taken.messages]

    threads = [Thread(target=produce, args=(number,), daemon=True) for number in range(16)]
    threads += [Thread(target=consume, args=(number,), daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    everything = [one for each in seen for one in each]
    assert len(everything) == total
    assert len({body for _, _, body in everything}) == total
    assert len({(priority, number) for priority, number, _ in everything}) == total
    assert engine.read(topic, ANN, 10) == ReadResult()
