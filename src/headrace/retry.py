"""`RetryPolicy`: attempts, growing pauses, a deadline. The hot path has no retries."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long a call is repeated. Without limits it is repeated until it works."""

    attempts: int | None = None
    deadline_s: float | None = None
    first_pause_s: float = 0.002
    max_pause_s: float = 5.0
    jitter: float = 0.5  # the part of each pause that is random, 0 to 1

    def pauses(self) -> Iterator[float]:
        """Seconds before the second attempt, the third and so on; doubled each time."""
        end = None if self.deadline_s is None else time.monotonic() + self.deadline_s
        pause, done = self.first_pause_s, 1
        while self.attempts is None or done < self.attempts:
            chosen = pause * (1 - self.jitter * random.random())
            if end is not None and time.monotonic() + chosen > end:
                return
            yield chosen
            pause, done = min(pause * 2, self.max_pause_s), done + 1

    def run(
        self,
        work: Callable[[], T],
        is_retryable: Callable[[Exception], bool],
        sleep: Callable[[float], object] = time.sleep,
    ) -> T:
        """The result of ``work``; its last error when it may not be repeated any more."""
        pauses = self.pauses()
        while True:
            try:
                return work()
            except Exception as error:
                pause = next(pauses, None) if is_retryable(error) else None
                if pause is None:
                    raise
            sleep(pause)
