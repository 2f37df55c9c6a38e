"""The ready messages of a queue, in order. Pure: no I/O, no clock.

A backlog is `requeued` (by offset) before `ready` (in order of arrival) before what is paged out.
Whatever was delivered had a lower offset than everything still ready, so this is queue order.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Protocol

from headrace.model.message import PAGED_OUT, Route, Run

# A run grows by small publishes up to here: enough to make the run's own cost vanish, little
# enough that a half-consumed run does not hold much memory.
_GROW_COUNT = 256
_GROW_BYTES = 1 << 16
_SMALL = 32


_EMPTY = Run(Route("", ""), [], range(0), 0)


class Paging(Protocol):
    """Messages behind those in memory, paged out. In order; the count is exact."""

    count: int
    size: int

    def push(self, run: Run) -> None:
        """Add messages at the end."""

    def adopt(self, other: Paging) -> None:
        """Add at the end what another one, of the same kind, holds."""

    def pull(self) -> list[Run]:
        """Remove some messages from the beginning and bring them into memory."""

    def load(self, run: Run) -> list[Run]:
        """The messages of a paged-out run, with contents."""

    def clear(self) -> list[Run]:
        """Drop everything; the runs have offsets and no contents."""


class Backlog:
    """One ordered sequence of runs."""

    __slots__ = ("_paging", "count", "ready", "requeued", "resident_limit", "size")

    def __init__(self, paging: Paging | None = None, resident_limit: int = 0) -> None:
        self.ready: deque[Run] = deque()
        self.requeued: deque[Run] = deque()
        self._paging = paging
        self.resident_limit = resident_limit  # bytes in memory before messages are paged out
        self.count = paging.count if paging else 0  # all of them, also those paged out
        self.size = paging.size if paging else 0

    def append(self, run: Run) -> None:
        """Add messages at the end; the run must not be used by the caller any more."""
        contents = run.contents
        n = len(contents)
        self.count += n
        self.size += run.size
        paging = self._paging
        if paging is not None and (
            paging.count or self.size - paging.size > self.resident_limit + run.size
        ):
            paging.push(run)
            return
        ready = self.ready
        if n < _SMALL:
            if ready:
                last = ready[-1]
                if (
                    last.owned
                    and last.route is run.route
                    and last.channel_number == run.channel_number
                    and last.expires == run.expires
                    and last.persistent == run.persistent
                    and len(last.contents) < _GROW_COUNT
                    and last.size < _GROW_BYTES
                    and last.offsets[-1] + 1 == run.offsets[0]
                    and run.offsets[-1] - last.offsets[0] + 1 == len(last.offsets) + n
                ):
                    last.contents += contents
                    last.offsets = range(last.offsets[0], last.offsets[-1] + 1 + n)
                    last.size += run.size
                    return
            run.contents = contents.copy()
            run.owned = True
        ready.append(run)

    def append_paged(self, paged: Paging, priority: int = 0) -> None:
        """Add messages at the end that are paged out already."""
        assert self._paging is not None
        self.count += paged.count
        self.size += paged.size
        self._paging.adopt(paged)

    @property
    def paged_out(self) -> tuple[int, int]:
        """How many messages are not in memory, and how many bytes."""
        return (self._paging.count, self._paging.size) if self._paging is not None else (0, 0)

    def head(self) -> Run | None:
        """The run that holds the next message."""
        if self.requeued:
            return self.requeued[0]
        if not self.ready and self.count:
            self._refill()
        return self.ready[0] if self.ready else None

    def _refill(self) -> None:
        """Page in the next messages."""
        paging = self._paging
        while paging is not None and paging.count and not self.ready:
            count, size = paging.count, paging.size
            pulled = paging.pull()
            self.ready.extend(pulled)
            # Damaged messages do not come back; the sizes of stored ones are estimates.
            self.count += sum(map(len, pulled)) + paging.count - count
            self.size += sum(run.size for run in pulled) + paging.size - size

    def take(self, limit: int) -> Run:
        """Remove up to ``limit`` (>= 1) messages from the head: one run, at least one message.

        The run is empty only when all paged-out messages turn out to be damaged.
        """
        source = self.requeued or self.ready
        if not source:
            self._refill()
            source = self.ready
            if not source:
                return _EMPTY
        run = source[0]
        if run.contents is PAGED_OUT:
            return self._take_paged_out(limit)
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

    def _take_paged_out(self, limit: int) -> Run:
        """The head is a requeued run whose contents are only stored: load it first."""
        assert self._paging is not None, "only stored messages are paged out"
        run = self.requeued.popleft()
        self.count -= len(run)
        self.size -= run.size
        for loaded in reversed(self._paging.load(run)):
            self.requeued.appendleft(loaded)
            self.count += len(loaded)
            self.size += loaded.size
        return self.take(limit)

    def requeue(self, runs: Iterable[Run]) -> None:
        """Put messages back in queue order."""
        runs = [run for run in runs if len(run)]
        for run in runs:
            self.count += len(run)
            self.size += run.size
        if not runs:
            return
        runs = merge(runs)
        requeued = self.requeued
        # A consumer that requeues message by message does it in order: no need to sort then.
        if not requeued or requeued[-1].offsets[-1] < runs[0].offsets[runs[0].start]:
            requeued.extend(runs)
        elif runs[-1].offsets[-1] < requeued[0].offsets[requeued[0].start]:
            requeued.extendleft(reversed(runs))
        else:
            self.requeued = deque(merge(runs + list(requeued)))

    def take_expired(self, now: int, limit: int = sys.maxsize) -> list[Run]:
        """Remove messages at the head whose time has come (``expires`` <= now); about ``limit``."""
        expired: list[Run] = []
        while limit > 0 and (head := self.head()) and head.expires is not None:
            if head.expires > now:
                break
            expired.append(self.take(len(head)))
            limit -= max(1, len(expired[-1]))
        return expired

    def next_expiry(self) -> int | None:
        """When the head expires, if ever: nothing behind it goes before."""
        head = self.head()
        return head.expires if head else None

    def clear(self) -> list[Run]:
        """Remove and return everything; what was paged out comes without contents."""
        runs = list(self.requeued) + list(self.ready)
        if self._paging is not None:
            runs += self._paging.clear()
        self.requeued.clear()
        self.ready.clear()
        self.count = self.size = 0
        return runs

    def runs(self) -> Iterator[Run]:
        """All runs in order, to look at."""
        yield from self.requeued
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

    __slots__ = ("levels",)

    def __init__(
        self, highest: int, new_paging: Callable[[], Paging] | None = None, resident_limit: int = 0
    ) -> None:
        self.levels = [
            Backlog(new_paging() if new_paging else None, resident_limit)
            for _ in range(highest + 1)
        ]

    @property
    def count(self) -> int:
        return sum([level.count for level in self.levels])

    @property
    def size(self) -> int:
        return sum([level.size for level in self.levels])

    @property
    def paged_out(self) -> tuple[int, int]:
        parts = [level.paged_out for level in self.levels]
        return sum([count for count, _ in parts]), sum([size for _, size in parts])

    def _top(self) -> Backlog | None:
        for level in reversed(self.levels):
            if level.count:
                return level
        return None

    def append(self, run: Run) -> None:
        self.levels[min(run.priority, len(self.levels) - 1)].append(run)

    def append_paged(self, paged: Paging, priority: int = 0) -> None:
        self.levels[priority].append_paged(paged)

    def head(self) -> Run | None:
        top = self._top()
        return top.head() if top else None

    def take(self, limit: int) -> Run:
        top = self._top()
        return top.take(limit) if top is not None else _EMPTY

    def requeue(self, runs: Iterable[Run]) -> None:
        by_level: dict[int, list[Run]] = {}
        for run in runs:
            by_level.setdefault(min(run.priority, len(self.levels) - 1), []).append(run)
        for level, members in by_level.items():
            self.levels[level].requeue(members)

    def take_expired(self, now: int, limit: int = sys.maxsize) -> list[Run]:
        return [run for level in reversed(self.levels) for run in level.take_expired(now, limit)]

    def next_expiry(self) -> int | None:
        times = [time for level in self.levels if (time := level.next_expiry()) is not None]
        return min(times, default=None)

    def clear(self) -> list[Run]:
        return [run for level in reversed(self.levels) for run in level.clear()]

    def runs(self) -> Iterator[Run]:
        for level in reversed(self.levels):
            yield from level.runs()
