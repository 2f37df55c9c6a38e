"""Pulls that wait for messages. They cost no thread, and no timer each: one sweep ends them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from headrace.core.clock import Timers

SWEEP_MS = 500
MAX_HELD = 10_000  # of one connection; more are answered at once


class PullRequest(NamedTuple):
    """One pull. ``attempt`` answers it when it can, and has to when it is called with True."""

    session: object
    deadline: int
    attempt: Callable[[bool], bool]


class LongPolls:
    """All held pulls, by topic."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._held: dict[str, list[PullRequest]] = {}
        self._per_session: Counter[object] = Counter()
        self._sweeping = False

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))

    def has_room(self, session: object) -> bool:
        return self._per_session[session] < MAX_HELD

    def hold(self, topic: str, held: PullRequest) -> None:
        self._held.setdefault(topic, []).append(held)
        self._per_session[held.session] += 1
        if not self._sweeping:
            self._sweeping = True
            self._timers.after(SWEEP_MS, self._sweep)

    def try_topic(self, topic: str) -> None:
        """There may be something to read in the topic."""
        if topic in self._held:
            now = self._timers.clock.now_ms()
            self._keep(topic, [one for one in self._held[topic] if not self._done(one, now)])

    def drop(self, session: object) -> None:
        """The connection is closed: drop its pulls."""
        if self._per_session.pop(session, 0):
            for topic, held in list(self._held.items()):
                self._keep(topic, [one for one in held if one.session is not session])

    def _sweep(self) -> None:
        now = self._timers.clock.now_ms()
        for topic, held in list(self._held.items()):
            if any(one.deadline < now for one in held):
                kept = [one for one in held if one.deadline >= now or not self._done(one, now)]
                self._keep(topic, kept)
        self._sweeping = bool(self._held)
        if self._sweeping:
            self._timers.after(SWEEP_MS, self._sweep)

    def _done(self, held: PullRequest, now: int) -> bool:
        if not held.attempt(held.deadline < now):
            return False
        self._per_session[held.session] -= 1
        if self._per_session[held.session] <= 0:  # it may have been dropped meanwhile
            del self._per_session[held.session]
        return True

    def _keep(self, topic: str, held: list[PullRequest]) -> None:
        if held:
            self._held[topic] = held
        else:
            self._held.pop(topic, None)
