"""A set of numbers kept as ranges: joining, the floor, holes."""

from __future__ import annotations

from headrace.model.intervals import Intervals, join_ranges


def test_ranges_that_touch_become_one() -> None:
    intervals = Intervals()
    intervals.add(5, 7)
    intervals.add(9, 11)
    intervals.add(7, 9)

    assert list(intervals.ranges()) == [(5, 11)]


def test_the_floor_rises_over_ranges_it_meets() -> None:
    intervals = Intervals(0, [(3, 5), (8, 9)])

    intervals.add(0, 3)

    assert intervals.floor == 5
    assert list(intervals.ranges()) == [(8, 9)]


def test_settling_in_order_leaves_no_ranges() -> None:
    intervals = Intervals()
    for number in range(1000):
        intervals.add(number, number + 1)

    assert (intervals.floor, len(intervals)) == (1000, 0)


def test_empty_ranges_and_those_below_the_floor_change_nothing() -> None:
    intervals = Intervals(10)
    intervals.add(12, 12)
    intervals.add(3, 9)

    assert (intervals.floor, len(intervals)) == (10, 0)


def test_missing_numbers_come_in_order_and_within_bounds() -> None:
    intervals = Intervals(2, [(4, 6), (8, 9)])

    assert list(intervals.missing(0, 12)) == [(2, 4), (6, 8), (9, 12)]
    assert list(intervals.missing(5, 8)) == [(6, 8)]
    assert list(intervals.missing(4, 6)) == []


def test_ranges_in_any_order_are_joined() -> None:
    assert join_ranges([(5, 6), (1, 3), (2, 4), (6, 8)]) == [(1, 4), (5, 8)]
