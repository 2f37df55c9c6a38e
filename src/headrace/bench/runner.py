"""Runs the cases: brokers in turn within each round, so that a noisy minute hits all of them."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.bench.cases import Case, CaseKind
from headrace.bench.load.amqp_connection import AmqpConnection
from headrace.bench.load.measures import (
    measure_bindings,
    measure_flow,
    measure_idle,
    measure_latency,
    measure_memory,
)
from headrace.bench.target import Figure, MeasureError, Target, Timing
from headrace.errors import BrokerError

_SMALLER_IS_BETTER = (CaseKind.LATENCY, CaseKind.MEMORY, CaseKind.IDLE)


@dataclass(slots=True)
class CaseResult:
    """All rounds of one case. `figures` and `failures` are keyed by the broker's name."""

    case: Case
    figures: dict[str, list[Figure]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        return bool(self.failures)

    def median(self, name: str, figure: str = "value") -> float | None:
        """Median over the rounds of a field of `Figure`, or of one of the details."""
        found = [one.get(figure) for one in self.figures.get(name, [])]
        known = [value for value in found if value is not None]
        return statistics.median(known) if known else None

    def undurable(self, name: str) -> bool:
        """Whether persistent messages were confirmed that cannot have been on a disk.

        Without confirms nothing is promised: what is consumed early need never be written.
        """
        written = self.median(name, "disk_bytes")
        promised = self.case.durable and self.case.window > 0
        return promised and written is not None and written < self.case.body

    def ratio(self, first: str, second: str) -> float | None:
        """How many times better `first` is: the median of the ratios of the rounds."""
        if self.undurable(first) or self.undurable(second):
            return None
        pairs = zip(self.figures.get(first, []), self.figures.get(second, []), strict=False)
        ratios = [_times_better(self.case, ours, theirs) for ours, theirs in pairs]
        return statistics.median(ratios) if ratios else None


def _times_better(case: Case, ours: Figure, theirs: Figure) -> float:
    if case.kind in _SMALLER_IS_BETTER:
        return theirs.value / ours.value
    return ours.value / theirs.value


class BenchRunner:
    """Use as a context manager: whatever it started is stopped on the way out, Ctrl-C included."""

    def __init__(self, targets: list[Target], timing: Timing, say: Callable[[str], None]) -> None:
        self._targets, self._timing, self._say = targets, timing, say
        self._running: list[Target] = []

    def __enter__(self) -> BenchRunner:
        return self

    def __exit__(self, *_: object) -> None:
        while self._running:
            self._running.pop().stop()

    def servers(self) -> dict[str, str]:
        """Product and version each broker gives when connected to; starts those not running."""
        found = {}
        for target in self._targets:
            self._ensure(target)
            with AmqpConnection(target.address) as link:
                found[target.name] = link.server
        return found

    def run(self, case: Case, rounds: int) -> CaseResult:
        """Measure one case; memory is measured once, as it does not vary like speed."""
        outcome = CaseResult(case)
        fresh = case.kind in (CaseKind.MEMORY, CaseKind.IDLE)
        for number in range(1 if fresh else rounds):
            for target in self._targets:
                if target.name not in outcome.failures:
                    self._measure(target, outcome, number + 1, fresh=fresh)
        return outcome

    def _measure(self, target: Target, outcome: CaseResult, number: int, *, fresh: bool) -> None:
        case = outcome.case
        try:
            figure = self._fresh(target, case) if fresh else self._standing(target, case)
        except (BrokerError, OSError) as error:
            outcome.failures[target.name] = str(error) or type(error).__name__
            self._say(f"{case.name}: {target.name}: failed: {error}")
            self._replace(target)
            return
        outcome.figures.setdefault(target.name, []).append(figure)
        self._say(f"{case.name} round {number}: {target.name} {figure.value:,.4g}")

    def _standing(self, target: Target, case: Case) -> Figure:
        self._ensure(target)
        if case.kind is CaseKind.LATENCY:
            return measure_latency(target, case, self._timing)
        if case.kind is CaseKind.BINDINGS:
            return measure_bindings(target, case, self._timing)
        return measure_flow(target, case, self._timing)

    def _fresh(self, target: Target, case: Case) -> Figure:
        """On an instance of its own: memory once used and freed would hide what a case needs."""
        if not target.restartable:
            if case.kind is CaseKind.IDLE:
                raise MeasureError("a broker given by address cannot be started")
            return measure_memory(target, case)
        self._end(target)
        seconds = target.start()
        self._running.append(target)
        try:
            if case.kind is CaseKind.IDLE:
                return measure_idle(target, seconds)
            return measure_memory(target, case)
        finally:
            self._end(target)

    def _ensure(self, target: Target) -> None:
        if target not in self._running:
            target.start()
            self._running.append(target)

    def _end(self, target: Target) -> None:
        if target in self._running:
            target.stop()
            self._running.remove(target)

    def _replace(self, target: Target) -> None:
        """After a failure the next case starts on a new instance: the old one may be stuck."""
        if target.restartable:
            self._end(target)


def estimate(cases: list[Case], rounds: int, targets: int, timing: Timing) -> float:
    """About how many seconds a run takes."""
    each = timing.warmup + timing.seconds + 0.7
    seconds = 0.0
    for case in cases:
        if case.kind is CaseKind.MEMORY:
            seconds += 25 * targets
        elif case.kind is CaseKind.IDLE:
            seconds += 5 * targets
        else:
            seconds += each * rounds * targets * (2.5 if case.kind is CaseKind.BINDINGS else 1)
    return seconds
