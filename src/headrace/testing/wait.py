"""Patience of tests: poll a condition up to a limit instead of sleeping and hoping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_for(
    condition: Callable[[], T],
    timeout: float = 5,
    interval: float = 0.01,
    message: str | None = None,
) -> T:
    """The first true value of ``condition()``.

    It is called at least twice, however short the time. AssertionError after ``timeout`` seconds,
    with the message (or the condition's name) and the last value. What it raises is passed on.
    """
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        if time.monotonic() >= deadline:
            # The machine may have been busy elsewhere between the look and the deadline.
            if value := condition():
                return value
            what = message or getattr(condition, "__name__", repr(condition))
            raise AssertionError(f"{what}: still {value!r} after {timeout:g} s")
        time.sleep(interval)
    return value
