"""Notes about messages become ranges: every offset in one of them, none added."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headrace.core.message_events import merged

OFFSETS = st.one_of(
    st.builds(range, st.integers(0, 50), st.integers(0, 60)),
    st.builds(range, st.integers(0, 50), st.integers(0, 60), st.integers(1, 4)),
    st.sets(st.integers(0, 60)).map(sorted),
)


@given(st.lists(st.tuples(OFFSETS, st.sampled_from(["a", "b"]))))
def test_ranges_hold_exactly_the_offsets_noted(notes: list[tuple[Sequence[int], str]]) -> None:
    ranges = list(merged(notes))
    wanted = sorted({offset for offsets, _ in notes for offset in offsets})
    assert [offset for first, last, _ in ranges for offset in range(first, last + 1)] == wanted
    assert all(one[1] + 1 < after[0] for one, after in pairwise(ranges))


def test_a_range_has_a_consumer_only_when_there_was_one() -> None:
    assert list(merged([(range(3), "a"), (range(3, 5), "a"), (range(9, 10), "b")])) == [
        (0, 4, "a"),
        (9, 9, "b"),
    ]
    assert list(merged([(range(0, 6, 2), "a"), (range(1, 6, 2), "b")])) == [(0, 5, "")]
