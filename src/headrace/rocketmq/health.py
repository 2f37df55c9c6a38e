"""The state of a producer or consumer, for people and for watchdogs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum
from threading import Lock


class State(StrEnum):
    CREATED = "CREATED"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    FORKED = "FORKED"


@dataclass(frozen=True, slots=True)
class Health:
    """One look. `ok` is False when something keeps it from working, and `problems` says what."""

    state: State
    ok: bool
    problems: tuple[str, ...] = ()
    queues: int = 0
    last_heartbeat: float = 0.0
    """Seconds since 1970 of the last heartbeat that a broker has answered; 0 = none yet."""


class HealthProblems:
    """What is wrong at the moment, by subject; each is told once until it is over."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._texts: dict[str, str] = {}
        self.last_heartbeat = 0.0

    def set(self, subject: str, text: str) -> bool:
        """True when it is new."""
        with self._lock:
            new = subject not in self._texts
            self._texts[subject] = text
            return new

    def clear(self, subject: str) -> bool:
        """True when there was something."""
        if subject not in self._texts:
            return False  # asked after every message
        with self._lock:
            return self._texts.pop(subject, None) is not None

    def texts(self) -> tuple[str, ...]:
        with self._lock:
            return tuple(self._texts[subject] for subject in sorted(self._texts))

    def heartbeat_answered(self) -> None:
        self.last_heartbeat = time.time()
