"""What claims are made of, and where the ids of a priority are complete."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from headrace.model.retention import RetentionChunk, over_limit, pairs, removable_to
from headrace.model.topics.claim_plan import (
    ClaimableWork,
    ClaimRange,
    DueRetry,
    ExpiredRange,
    plan,
    runs,
)
from headrace.model.topics.message_priority import BY_URGENCY, Priority, shares
from headrace.store.mysql.stable_ids import Hole, fence

small = st.integers(0, 30)


@st.composite
def priority_work(draw: st.DrawFn) -> ClaimableWork:
    """Ids up to head are expired, due or done; those above are new."""
    head = draw(st.integers(0, 60))
    kinds = draw(st.lists(st.sampled_from("edx"), min_size=head, max_size=head))
    held, due = [], []
    for number, kind in enumerate(kinds, 1):
        if kind == "e" and held and held[-1].end == number - 1 and draw(st.booleans()):
            held[-1] = ExpiredRange(held[-1].id, held[-1].start, number, held[-1].attempts)
        elif kind == "e":
            held.append(ExpiredRange(number, number, number, draw(st.integers(1, 3))))
        elif kind == "d":
            due.append(DueRetry(number, draw(st.integers(1, 3))))
    return ClaimableWork(head, head + draw(small), held, due)


works = st.dictionaries(st.sampled_from(BY_URGENCY), priority_work(), min_size=1)


def ids_of(piece: ClaimRange) -> set[tuple[Priority, int]]:
    return {(piece.priority, number) for number in range(piece.start, piece.end + 1)}


@given(works, st.integers(1, 80), st.integers(0, 50))
def test_a_claim_is_as_large_as_it_can_be_and_hands_out_nothing_twice(
    work: dict[Priority, ClaimableWork], room: int, min_share: int
) -> None:
    pieces = plan(work, room, min_share)
    ids = [one for piece in pieces for one in ids_of(piece)]
    assert len(ids) == len(set(ids)) == min(room, sum(one.waiting for one in work.values()))


@given(works, st.integers(1, 80))
def test_a_lower_lane_gets_something_only_when_the_higher_ones_are_empty(
    work: dict[Priority, ClaimableWork], room: int
) -> None:
    taken = dict.fromkeys(BY_URGENCY, 0)
    for piece in plan(work, room):
        taken[piece.priority] += len(piece)
    for above, below in itertools.pairwise(BY_URGENCY):
        if taken[below]:
            assert above not in work or taken[above] == work[above].waiting


@given(works, st.integers(1, 80), st.integers(0, 50))
def test_pieces_are_what_was_waiting(
    work: dict[Priority, ClaimableWork], room: int, min_share: int
) -> None:
    for piece in plan(work, room, min_share):
        its = work[piece.priority]
        if piece.held is not None:
            assert piece.held in its.expired
            assert piece.start == piece.held.start and piece.end <= piece.held.end
            assert piece.attempts == piece.held.attempts + 1
        elif piece.is_fresh:
            assert piece.start == its.head + 1 and piece.end <= its.stable and piece.attempts == 1
        else:
            due = {one.id: one.attempts for one in its.due}
            for _, number in ids_of(piece):
                assert due[number] + 1 == piece.attempts


@given(works, st.integers(1, 30), st.integers(1, 30))
def test_new_messages_come_after_messages_of_expired_claims(
    work: dict[Priority, ClaimableWork], room: int, min_share: int
) -> None:
    pieces = plan(work, room, min_share)
    for priority in {piece.priority for piece in pieces if piece.is_fresh}:
        again = sum(
            len(piece) for piece in pieces if piece.priority is priority and not piece.is_fresh
        )
        assert again == work[priority].waiting - (work[priority].stable - work[priority].head)


@given(st.dictionaries(st.integers(1, 50), st.integers(1, 3)))
def test_runs_say_the_same_as_their_numbers(marked: dict[int, int]) -> None:
    found = {
        number: mark
        for first, last, mark in runs(marked.items())
        for number in range(first, last + 1)
    }
    assert found == marked


@given(st.integers(1, 1000), st.integers(0, 1000), st.integers(1, 500))
def test_a_fence_stays_inside_the_hole_and_begins_at_its_lowest_id(
    first: int, length: int, limit: int
) -> None:
    hole = Hole(first, first + length)
    ids = fence(hole, limit)
    assert ids[0] == first and ids[-1] <= hole.last and 1 <= len(ids) <= limit


@given(
    st.dictionaries(st.sampled_from(BY_URGENCY), st.integers(0, 100)),
    st.integers(1, 100),
    st.integers(0, 50),
)
def test_shares_fill_the_room(waiting: dict[Priority, int], room: int, min_share: int) -> None:
    taken = shares(waiting, room, min_share)
    assert sum(taken.values()) == min(room, sum(waiting.values()))
    assert all(taken[priority] <= waiting.get(priority, 0) for priority in BY_URGENCY)


chunks = st.dictionaries(
    st.sampled_from(BY_URGENCY),
    st.lists(st.tuples(st.integers(1, 100), st.integers(0, 50)), max_size=12).map(
        lambda raw: [RetentionChunk(end, *one) for end, one in enumerate(raw, 1)]
    ),
)


@given(chunks, st.integers(0, 2000))
def test_no_more_stays_than_the_limit_but_the_newest(
    found: dict[Priority, list[RetentionChunk]], limit: int
) -> None:
    ends = over_limit(found, limit)
    kept = [
        chunk
        for priority, its in found.items()
        for chunk in its
        if chunk.end > ends.get(priority, 0)
    ]
    newest = [its[-1] for its in found.values() if its]
    assert all(chunk in kept for chunk in newest)
    assert sum(chunk.size for chunk in kept) <= max(limit, sum(one.size for one in newest))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=9))
def test_chunks_counted_together_lose_nothing(raw: list[tuple[int, int]]) -> None:
    before = [RetentionChunk(end, *one) for end, one in enumerate(raw, 1)]
    after = pairs(before)
    assert sum(one.size for one in after) == sum(one.size for one in before)
    assert [one.end for one in after[-1:]] == [one.end for one in before[-1:]]


@given(small, small, st.lists(small))
def test_nothing_that_is_held_is_removed(wanted: int, stable: int, holds: list[int]) -> None:
    end = removable_to(wanted, stable, holds)
    assert end <= wanted and end <= stable and all(end <= hold for hold in holds)
