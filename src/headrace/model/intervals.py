"""A set of whole numbers kept as ranges, made for sets that grow mostly from below. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator


class Intervals:
    """Every number below ``floor`` is in it; above it, some ranges."""

    __slots__ = ("_starts", "_stops", "floor")

    def __init__(self, floor: int = 0, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self.floor = floor
        self._starts: list[int] = []  # disjoint, not touching, rising; stops are exclusive
        self._stops: list[int] = []
        for start, stop in ranges:
            self.add(start, stop)

    def __contains__(self, number: int) -> bool:
        if number < self.floor:
            return True
        where = bisect_right(self._starts, number) - 1
        return where >= 0 and number < self._stops[where]

    def add(self, start: int, stop: int) -> None:
        """Add start .. stop - 1."""
        if stop <= self.floor or start >= stop:
            return
        starts, stops = self._starts, self._stops
        if start <= self.floor:
            self.floor = stop
            gone = 0
            while gone < len(starts) and starts[gone] <= self.floor:
                self.floor = max(self.floor, stops[gone])
                gone += 1
            del starts[:gone], stops[:gone]
            return
        low = bisect_left(stops, start)  # the first range that touches or follows
        high = bisect_right(starts, stop)  # behind the last one that touches
        if low < high:
            start = min(start, starts[low])
            stop = max(stop, stops[high - 1])
        starts[low:high] = [start]
        stops[low:high] = [stop]

    def ranges(self) -> Iterator[tuple[int, int]]:
        """The ranges above the floor, stops exclusive."""
        return zip(self._starts, self._stops, strict=True)

    def highest(self) -> int:
        """The lowest number from which on nothing is in the set."""
        return self._stops[-1] if self._stops else self.floor

    def missing(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """The ranges of start .. stop - 1 that are not in the set."""
        start = max(start, self.floor)
        where = bisect_right(self._stops, start)
        while start < stop:
            if where == len(self._starts) or self._starts[where] >= stop:
                yield start, stop
                return
            if start < self._starts[where]:
                yield start, self._starts[where]
            start = self._stops[where]
            where += 1

    def count_missing(self, start: int, stop: int) -> int:
        """How many of start .. stop - 1 are not in the set."""
        return sum(high - low for low, high in self.missing(start, stop))

    def __len__(self) -> int:
        """How many ranges lie above the floor."""
        return len(self._starts)


def join_ranges(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges in any order, as few as possible; stops exclusive."""
    joined: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if joined and start <= joined[-1][1]:
            if stop > joined[-1][1]:
                joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((start, stop))
    return joined
