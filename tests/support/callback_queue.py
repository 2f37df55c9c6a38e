"""A `call_soon` for tests of writer threads: callbacks wait here until they are run."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable

from headrace.store.api.metadata import Metadata


class Handover:
    """Takes callbacks from any thread; runs them on the thread of the test."""

    def __init__(self) -> None:
        self.commits: list[int] = []
        self.failures: list[Exception] = []
        self.alarms: list[bool] = []
        self._waiting: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def start(self, store: Metadata) -> None:
        store.start(
            self._waiting.put, self.commits.append, self.failures.append, self.alarms.append
        )

    def run(self) -> None:
        """Run what has been handed over."""
        while not self._waiting.empty():
            self._waiting.get()()

    def run_until(
        self, condition: Callable[[], bool], timeout: float = 10, *, idle: bool = False
    ) -> None:
        """Run callbacks until the condition holds; ``idle``: also without any."""
        deadline = time.monotonic() + timeout
        while not condition():
            try:
                left = max(0, deadline - time.monotonic())
                self._waiting.get(timeout=min(left, 0.01) if idle else left)()
            except queue.Empty:
                if not idle or time.monotonic() > deadline:
                    raise AssertionError(f"nothing more was handed over in {timeout} s") from None

    def wait_for_commit(self, ticket: int) -> None:
        self.run_until(lambda: bool(self.commits) and self.commits[-1] >= ticket)

    def wait_for_failure(self) -> Exception:
        self.run_until(lambda: bool(self.failures))
        return self.failures[0]
