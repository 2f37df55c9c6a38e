"""Brokers take turns, failures stay with their case, and everything started is stopped."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.bench import runner
from headrace.bench.cases import CASES, Case
from headrace.bench.runner import BenchRunner, CaseResult, estimate
from headrace.bench.target import AmqpAddress, Figure, MeasureError, Target, Timing


class FakeTarget(Target):
    address = AmqpAddress("fake", 0)
    pids = [1]  # noqa: RUF012

    def __init__(self, name: str) -> None:
        self.name = name
        self.events: list[str] = []

    def start(self) -> float:
        self.events.append("start")
        return 1.5

    def stop(self) -> None:
        self.events.append("stop")


Measure = Callable[[Target, Case, Timing], Figure]


@pytest.fixture
def measure_with(monkeypatch: pytest.MonkeyPatch) -> Callable[[Measure], None]:
    return lambda measure: monkeypatch.setattr(runner, "measure_flow", measure)


def ignore(text: str) -> None:
    pass


def test_brokers_take_turns_within_a_round(measure_with: Callable[[Measure], None]) -> None:
    order = []

    def measure(target: Target, case: Case, timing: Timing) -> Figure:
        order.append(target.name)
        return Figure(1.0)

    measure_with(measure)
    targets = [FakeTarget("a"), FakeTarget("b")]

    with BenchRunner(list(targets), Timing(), ignore) as bench:
        bench.run(CASES["publish"], 3)

    assert order == ["a", "b"] * 3
    assert [target.events for target in targets] == [["start", "stop"]] * 2


def test_a_failed_broker_is_reported_and_replaced(measure_with: Callable[[Measure], None]) -> None:
    def measure(target: Target, case: Case, timing: Timing) -> Figure:
        if target.name == "b" and case.name == "publish":
            raise MeasureError("it fell over")
        return Figure(1.0)

    measure_with(measure)
    a, b = FakeTarget("a"), FakeTarget("b")

    with BenchRunner([a, b], Timing(), ignore) as bench:
        first = bench.run(CASES["publish"], 2)
        second = bench.run(CASES["auto-ack"], 1)

    assert first.failures == {"b": "it fell over"}
    assert len(first.figures["a"]) == 2
    assert not second.failed
    assert b.events == ["start", "stop", "start", "stop"]


def test_an_interrupt_stops_every_broker(measure_with: Callable[[Measure], None]) -> None:
    def measure(target: Target, case: Case, timing: Timing) -> Figure:
        raise KeyboardInterrupt

    measure_with(measure)
    target = FakeTarget("a")

    with pytest.raises(KeyboardInterrupt), BenchRunner([target], Timing(), ignore) as bench:
        bench.run(CASES["publish"], 1)

    assert target.events == ["start", "stop"]


def test_memory_is_measured_once_on_a_fresh_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "measure_memory", lambda target, case: Figure(10.0))
    target = FakeTarget("a")

    with BenchRunner([target], Timing(), ignore) as bench:
        outcome = bench.run(CASES["million-ready"], 3)

    assert len(outcome.figures["a"]) == 1
    assert target.events == ["start", "stop"]


def test_the_ratio_is_the_median_of_the_rounds() -> None:
    ours = [Figure(10.0), Figure(90.0), Figure(30.0)]
    theirs = [Figure(10.0), Figure(10.0), Figure(10.0)]

    assert CaseResult(CASES["publish"], {"a": ours, "b": theirs}).ratio("a", "b") == 3.0


@pytest.mark.parametrize("name", ["latency", "idle", "million-ready"])
def test_less_is_better_for_times_and_memory(name: str) -> None:
    outcome = CaseResult(CASES[name], {"a": [Figure(2.0)], "b": [Figure(8.0)]})

    assert outcome.ratio("a", "b") == 4.0


def test_there_is_no_ratio_without_both() -> None:
    assert CaseResult(CASES["publish"], {"a": [Figure(2.0)]}).ratio("a", "b") is None


def test_the_estimate_grows_with_rounds() -> None:
    cases = list(CASES.values())

    assert estimate(cases, 3, 2, Timing()) > estimate(cases, 1, 2, Timing())
