"""Intervals against a plain set of numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.model.intervals import Intervals, join_ranges

TOP = 60
ranges = st.lists(st.tuples(st.integers(0, TOP), st.integers(0, 12)).map(lambda p: (p[0], sum(p))))


def runs_of(numbers: set[int]) -> list[tuple[int, int]]:
    """The numbers as ranges that do not touch."""
    starts = sorted(number for number in numbers if number - 1 not in numbers)
    stops = sorted(number + 1 for number in numbers if number + 1 not in numbers)
    return list(zip(starts, stops, strict=True))


@given(floor=st.integers(0, 20), added=ranges)
def test_intervals_hold_what_was_added_in_as_few_ranges_as_possible(
    floor: int, added: list[tuple[int, int]]
) -> None:
    intervals = Intervals(floor, added)
    model = set(range(floor)).union(*[range(*one) for one in added])
    runs = runs_of(model)
    low = runs.pop(0)[1] if 0 in model else 0

    assert {number for number in range(TOP * 2) if number in intervals} == model
    assert intervals.floor == low
    assert list(intervals.ranges()) == runs
    assert len(intervals) == len(runs)


@given(floor=st.integers(0, 20), added=ranges, start=st.integers(0, TOP), size=st.integers(0, TOP))
def test_what_is_missing_is_what_was_not_added(
    floor: int, added: list[tuple[int, int]], start: int, size: int
) -> None:
    intervals = Intervals(floor, added)
    missing = {number for number in range(start, start + size) if number not in intervals}

    assert list(intervals.missing(start, start + size)) == runs_of(missing)
    assert intervals.count_missing(start, start + size) == len(missing)


@given(given=ranges)
def test_joined_ranges_hold_the_same_numbers(given: list[tuple[int, int]]) -> None:
    given = [one for one in given if one[0] < one[1]]

    assert join_ranges(given) == runs_of({number for one in given for number in range(*one)})
