"""Counts of the last minute, hour and day."""

from __future__ import annotations

from headrace.server.remoting.statistics import DAY, HOUR, MAX_KEYS, RateCounters, RateSums


def test_sums_are_of_the_last_full_minute_the_hour_and_the_day() -> None:
    meters = RateCounters()
    for minute, amount in ((0, 1), (DAY - HOUR, 10), (DAY - 1, 100), (DAY, 1000), (DAY, 1)):
        meters.add("PUT", "T", amount, minute)

    assert meters.sums("PUT", "T", DAY) == RateSums(100, 1101, 1111)
    assert meters.sums("PUT", "T", DAY + 1) == RateSums(1001, 1101, 1111)
    assert meters.sums("PUT", "T", 3 * DAY) == RateSums(0, 0, 0)


def test_what_was_never_counted_is_not_known() -> None:
    meters = RateCounters()
    meters.add("PUT", "T", 1, 0)

    assert meters.sums("PUT", "other", 0) is None
    assert meters.sums("GET", "T", 0) is None


def test_names_are_bounded() -> None:
    meters = RateCounters()
    for number in range(MAX_KEYS + 5):
        meters.add("PUT", str(number), 1, 0)

    assert meters.sums("PUT", str(MAX_KEYS - 1), 0) is not None
    assert meters.sums("PUT", str(MAX_KEYS), 0) is None


def test_rates_are_of_everything_of_a_kind() -> None:
    meters = RateCounters()
    for minute, amount in ((1, 600), (10, 60), (11, 1000)):
        meters.add("puts", f"t{minute}", amount, minute)
    meters.add("others", "t", 5, 10)

    assert meters.rates("puts", 12 * 60_000) == (1000 / 60, 1060 / 600)
    assert meters.rates("puts", 11 * 60_000 + 30_000) == ((1000 + 30) / 60, 1.1)
    assert meters.rates("none", 11 * 60_000) == (0.0, 0.0)
