"""Waiting in tests: poll a condition with a limit, never sleep and hope."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_for(condition: Callable[[], T], timeout: float = 5, interval: float = 0.005) -> T:
    """The first true value of `condition()`; AssertionError with the last one after `timeout`."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        if time.monotonic() > deadline:
            name = getattr(condition, "__name__", repr(condition))
            raise AssertionError(f"{name} was still {value!r} after {timeout} s")
        time.sleep(interval)
    return value
