"""Messages found twice: each one counts once, and a whole copy before a damaged one."""

from __future__ import annotations

from headrace.model.intervals import Intervals
from headrace.store.log.queue_index import IndexEntry
from headrace.store.log.recovery import without_duplicates


def entry(first: int, stop: int, position: int) -> IndexEntry:
    return IndexEntry(first, stop, position, 1, 0)


def chosen(
    *entries: IndexEntry, settled: int = 0, damaged: tuple[int, ...] = ()
) -> list[tuple[int, int, int]]:
    found = without_duplicates(
        [(1, one) for one in entries],
        lambda queue: Intervals(settled),
        lambda one: [one.position not in damaged] * (one.stop - one.first),
    )
    return [(one.first, one.stop, one.position) for _, one in found]


def test_entries_that_do_not_overlap_all_count_in_order() -> None:
    assert chosen(entry(3, 5, 0), entry(0, 3, 9)) == [(0, 3, 9), (3, 5, 0)]


def test_an_original_is_worth_more_than_some_of_its_copies() -> None:
    original = entry(0, 10, 0)

    assert chosen(entry(2, 4, 50), original, entry(7, 8, 60)) == [(0, 10, 0)]


def test_whole_copies_are_worth_more_than_a_damaged_original() -> None:
    assert chosen(entry(0, 4, 0), entry(0, 2, 50), entry(2, 3, 60), damaged=(0,)) == [
        (0, 2, 50),
        (2, 3, 60),
    ]


def test_copies_of_two_attempts_may_overlap() -> None:
    # Between the attempts 9 was settled, and 11 came back.
    assert chosen(entry(9, 11, 0), entry(10, 12, 50), settled=10) == [(10, 12, 50)]


def test_a_message_with_damaged_copies_only_is_kept_to_be_reported() -> None:
    assert len(chosen(entry(0, 1, 0), entry(0, 1, 50), damaged=(0, 50))) == 1


def test_queues_do_not_mix() -> None:
    found = [(1, entry(0, 3, 0)), (2, entry(1, 2, 0)), (1, entry(3, 4, 8))]
    kept = list(without_duplicates(found, lambda queue: Intervals(), lambda one: [True] * 3))

    assert [(queue, one.first) for queue, one in kept] == [(1, 0), (1, 3), (2, 1)]
