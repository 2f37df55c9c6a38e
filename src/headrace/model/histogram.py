"""Counts of durations per bucket. Pure: plain numbers, summed by the caller."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Histogram:
    """Counts per bucket; a bucket holds what is at most its bound."""

    __slots__ = ("bounds", "count", "counts", "total")

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)  # the last one: above all bounds
        self.count = 0
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.count += 1
        self.total += value

    def since(self, before: Sequence[int]) -> Histogram:
        """What was observed after its `counts` were ``before``; without the total."""
        found = Histogram(self.bounds)
        found.counts = [new - old for new, old in zip(self.counts, before, strict=True)]
        found.count = sum(found.counts)
        return found

    def cumulative(self) -> list[tuple[float, int]]:
        """How many were at most each bound; the last bound is infinity."""
        shown: list[tuple[float, int]] = []
        sum_so_far = 0
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            sum_so_far += count
            shown.append((bound, sum_so_far))
        return shown

    def interpolated(self, share: float) -> float:
        """The quantile, linear inside its bucket; above all bounds, the last bound."""
        lower, below, wanted = 0.0, 0, share * self.count
        for bound, count in zip(self.bounds, self.counts, strict=False):
            if count and below + count >= wanted:
                return lower + (bound - lower) * (wanted - below) / count
            lower, below = bound, below + count
        return lower if self.count else 0.0
