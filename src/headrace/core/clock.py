"""Time as the core sees it, and things that wait for a moment.

Waiting is done on the monotonic clock in whole milliseconds. The wall clock is written down, and
what is stored ages by it over a restart, so it must not jump: it goes on with the monotonic clock
and follows the system's slowly. A test replaces Clock by VirtualClock and moves time by hand.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import time
from collections.abc import Callable
from functools import partial
from itertools import count

from headrace.core.loop_turn import SHARE

logger = logging.getLogger(__name__)

_SWEEP = 1024  # timers that may wait before cancelled ones are looked for
SLEW = 0.01  # how much faster or slower than the monotonic clock the wall clock may go
JUMP_SECONDS = 60.0  # a larger difference from the system's clock is logged
BELIEVED_SECONDS = 24 * 3600.0  # a longer end of the broker may be a wrong clock

_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # goes on while the machine sleeps


class Clock:
    """The machine's clocks, as far as they agree."""

    def __init__(self) -> None:
        self._wall, self._at = self._system(), self._steady()
        self._doubt = 0.0  # seconds by which the wall clock may be wrong since the start
        self._started = self._at
        self._has_jumped = False

    _system = staticmethod(time.time)
    _steady = staticmethod(partial(time.clock_gettime, _STEADY))

    def now_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wall_seconds(self) -> float:
        """The time of day. A jump of the system's clock is followed by a hundredth per second."""
        now = self._steady()
        elapsed = now - self._at
        if 0 < elapsed < 0.001:  # every append asks; no more than the next look adds at least
            return self._wall + elapsed * (1 - SLEW)
        system = self._system()
        ahead, most = system - self._wall - elapsed, elapsed * SLEW
        if abs(ahead) <= most:
            self._wall = system
        else:
            self._wall += elapsed + (most if ahead > 0 else -most)
        self._at = now
        if (abs(ahead) > JUMP_SECONDS) != self._has_jumped:
            self._has_jumped = not self._has_jumped
            logger.warning("the system's clock is %+.0f s from the broker's, which follows it by "
                           "%g %%", ahead, SLEW * 100)  # fmt: skip
        return self._wall

    def expiry_ms(self) -> int:
        """The wall time by which stored messages expire, without what is in doubt."""
        doubt = max(0.0, self._doubt - (self._steady() - self._started))
        return int((self.wall_seconds() - doubt) * 1000)

    def go_on_from(self, noted_ms: int | None, stored_ms: int) -> None:
        """After a restart: compare with the time that was noted last, and with that of messages.

        Time does not go back. A long end is believed for BELIEVED_SECONDS; the rest of it counts
        once the broker has been running for as long.
        """
        self._wall, self._at = self._system(), self._steady()
        latest = max(noted_ms or 0, stored_ms) / 1000
        if latest - self._wall > 1:
            logger.warning("the system's clock is %.0f s behind the broker's last time; the "
                           "broker continues from its own", latest - self._wall)  # fmt: skip
            self._wall = latest
        gap = self._wall - noted_ms / 1000 if noted_ms is not None else 0.0
        self._doubt, self._started = max(0.0, gap - BELIEVED_SECONDS), self._steady()
        if self._doubt:
            logger.warning("the broker was down for %.0f h, or the clock is wrong: stored messages "
                           "age by %.0f h at first, by all of it when it has run for as long",
                           gap / 3600, BELIEVED_SECONDS / 3600)  # fmt: skip

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
        self._system_wall = time.time()
        self._waiting: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()
        super().__init__()

    def now_ms(self) -> int:
        return self._now

    def _system(self) -> float:
        return self._system_wall

    def _steady(self) -> float:
        return self._now / 1000

    def jump(self, seconds: float) -> None:
        """Let the system's clock jump ahead, or back if negative; no time passes."""
        self._system_wall += seconds

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
            self._system_wall += (due - self._now) / 1000
            self._now = max(self._now, due)
            callback()
        self._system_wall += (end - self._now) / 1000
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
        start = time.thread_time()  # very many may be due at once: others are served in between
        while heap and heap[0][0] <= now and time.thread_time() - start < SHARE:
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
