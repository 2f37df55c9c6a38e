"""Which times a filter leaves to be read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

pytest.importorskip("pyspark")

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    LessThan,
    LessThanOrEqual,
)

from headrace.spark.filters import OffsetFilter
from headrace.spark.options import read_options

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
KEEPS = {
    EqualTo: lambda time, value: time == value,
    GreaterThan: lambda time, value: time > value,
    GreaterThanOrEqual: lambda time, value: time >= value,
    LessThan: lambda time, value: time < value,
    LessThanOrEqual: lambda time, value: time <= value,
}
moments = st.integers(1_700_000_000_000_000, 1_900_000_000_000_000)


@pytest.mark.parametrize("kind", KEEPS)
@given(us=moments | moments.map(lambda one: one // 1000 * 1000))
def test_a_filter_on_time_leaves_exactly_the_milliseconds_that_it_keeps(
    kind: type[Filter], us: int
) -> None:
    narrowing = OffsetFilter()
    narrowing.take(kind(("timestamp",), EPOCH + timedelta(microseconds=us)))  # type: ignore[call-arg]

    for ms in range(us // 1000 - 2, us // 1000 + 3):
        is_left = (narrowing.since_ms is None or ms >= narrowing.since_ms) and (
            narrowing.until_ms is None or ms < narrowing.until_ms
        )
        assert is_left == KEEPS[kind](ms * 1000, us), (kind.__name__, ms)


@given(ms=st.integers(1_700_000_000_000, 1_900_000_000_000))
def test_a_time_written_out_is_the_millisecond_it_names(ms: int) -> None:
    text = (EPOCH + timedelta(milliseconds=ms)).isoformat()
    options = {"topic": "orders", "startingTimestamp": text, "endingTimestamp": str(ms)}

    read = read_options(options)

    assert read.start == read.end
