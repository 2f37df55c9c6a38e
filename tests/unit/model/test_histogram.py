"""Histograms: every value in exactly one bucket."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.histogram import SECONDS, Histogram

values = st.lists(st.floats(min_value=0, max_value=20, allow_nan=False), max_size=50)


@given(values)
def test_buckets_agree_with_counting(given_values: list[float]) -> None:
    histogram = Histogram()
    for value in given_values:
        histogram.observe(value)
    for bound, count in histogram.cumulative():
        assert count == sum(value <= bound for value in given_values)
    assert histogram.count == len(given_values)
    assert histogram.total == pytest.approx(sum(given_values))


def test_the_last_bucket_holds_everything() -> None:
    histogram = Histogram((1.0,))
    histogram.observe(5.0)
    assert histogram.cumulative() == [(1.0, 0), (float("inf"), 1)]


def test_the_bounds_rise() -> None:
    assert list(SECONDS) == sorted(set(SECONDS))
