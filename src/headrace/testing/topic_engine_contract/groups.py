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
from headrace.testing.topic_engine_contract.fixtures import Subject, bodies

ANN, BOB = ConsumerSpec("ann", "g"), ConsumerSpec("bob", "g")
BRIEF = 1  # ms of a lease that is over at once


def test_members_share_the_messages(subject: Subject) -> None:
    subject.fill(*"abcdef")

    first, second = subject.read(ANN, 4), subject.read(BOB, 4)

    assert bodies(first) == list("abcd")
    assert bodies(second) == list("ef")
    assert subject.read(ANN, 4) == ReadResult()


def test_what_is_committed_does_not_come_again(subject: Subject) -> None:
    subject.fill(*"abc")
    taken = subject.read(ANN, 2)
    subject.commit(ANN, taken)

    assert subject.bodies(BOB) == ["c"]


def test_groups_do_not_know_of_each_other(subject: Subject) -> None:
    subject.fill(*"ab")
    subject.commit(ANN, subject.read(ANN))

    assert subject.bodies(ConsumerSpec("ann", "other")) == ["a", "b"]


def test_a_member_that_comes_back_goes_on_with_the_group(subject: Subject) -> None:
    subject.fill(*"ab")
    subject.commit(ANN, subject.read(ANN, 1))
    subject.commit(BOB, subject.read(BOB, 1))
    subject.fill("c")

    assert subject.bodies(ANN) == ["c"]


def test_a_commit_counts_once(subject: Subject) -> None:
    subject.fill("a")
    taken = subject.read(ANN, 1)
    subject.commit(ANN, taken)

    with pytest.raises(ClaimLost):
        subject.commit(ANN, taken)


@pytest.mark.parametrize("other", [BOB, ConsumerSpec("ann", "other"), ConsumerSpec("ann")])
def test_a_claim_belongs_to_who_took_it(subject: Subject, other: ConsumerSpec) -> None:
    subject.fill("a", "b")
    taken = subject.read(ANN, 1)
    subject.read(other, 1)

    with pytest.raises(ClaimLost):
        subject.commit(other, taken)
    with pytest.raises(ClaimLost):
        subject.engine.renew(subject.name, other, taken.claim)

    subject.commit(ANN, taken)


def test_after_the_lease_others_take_over_and_the_late_one_is_refused(subject: Subject) -> None:
    subject.fill(*"ab")
    slow = ConsumerSpec("slow", "g", lease_ms=BRIEF)
    lost = subject.read(slow)

    again = subject.read_some(ANN)

    assert bodies(again) == ["a", "b"]
    assert [one.attempts for one in again.messages] == [2, 2]
    with pytest.raises(ClaimLost):
        subject.commit(slow, lost)
    with pytest.raises(ClaimLost):
        subject.engine.renew(subject.name, slow, lost.claim)
    subject.commit(ANN, again)
    assert subject.read(BOB) == ReadResult()


def test_after_the_lease_nothing_can_be_committed_even_if_no_member_took_over(
    subject: Subject,
) -> None:
    numbers = subject.fill(*"ab")
    slow = ConsumerSpec("slow", "g", lease_ms=BRIEF)
    late = subject.read(slow)
    sleep(0.02)  # a look would take them over

    with pytest.raises(ClaimLost, match="lease"):
        subject.commit(slow, late)
    with pytest.raises(ClaimLost, match="lease"):
        subject.nack(slow, late, [(Priority.MIDDLE, numbers[0])])

    assert subject.bodies(ANN) == ["a", "b"]


def test_a_renewal_after_the_lease_counts_unless_another_member_took_over(subject: Subject) -> None:
    subject.fill("a")
    late = subject.read(ConsumerSpec("ann", "g", lease_ms=BRIEF))
    sleep(0.02)

    subject.engine.renew(subject.name, ANN, late.claim)

    assert subject.read(BOB) == ReadResult()
    subject.commit(ANN, late)


def test_what_others_left_comes_before_what_is_new(subject: Subject) -> None:
    subject.fill(*"ab")
    subject.read(ConsumerSpec("slow", "g", lease_ms=BRIEF), 2)
    subject.fill("c")

    def all_three() -> ReadResult | None:
        taken = subject.read(ConsumerSpec("ann", "g", lease_ms=BRIEF), 3)
        return taken if len(taken.messages) == 3 else None

    taken = wait_for(all_three)
    assert taken is not None
    assert bodies(taken)[:2] == ["a", "b"]


def test_high_messages_come_before_left_over_low_ones(subject: Subject) -> None:
    subject.fill("low", priority=Priority.LOW)
    subject.read(ConsumerSpec("slow", "g", lease_ms=BRIEF), 1)
    subject.fill("high", priority=Priority.HIGH)

    def both() -> ReadResult | None:
        taken = subject.read(ConsumerSpec("ann", "g", lease_ms=BRIEF), 2)
        return taken if len(taken.messages) == 2 else None

    taken = wait_for(both)
    assert taken is not None
    assert bodies(taken) == ["high", "low"]


def test_a_renewed_lease_is_not_taken_over(subject: Subject) -> None:
    subject.fill("a")
    taken = subject.read(ConsumerSpec("ann", "g", lease_ms=60_000), 1)
    subject.engine.renew(subject.name, ANN, taken.claim)

    assert subject.read(BOB, 1) == ReadResult()
    subject.commit(ANN, taken)


def test_commits_out_of_order_lose_nothing(subject: Subject) -> None:
    subject.fill(*"abcd")
    slow = subject.read(ConsumerSpec("slow", "g", lease_ms=BRIEF), 2)
    fast = subject.read(ANN, 2)
    if bodies(fast) == ["c", "d"]:
        subject.commit(ANN, fast)
        assert bodies(subject.read_some(BOB)) == ["a", "b"]
    else:  # the lease was over already
        subject.commit(ANN, fast)
        assert subject.bodies(BOB) == ["c", "d"]
    with pytest.raises(ClaimLost):
        subject.commit(ConsumerSpec("slow", "g"), slow)


@pytest.mark.parametrize(
    "claim", [["x"], [1, 2, 3], ["g", "nonsense", 1], [None], [["g"]], ["s", "", "", 0, [1]]]
)
def test_garbage_is_no_claim(subject: Subject, claim: list[object]) -> None:
    subject.fill("a")
    taken = subject.read(ANN, 1)
    subject.read(ConsumerSpec("ann"), 1)
    for reader in (ANN, ConsumerSpec("ann")):
        with pytest.raises(ClaimLost):
            subject.engine.commit(subject.name, reader, claim)

    subject.commit(ANN, taken)


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
