"""`Health`, counters and latencies of consumers and producers. Safe for any thread."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import StrEnum
from threading import Lock
from typing import Any


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
    """What is wrong at the moment, by subject; each is logged once until it is over."""

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

    def __contains__(self, subject: str) -> bool:
        return subject in self._texts

    def texts(self) -> tuple[str, ...]:
        with self._lock:
            return tuple(self._texts[subject] for subject in sorted(self._texts))


_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 60_000)


class LatencyHistogram:
    """A histogram of milliseconds: cheap to record, good enough for percentiles."""

    def __init__(self) -> None:
        self._counts = [0] * (len(_BUCKETS) + 1)
        self.total = 0.0
        self.highest = 0.0

    def record(self, millis: float) -> None:
        self.total += millis
        self.highest = max(self.highest, millis)
        self._counts[bisect_left(_BUCKETS, millis)] += 1

    @property
    def count(self) -> int:
        return sum(self._counts)

    @property
    def average(self) -> float:
        return self.total / self.count if self.count else 0.0

    def summary(self, name: str) -> dict[str, float]:
        return {
            f"{name}_average": self.average,
            f"{name}_p50": self.percentile(0.5),
            f"{name}_p99": self.percentile(0.99),
            f"{name}_max": self.highest,
        }

    def percentile(self, share: float) -> float:
        """The upper end of the bucket in which the given share (0..1) is reached."""
        wanted, seen = share * self.count, 0
        for place, count in enumerate(self._counts):
            seen += count
            if count and seen >= wanted:
                return min(_BUCKETS[place], self.highest) if place < len(_BUCKETS) else self.highest
        return 0.0


@dataclass(frozen=True, slots=True)
class ConsumerStats:
    """A snapshot of the counters of a consumer."""

    pulls: int = 0
    pull_failures: int = 0
    messages_pulled: int = 0
    bytes_pulled: int = 0
    messages_filtered: int = 0
    flow_controlled: int = 0
    consumed: int = 0
    failed: int = 0
    sent_back: int = 0
    send_back_failures: int = 0
    dead_lettered: int = 0
    timed_out: int = 0
    listener_errors: int = 0
    wrong_results: int = 0
    suspensions: int = 0
    rebalances: int = 0
    queues_gained: int = 0
    queues_lost: int = 0
    lock_failures: int = 0
    offsets_committed: int = 0
    commit_failures: int = 0


class Counters:
    """Counts by name."""

    def __init__(self, names: Iterable[str]) -> None:
        self._lock = Lock()
        self._counts = dict.fromkeys(names, 0)

    def add(self, name: str, count: int = 1) -> None:
        with self._lock:
            self._counts[name] += count


class ConsumerMetrics(Counters):
    """Counters and times of a consumer."""

    def __init__(self) -> None:
        super().__init__(one.name for one in fields(ConsumerStats))
        self._consume_times = LatencyHistogram()
        self._pull_times = LatencyHistogram()
        self.started_at = time.time()

    def pulled(self, millis: float, messages: int, size: int) -> None:
        with self._lock:
            self._counts["pulls"] += 1
            self._counts["messages_pulled"] += messages
            self._counts["bytes_pulled"] += size
            if messages:
                self._pull_times.record(millis)

    def listened(self, millis: float, consumed: int, failed: int) -> None:
        with self._lock:
            self._counts["consumed"] += consumed
            self._counts["failed"] += failed
            self._consume_times.record(millis)

    def snapshot(self) -> ConsumerStats:
        with self._lock:
            return ConsumerStats(**self._counts)

    def to_dict(self) -> dict[str, Any]:
        """Counters, and the times of listeners and pulls in milliseconds."""
        with self._lock:
            return {
                **self._counts,
                **self._consume_times.summary("consume_ms"),
                "pull_ms_average": self._pull_times.average,
                "pull_ms_p99": self._pull_times.percentile(0.99),
                "uptime_seconds": time.time() - self.started_at,
            }


class ProducerMetrics(Counters):
    """Counters and times of a producer."""

    def __init__(self) -> None:
        super().__init__(("sent", "failed", "retries", "one_way", "checks"))
        self._times = LatencyHistogram()

    def sent(self, millis: float, count: int = 1) -> None:
        with self._lock:
            self._counts["sent"] += count
            self._times.record(millis)

    def to_dict(self) -> dict[str, Any]:
        with self._lock:
            return {**self._counts, **self._times.summary("send_ms")}
