"""What pipelines outside the broker say of themselves, so that the API can show it.

Only in memory: a pipeline that runs says it again every few seconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from headrace.core.clock import Clock
from headrace.errors import PreconditionFailed

MAX_PIPELINES = 1000
ENDED = frozenset({"finished", "stopped", "failed"})
SILENT_AFTER_MS = 60_000  # of one that says it runs: it says so every two seconds
FORGET_AFTER_MS = 24 * 3_600_000
SAMPLES = 300  # of a pipeline, the last ten minutes of one that runs


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """The last word of one pipeline."""

    name: str
    state: Mapping[str, object]
    at_ms: int
    history: deque[list[float]]
    """Of each report: wall time in ms, rows read and processed a second, lag, batch time in ms."""

    def is_running(self, now_ms: int) -> bool:
        return self.state.get("state") not in ENDED and now_ms - self.at_ms <= SILENT_AFTER_MS

    def queries(self, now_ms: int) -> object:
        """Queries as reported; those of a stopped pipeline have no rate."""
        queries = self.state.get("queries")
        if self.is_running(now_ms) or not isinstance(queries, list):
            return queries
        return [
            {**one, "rows_per_second": 0.0} if isinstance(one, Mapping) else one for one in queries
        ]


class Pipelines:
    """All that were heard of in a vhost during the last day."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_name: dict[str, PipelineStatus] = {}

    def __iter__(self) -> Iterator[PipelineStatus]:
        since = self._clock.now_ms() - FORGET_AFTER_MS
        return iter([one for one in self._by_name.values() if one.at_ms >= since])

    def report(self, name: str, state: Mapping[str, object]) -> None:
        """PreconditionFailed when there are too many."""
        if name not in self._by_name and len(self._by_name) >= MAX_PIPELINES:
            self._by_name = {one.name: one for one in self}
            if len(self._by_name) >= MAX_PIPELINES:
                raise PreconditionFailed(f"{MAX_PIPELINES} pipelines are known, which is the limit")
        now, before = self._clock.now_ms(), self._by_name.get(name)
        history = before.history if before is not None else deque(maxlen=SAMPLES)
        wall_ms = round(self._clock.wall_seconds() * 1000)
        history.append([wall_ms, *_figures(state.get("queries"))])
        self._by_name[name] = PipelineStatus(name, state, now, history)


def _figures(queries: object) -> tuple[float, float, float, float]:
    """The rates of all queries together, and the largest lag and batch time."""
    rows = [one for one in queries if isinstance(one, Mapping)] if isinstance(queries, list) else []

    def each(name: str) -> list[float]:
        values = [one.get(name) for one in rows]
        return [one for one in values if isinstance(one, int | float)]

    rates = (sum(each("input_rows_per_second")), sum(each("rows_per_second")))
    return *rates, max(each("lag"), default=0), max(each("batch_ms"), default=0)
