"""The messages a queue holds ready, in order. Pure: no I/O, no clock.

A backlog is `returned` (requeued messages, by offset) before `ready` (in order of arrival).
Whatever was delivered had a lower offset than everything still ready, so this is queue order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter

from headrace.model.message import Run

# A run grows by small publishes up to here: enough to make the run's own cost vanish, little
# enough that a half-consumed run does not hold much memory.
_GROW_COUNT = 256
_GROW_BYTES = 1 << 16
_SMALL = 32


class Backlog:
    """One ordered sequence of runs."""

    __slots__ = ("count", "ready", "returned", "size")

    def __init__(self) -> None:
        self.ready: deque[Run] = deque()
        self.returned: deque[Run] = deque()
        self.count = 0
        self.size = 0

    def append(self, run: Run) -> None:
        """Add messages at the end; the run must not be used by the caller any more."""
        contents = run.contents
        n = len(contents)
        self.count += n
        self.size += run.size
        ready = self.ready
        if n < _SMALL:
            if ready:
                tail = ready[-1]
                if (
                    tail.owned
                    and tail.route is run.route
                    and tail.origin == run.origin
                    and tail.expires == run.expires
                    and tail.persistent == run.persistent
                    and len(tail.contents) < _GROW_COUNT
                    and tail.size < _GROW_BYTES
                    and tail.offsets[-1] + 1 == run.offsets[0]
                ):
                    tail.contents += contents
                    tail.offsets = range(tail.offsets[0], tail.offsets[-1] + 1 + n)
                    tail.size += run.size
                    return
            run.contents = contents.copy()
            run.owned = True
        ready.append(run)

    def head(self) -> Run | None:
        """The run that holds the next message."""
        if self.returned:
            return self.returned[0]
        return self.ready[0] if self.ready else None

    def take(self, limit: int) -> Run:
        """Remove up to ``limit`` (>= 1) messages from the head: one run, at least one message."""
        source = self.returned or self.ready
        run = source[0]
        n = len(run.contents) - run.start
        if n > limit:
            part = run.split(limit)
            self.count -= limit
            self.size -= part.size
            return part
        source.popleft()
        self.count -= n
        self.size -= run.size
        if run.start:
            run.contents = run.contents[run.start :]
            run.offsets = run.offsets[run.start :]
            run.start = 0
        return run

    def put_back(self, runs: Iterable[Run]) -> None:
        """Return messages to their places."""
        runs = [run for run in runs if len(run)]
        for run in runs:
            self.count += len(run)
            self.size += run.size
        if not runs:
            return
        runs = merge(runs)
        returned = self.returned
        # A consumer that gives back message by message does it in order: no need to sort then.
        if not returned or returned[-1].offsets[-1] < runs[0].offsets[runs[0].start]:
            returned.extend(runs)
        elif runs[-1].offsets[-1] < returned[0].offsets[returned[0].start]:
            returned.extendleft(reversed(runs))
        else:
            self.returned = deque(merge(runs + list(returned)))

    def take_expired(self, now: int) -> list[Run]:
        """Remove the messages at the head whose time has come (``expires`` <= now)."""
        expired: list[Run] = []
        while (head := self.head()) and head.expires is not None and head.expires <= now:
            expired.append(self.take(len(head)))
        return expired

    def next_expiry(self) -> int | None:
        """When the head expires, if ever: nothing behind it goes before."""
        head = self.head()
        return head.expires if head else None

    def clear(self) -> list[Run]:
        """Remove and return everything."""
        runs = list(self.returned) + list(self.ready)
        self.returned.clear()
        self.ready.clear()
        self.count = self.size = 0
        return runs

    def runs(self) -> Iterator[Run]:
        """All runs in order, to look at."""
        yield from self.returned
        yield from self.ready


def merge(runs: list[Run]) -> list[Run]:
    """Sort runs by offset, cutting those which interleave into pieces that do not."""
    runs.sort(key=lambda run: run.offsets[run.start])
    result: list[Run] = []
    group: list[Run] = []
    end = -1
    for run in runs:
        if group and run.offsets[run.start] > end:
            result += _interleave(group)
            group = []
        group.append(run)
        end = max(end, run.offsets[-1])
    return result + _interleave(group) if group else result


def _interleave(runs: list[Run]) -> list[Run]:
    if len(runs) == 1:
        return runs
    order = sorted(
        (offset, which, index)
        for which, run in enumerate(runs)
        for index, offset in enumerate(run.offsets[run.start :], run.start)
    )
    pieces = []
    for which, items in groupby(order, key=itemgetter(1)):
        indices = [index for _, _, index in items]
        pieces.append(runs[which].piece(slice(indices[0], indices[-1] + 1)))
    return pieces


class PriorityBacklog:
    """Several backlogs, the highest priority first. Same interface as Backlog."""

    __slots__ = ("count", "levels", "size")

    def __init__(self, highest: int) -> None:
        self.levels = [Backlog() for _ in range(highest + 1)]
        self.count = 0
        self.size = 0

    def _level(self, priority: int) -> Backlog:
        return self.levels[min(priority, len(self.levels) - 1)]

    def _top(self) -> Backlog | None:
        for level in reversed(self.levels):
            if level.count:
                return level
        return None

    def append(self, run: Run) -> None:
        self.count += len(run)
        self.size += run.size
        self._level(run.priority).append(run)

    def head(self) -> Run | None:
        top = self._top()
        return top.head() if top else None

    def take(self, limit: int) -> Run:
        top = self._top()
        assert top is not None, "take() from an empty backlog"
        run = top.take(limit)
        self.count -= len(run)
        self.size -= run.size
        return run

    def put_back(self, runs: Iterable[Run]) -> None:
        by_level: dict[int, list[Run]] = {}
        for run in runs:
            self.count += len(run)
            self.size += run.size
            by_level.setdefault(min(run.priority, len(self.levels) - 1), []).append(run)
        for level, members in by_level.items():
            self.levels[level].put_back(members)

    def take_expired(self, now: int) -> list[Run]:
        expired = [run for level in reversed(self.levels) for run in level.take_expired(now)]
        for run in expired:
            self.count -= len(run)
            self.size -= run.size
        return expired

    def next_expiry(self) -> int | None:
        times = [time for level in self.levels if (time := level.next_expiry()) is not None]
        return min(times, default=None)

    def clear(self) -> list[Run]:
        self.count = self.size = 0
        return [run for level in reversed(self.levels) for run in level.clear()]

    def runs(self) -> Iterator[Run]:
        for level in reversed(self.levels):
            yield from level.runs()
