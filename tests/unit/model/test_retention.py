"""Retention: how it is written, and when it ends."""

from __future__ import annotations

import pytest

from headrace.model.retention import Retention, parse_retention


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7d", Retention(ms=7 * 86_400_000)),
        ("90s", Retention(ms=90_000)),
        ("250ms", Retention(ms=250)),
        ("500MB", Retention(size=500_000_000)),
        ("1GiB", Retention(size=1 << 30)),
        ("24h, 10GB", Retention(ms=86_400_000, size=10_000_000_000)),
    ],
)
def test_time_and_size_are_written_with_units(text: str, expected: Retention) -> None:
    assert parse_retention(text) == expected


@pytest.mark.parametrize("text", ["", "7", "d", "7 days", "-1d", "1d;2MB", "9" * 20 + "d"])
def test_anything_else_is_no_retention(text: str) -> None:
    assert parse_retention(text) is None


def test_it_ends_by_age_or_by_size_whichever_comes_first() -> None:
    both = Retention(ms=100, size=1000)

    assert not both.ends(stored_at=0, now=99, kept=1000)
    assert both.ends(stored_at=0, now=100, kept=0)
    assert both.ends(stored_at=0, now=1, kept=1001)


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        (Retention(604_800_000), "7d"),
        (Retention(5_400_000), "90m"),
        (Retention(1_001), "1001ms"),
        (Retention(size=500_000_000), "500MB"),
        (Retention(size=268_435_456), "256MiB"),
        (Retention(86_400_000, 1_001), "1d,1001B"),
    ],
)
def test_is_told_as_it_is_written(kept: Retention, told: str) -> None:
    assert str(kept) == told
    assert parse_retention(told) == kept
