"""Rates and samples from a memory of counters."""

from __future__ import annotations

import asyncio
from collections import deque
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.model.histogram import Histogram
from headrace.server.http.sampler import (
    MAX_SAMPLES,
    Sampler,
    SampleWindow,
    details,
    rate,
    window_of,
)


def history(*values: int, every_ms: int = 5000) -> deque[tuple[int, tuple[int, ...]]]:
    return deque((1_000_000 + index * every_ms, (value,)) for index, value in enumerate(values))


def test_a_rate_needs_two_samples() -> None:
    assert rate(history(), 0) == 0.0
    assert rate(history(7), 0) == 0.0
    assert rate(history(0, 5, 15), 0) == 2.0


def test_lengths_may_fall() -> None:
    assert rate(history(10, 0), 0) == -2.0


def test_samples_are_newest_first_on_round_moments() -> None:
    shown = details(history(0, 10, 30), 0, SampleWindow(10, 5))
    assert shown["samples"] == [
        {"sample": 30, "timestamp": 1_010_000},
        {"sample": 10, "timestamp": 1_005_000},
        {"sample": 0, "timestamp": 1_000_000},
    ]
    assert shown["avg_rate"] == 3.0
    assert shown["avg"] == pytest.approx(40 / 3)


def test_before_the_first_sample_there_was_nothing() -> None:
    shown = details(history(5), 0, SampleWindow(10, 5))
    samples = shown["samples"]
    assert isinstance(samples, list)
    assert [one["sample"] for one in samples] == [5, 0, 0]


def test_who_asks_for_known_samples_gets_no_zeros_for_the_time_before() -> None:
    window = window_of({"lengths_age": "300", "lengths_incr": "5", "samples": "known"}, "lengths")
    shown = details(history(500, 0), 0, window)
    assert shown["samples"] == [
        {"sample": 0, "timestamp": 1_005_000},
        {"sample": 500, "timestamp": 1_000_000},
    ]
    assert shown["avg"] == 250


def test_an_average_does_not_count_what_came_before_the_first_sample() -> None:
    shown = details(history(1_000_000, 1_000_050), 0, SampleWindow(60, 5))
    assert shown["avg_rate"] == 10.0
    assert details(history(1_000_000), 0, SampleWindow(60, 5))["avg_rate"] == 0.0


def test_coarser_steps_take_the_last_value_in_them() -> None:
    shown = details(history(1, 2, 3, 4, 5), 0, SampleWindow(20, 10))
    samples = shown["samples"]
    assert isinstance(samples, list)
    assert [one["sample"] for one in samples] == [5, 4, 2]


@pytest.mark.parametrize(
    "query",
    [{}, {"msg_rates_age": "60"}, {"msg_rates_age": "x", "msg_rates_incr": "5"},
     {"msg_rates_age": "-1", "msg_rates_incr": "5"}, {"msg_rates_age": "9" * 30,
                                                      "msg_rates_incr": "1"}],
)  # fmt: skip
def test_no_window_without_two_good_numbers(query: dict[str, str]) -> None:
    assert window_of(query, "msg_rates") is None


def test_the_number_of_samples_is_limited() -> None:
    window = window_of({"msg_rates_age": "1000000", "msg_rates_incr": "0"}, "msg_rates")
    assert window is not None
    samples = details(history(1, 2), 0, window)["samples"]
    assert isinstance(samples, list)
    assert len(samples) == MAX_SAMPLES + 1


def test_a_failure_is_logged_and_sampling_continues(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looks: list[bool] = []
    again = asyncio.Event()

    async def look(sampler: Sampler) -> None:
        looks.append(True)
        if len(looks) == 1:
            raise KeyError("a queue that was deleted meanwhile")
        again.set()

    async def work() -> None:
        sampler = Sampler(cast(Any, None))
        sampler.start()
        await again.wait()
        await sampler.stop()

    monkeypatch.setattr(Sampler, "tick", look)
    monkeypatch.setattr("headrace.server.http.sampler.EVERY_SECONDS", 0)
    asyncio.run(work())

    assert caplog.messages == ["counters could not be noted: rates are old until the next try"]


def test_confirm_latencies_are_those_since_the_last_sample() -> None:
    confirms = Histogram()
    log = SimpleNamespace(timings=SimpleNamespace(confirm=confirms))
    broker = SimpleNamespace(
        alarms=SimpleNamespace(measured=lambda: (100, 2000)), storage=SimpleNamespace(log=log)
    )
    sampler = Sampler(cast(Any, broker))
    assert sampler._node_values() == (100, 2000, 0, 0)
    for _ in range(10):
        confirms.observe(0.0009)
    memory, disk, median, high = sampler._node_values()
    assert (memory, disk) == (100, 2000)
    assert 500 <= median <= high <= 1000
    confirms.observe(0.2)
    assert sampler._node_values()[2] > 100_000
    assert sampler._node_values()[2:] == (0, 0)
