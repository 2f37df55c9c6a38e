"""Paging: the messages of a queue that are not in memory but in the log or in paging files.

Of stored messages only ranges of offsets are kept: a million of them cost nothing here. Transient
ones are spilled to paging files, run by run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

from headrace.cache import BoundedCache
from headrace.model.backlog import Paging, PriorityBacklog
from headrace.model.message import PAGED_OUT, Route, Run
from headrace.store.api.message_log import MessageLog, StoredRun
from headrace.store.paging_files import Scratch, ScratchSlot
from headrace.wire.amqp.properties import priority as priority_of

_MAX_ROUTES = 1024


class _StoredRange:
    """Stored messages start .. stop - 1, as far as they are alive."""

    __slots__ = ("count", "size", "start", "stop")

    def __init__(self, start: int, stop: int, count: int, size: int) -> None:
        self.start = start
        self.stop = stop
        self.count = count
        self.size = size


class _ScratchRun:
    """A run whose contents are in a scratch file."""

    __slots__ = ("run", "slot")

    def __init__(self, run: Run, slot: ScratchSlot) -> None:
        self.run = run
        self.slot = slot


class QueuePaging:
    """See model.backlog.Paging. ``log`` None: nothing of this queue is stored."""

    __slots__ = ("_expiry", "_first", "_grouped", "_items", "_log", "_queue", "_resident",
                 "_routes", "_scratch", "_since", "count", "size", "suspect_below")  # fmt: skip

    def __init__(
        self,
        scratch: Scratch | None,
        log: MessageLog | None,
        queue: int,
        expiry: Callable[[StoredRun], int | None],
        resident: int = 0,
    ) -> None:
        self._resident = resident  # bytes of messages that are not stored and stay in memory
        # Messages that were prepared have offsets and times of expiry from 0 on, and get these.
        self._first = self._since = 0
        self._scratch = scratch
        self._log = log
        self._queue = queue
        self._expiry = expiry
        self._items: deque[_StoredRange | _ScratchRun | Run | QueuePaging] = deque()
        # Behind them: everything from the first message of a group that is not complete yet.
        self._grouped: deque[_ScratchRun | Run | QueuePaging] = deque()
        self._routes: BoundedCache[tuple[str, str], Route] = BoundedCache(_MAX_ROUTES)
        self.count = 0
        self.size = 0
        self.suspect_below = 0  # offsets below it may have been delivered before a crash

    def restore(self, log: MessageLog, *, clean: bool) -> int:
        """Begin with what the log holds of the queue; returns the next offset."""
        stop = log.reads.next_offset(self._queue)
        self.count, self.size = log.reads.live(self._queue)
        if self.count:
            self._items.append(_StoredRange(0, stop, self.count, self.size))
        if not clean:
            self.suspect_below = stop
        return stop

    def push(self, run: Run) -> None:
        self.count += len(run)
        self.size += run.size
        is_stored, log = self._is_stored(run), self._log
        if is_stored and log is not None and log.is_grouping:
            self._add_to_group(run, log)
        elif self._grouped:
            self._grouped.append(self._spill(run))
        elif is_stored:
            self._add_to_range(run)
        else:
            self._items.append(self._spill(run))

    def _add_to_group(self, item: Run | QueuePaging, log: MessageLog) -> None:
        """It can be read from the log once the group is complete."""
        if not self._grouped:
            log.after_group(self._end_group)
        self._grouped.append(item)

    def place(self, first: int, since: int) -> None:
        """What was prepared gets its offsets, and expires from ``since`` on."""
        self._first, self._since = first, since

    def adopt(self, other: Paging) -> None:
        """Add prepared messages at the end."""
        assert isinstance(other, QueuePaging)
        self.count += other.count
        self.size += other.size
        if self._log is not None and self._log.is_grouping:
            self._add_to_group(other, self._log)
        else:
            self._items.append(other)

    def _end_group(self) -> None:
        for item in self._grouped:
            if isinstance(item, Run) and self._is_stored(item):
                self._add_to_range(item)
            else:
                self._items.append(item)
        self._grouped.clear()

    def _add_to_range(self, run: Run) -> None:
        n, stop = len(run), run.offsets[-1] + 1
        last = self._items[-1] if self._items else None
        if isinstance(last, _StoredRange) and last.stop == run.offsets[run.start]:
            last.stop = stop
            last.count += n
            last.size += run.size
        else:
            self._items.append(_StoredRange(run.offsets[run.start], stop, n, run.size))

    def _is_stored(self, run: Run) -> bool:
        if self._log is None or not run.persistent or run.priority:
            return False
        # A range stands for every live message in it, so a run must be without holes.
        return run.offsets[-1] - run.offsets[0] + 1 == len(run.offsets)

    def _spill(self, run: Run) -> _ScratchRun | Run:
        if self._scratch is None or self.size <= self._resident:
            return run
        try:
            slot = self._scratch.write(run.contents[run.start :])
        except OSError:
            return run  # no room on the disk: it stays in memory, and the alarm does the rest
        run.offsets = run.offsets[run.start :]
        run.start = 0
        run.page_out()
        return _ScratchRun(run, slot)

    def pull(self) -> list[Run]:
        items = self._items or self._grouped
        item = items[0]
        if isinstance(item, _StoredRange):
            return self._pull_stored(item)
        if isinstance(item, QueuePaging):
            return self._pull_adopted(item, items)
        items.popleft()
        run = item.run if isinstance(item, _ScratchRun) else item
        if isinstance(item, _ScratchRun):
            assert self._scratch is not None
            run.contents = self._scratch.read(item.slot)
            self._scratch.free(item.slot)
        self.count -= len(run)
        self.size -= run.size
        return [self._placed(run)]

    def _pull_adopted(self, other: QueuePaging, items: deque[Any]) -> list[Run]:
        count, size = other.count, other.size
        runs = other.pull()
        self.count -= count - other.count
        self.size -= size - other.size
        if not other.count:
            items.popleft()
        return runs

    def _placed(self, run: Run) -> Run:
        """A run that is not stored, with its offsets and its time of expiry."""
        first, offsets = self._first, run.offsets
        if isinstance(offsets, range):
            run.offsets = range(first + offsets.start, first + offsets.stop)
        elif first:
            run.offsets = [first + offset for offset in offsets]
        if self._since and run.expires is not None:
            run.expires += self._since
        return run

    def _pull_stored(self, stored_range: _StoredRange) -> list[Run]:
        assert self._log is not None
        first = self._first
        stored, following = self._log.reads.read(
            self._queue, first + stored_range.start, first + stored_range.stop
        )
        following -= first
        runs = [run for one in stored for run in self._runs(one)]
        if following >= stored_range.stop:
            # Whatever is missing now was damaged: it is gone from the counts too.
            self._items.popleft()
            count, size = stored_range.count, stored_range.size
        else:
            count = sum(map(len, runs))
            size = min(stored_range.size, sum(run.size for run in runs))
            stored_range.start = following
            stored_range.count -= count
            stored_range.size -= size
        self.count -= count
        self.size -= size
        return runs

    def _runs(self, stored: StoredRun) -> Iterable[Run]:
        route = self._route(stored.exchange, stored.key)
        suspect = stored.offsets[-1] < self.suspect_below
        yield Run(
            route,
            stored.contents,
            stored.offsets,
            sum(map(len, stored.contents)),
            channel_number=stored.channel_number,
            persistent=True,
            expires=self._expiry(stored),
            deliveries=max(stored.deliveries, 1) if suspect else stored.deliveries,
        )

    def _route(self, exchange: str, key: str) -> Route:
        route = self._routes.get((exchange, key))
        return route or self._routes.keep((exchange, key), Route(exchange, key))

    def load(self, run: Run) -> list[Run]:
        assert self._log is not None
        wanted = set(run.offsets[run.start :])
        loaded: list[Run] = []
        start, stop = min(wanted), max(wanted) + 1
        while start < stop:
            stored, start = self._log.reads.read(self._queue, start, stop)
            for one in stored:
                pairs = [
                    (offset, content)
                    for offset, content in zip(one.offsets, one.contents, strict=True)
                    if offset in wanted
                ]
                if pairs:
                    offsets, contents = zip(*pairs, strict=True)
                    loaded.append(run.with_contents(list(contents), offsets, type(run)))
        return loaded

    def clear(self) -> list[Run]:
        runs: list[Run] = []
        nowhere = Route("", "")
        for item in chain(self._items, self._grouped):
            if isinstance(item, _StoredRange):
                offsets = range(self._first + item.start, self._first + item.stop)
                runs.append(Run(nowhere, PAGED_OUT, offsets, 0, persistent=True))
            elif isinstance(item, QueuePaging):
                runs += item.clear()
            elif isinstance(item, _ScratchRun):
                assert self._scratch is not None
                self._scratch.free(item.slot)
                runs.append(self._placed(item.run))
            else:
                runs.append(self._placed(item))
        self._items.clear()
        self._grouped.clear()
        self.count = self.size = 0
        return runs


def restore_priorities(stored: QueuePaging, backlog: PriorityBacklog) -> None:
    """Page in everything: the log does not distinguish priorities."""
    while stored.count:
        for run in stored.pull():
            for index, content in enumerate(run.contents):
                one = run.piece(slice(index, index + 1))
                one.priority = priority_of(content)
                backlog.append(one)
