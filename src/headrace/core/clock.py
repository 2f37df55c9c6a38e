"""Time as the core sees it, and things that wait for a moment.

Waiting is done on the monotonic clock in whole milliseconds; the wall clock is only written down.
A test replaces Clock by VirtualClock and moves time by hand.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import time
from collections.abc import Callable
from itertools import count

logger = logging.getLogger(__name__)


_SWEEP = 1024  # timers that may wait before cancelled ones are looked for


class Clock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wall_seconds(self) -> float:
        return time.time()

    def call_later(
        self, loop: asyncio.AbstractEventLoop, delay_ms: int, callback: Callable[[], None]
    ) -> Callable[[], None]:
        """Call back after ``delay_ms``; returns what cancels it."""
        # One millisecond more: the loop's clock is finer than ours and must not fire early.
        return loop.call_later((delay_ms + 1) / 1000 if delay_ms else 0, callback).cancel


class VirtualClock(Clock):
    """Stands still until advance() is called, on the loop's thread."""

    def __init__(self) -> None:
        self._now = 1_000_000
        self._wall = time.time()
        self._waiting: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()

    def now_ms(self) -> int:
        return self._now

    def wall_seconds(self) -> float:
        return self._wall

    def call_later(
        self, loop: asyncio.AbstractEventLoop, delay_ms: int, callback: Callable[[], None]
    ) -> Callable[[], None]:
        entry = (self._now + delay_ms, next(self._numbers), callback)
        heapq.heappush(self._waiting, entry)

        def cancel() -> None:
            if entry in self._waiting:
                self._waiting.remove(entry)
                heapq.heapify(self._waiting)

        return cancel

    def advance(self, ms: int) -> None:
        """Let ``ms`` pass, calling back whatever falls due on the way, in order."""
        end = self._now + ms
        while self._waiting and self._waiting[0][0] <= end:
            due, _, callback = heapq.heappop(self._waiting)
            self._wall += (due - self._now) / 1000
            self._now = max(self._now, due)
            callback()
        self._wall += (end - self._now) / 1000
        self._now = end


class Timer:
    """A callback waiting in Timers."""

    __slots__ = ("callback", "due")

    def __init__(self, due: int, callback: Callable[[], None]) -> None:
        self.due = due
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Timers:
    """Many deadlines on one loop timer: a heap, so that thousands of queues cost little."""

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self.clock = clock
        self._loop = loop
        self._heap: list[tuple[int, int, Timer]] = []
        self._numbers = count()
        self._sweep_at = _SWEEP
        self._armed: int | None = None
        self._disarm: Callable[[], None] | None = None

    def at(self, due_ms: int, callback: Callable[[], None]) -> Timer:
        """Call ``callback`` once the clock has reached ``due_ms``."""
        timer = Timer(due_ms, callback)
        if len(self._heap) >= self._sweep_at:
            self._sweep()
        heapq.heappush(self._heap, (due_ms, next(self._numbers), timer))
        if self._armed is None or due_ms < self._armed:
            self._arm(due_ms)
        return timer

    def after(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        return self.at(self.clock.now_ms() + delay_ms, callback)

    def _sweep(self) -> None:
        """Forget cancelled timers: many queues are made with a long time and deleted soon."""
        self._heap[:] = [entry for entry in self._heap if entry[2].callback is not None]
        heapq.heapify(self._heap)
        self._sweep_at = 2 * len(self._heap) + _SWEEP

    def close(self) -> None:
        self._heap.clear()
        if self._disarm:
            self._disarm()
        self._disarm = self._armed = None

    def _arm(self, due_ms: int) -> None:
        if self._disarm:
            self._disarm()
        self._armed = due_ms
        delay = max(0, due_ms - self.clock.now_ms())
        self._disarm = self.clock.call_later(self._loop, delay, self._fire)

    def _fire(self) -> None:
        self._armed = self._disarm = None
        now = self.clock.now_ms()
        heap = self._heap
        while heap and heap[0][0] <= now:
            timer = heapq.heappop(heap)[2]
            if timer.callback is None:
                continue
            callback, timer.callback = timer.callback, None
            try:
                callback()
            except Exception:
                logger.exception("a timer's callback failed")
        if heap and (self._armed is None or heap[0][0] < self._armed):
            self._arm(heap[0][0])
