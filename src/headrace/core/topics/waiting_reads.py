"""Reads that wait for messages of one topic. They cost a timer each, and nothing while they wait.

The longest waiting read is served first. Besides new messages, the end of a lease and the
end of a retry's delay can bring something to read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.store.topics.types import ConsumerSpec

if TYPE_CHECKING:
    from headrace.core.clock import Timer, Timers


class WaitingRead:
    """One read that found nothing yet."""

    __slots__ = ("attempt", "deadline", "is_over", "reader", "timer")

    def __init__(
        self, reader: ConsumerSpec, deadline: int, attempt: Callable[[bool], bool]
    ) -> None:
        """``attempt`` tries to answer, and has to when it is called with True."""
        self.reader = reader
        self.deadline = deadline
        self.attempt = attempt
        self.is_over = False
        self.timer: Timer | None = None


class WaitingReads:
    """All waiting reads of a topic."""

    def __init__(self, timers: Timers, next_event: Callable[[ConsumerSpec], int | None]) -> None:
        self._timers = timers
        self._next_event = next_event
        self._all: list[WaitingRead] = []

    def __len__(self) -> int:
        return len(self._all)

    def add(self, waiter: WaitingRead) -> Callable[[], None]:
        """Wait; returns what ends it without an answer."""
        self._all.append(waiter)
        self._arm(waiter)
        return lambda: self._end(waiter)

    def try_all(self) -> None:
        """There may be something to read."""
        for waiter in tuple(self._all):
            self._try(waiter)

    def end_all(self) -> None:
        """The topic was deleted: all waiting reads are notified."""
        for waiter in tuple(self._all):
            self._end(waiter)
            waiter.attempt(True)

    def _try(self, waiter: WaitingRead) -> None:
        if waiter.is_over:
            return
        must = self._timers.clock.now_ms() >= waiter.deadline
        if waiter.attempt(must):
            self._end(waiter)
        else:
            self._arm(waiter)

    def _arm(self, waiter: WaitingRead) -> None:
        """Look again at the deadline, or when something else may be there to read."""
        if waiter.timer is not None:
            waiter.timer.cancel()
        now = self._timers.clock.now_ms()
        moment = self._next_event(waiter.reader)
        due = waiter.deadline if moment is None else min(waiter.deadline, max(moment, now + 1))
        waiter.timer = self._timers.at(due, lambda: self._try(waiter))

    def _end(self, waiter: WaitingRead) -> None:
        waiter.is_over = True
        if waiter.timer is not None:
            waiter.timer.cancel()
        if waiter in self._all:
            self._all.remove(waiter)
