"""Waiting for messages: an engine that can wait does; others are asked again and again.

Producers of the same store wake consumers at once; what other processes append is found within a
fifth of a second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol, runtime_checkable

from headrace.store.topics.engine import ConsumerSpec, Taken

_FIRST_S: Final = 0.005
_LAST_S: Final = 0.2


@runtime_checkable
class WaitingEngine(Protocol):
    """An engine whose reads wait by themselves."""

    def read_waiting(
        self, topic: str, reader: ConsumerSpec, batch: int, wait_s: float
    ) -> Taken: ...


@runtime_checkable
class CommitReadEngine(Protocol):
    """An engine that does both in one step."""

    def commit_and_read(
        self, topic: str, reader: ConsumerSpec, claim: Sequence[object], batch: int
    ) -> Taken: ...


class AppendSignal:
    """Rung when something was appended to a topic by this process."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._rings: dict[str, int] = {}

    def ring(self, topic: str) -> None:
        with self._changed:
            self._rings[topic] = self._rings.get(topic, 0) + 1
            self._changed.notify_all()

    def heard(self, topic: str) -> int:
        with self._changed:
            return self._rings.get(topic, 0)

    def wait(self, topic: str, heard: int, timeout: float) -> bool:
        """Until it rings again."""
        with self._changed:
            return self._changed.wait_for(lambda: self._rings.get(topic, 0) != heard, timeout)


def poll(read: Callable[[], Taken], bell: AppendSignal, topic: str, wait_s: float) -> Taken:
    """Read until there is something, or the time is over."""
    deadline = time.monotonic() + wait_s
    pause = _FIRST_S
    while True:
        heard = bell.heard(topic)
        taken = read()
        left = deadline - time.monotonic()
        if taken.messages or left <= 0:
            return taken
        rang = bell.wait(topic, heard, min(pause, left))
        pause = _FIRST_S if rang else min(pause * 2, _LAST_S)
