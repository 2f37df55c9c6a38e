"""A `call_soon` for tests of writer threads: callbacks wait here until they are run."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable

from headrace.store.api import Metadata


class Handover:
    """Takes callbacks from any thread; runs them on the thread of the test."""

    def __init__(self) -> None:
        self.commits: list[int] = []
        self.failures: list[Exception] = []
        self._waiting: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def start(self, store: Metadata) -> None:
        store.start(self._waiting.put, self.commits.append, self.failures.append)

    def run(self) -> None:
        """Run what has been handed over."""
        while not self._waiting.empty():
            self._waiting.get()()

    def run_until(self, condition: Callable[[], bool], timeout: float = 10) -> None:
        """Run callbacks until the condition holds."""
        deadline = time.monotonic() + timeout
        while not condition():
            try:
                self._waiting.get(timeout=max(0, deadline - time.monotonic()))()
            except queue.Empty:
                raise AssertionError(f"nothing more was handed over in {timeout} s") from None

    def wait_for_commit(self, ticket: int) -> None:
        self.run_until(lambda: bool(self.commits) and self.commits[-1] >= ticket)

    def wait_for_failure(self) -> Exception:
        self.run_until(lambda: bool(self.failures))
        return self.failures[0]
