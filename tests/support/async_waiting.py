"""Patience of asynchronous tests: what waiting.wait_for is to the blocking ones."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
LIMIT = 15.0
_STEP = 0.01


async def eventually(condition: Callable[[], Awaitable[T]], limit: float = LIMIT) -> T:
    """Await ``condition`` until it is true and return its value; fail after ``limit``."""
    deadline = time.monotonic() + limit
    while not (value := await condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"still {value!r} after {limit} s")
        await asyncio.sleep(_STEP)
    return value


def run(coroutine: Coroutine[Any, Any, T], limit: float = LIMIT) -> T:
    """Run one asynchronous test, bounded."""

    async def bounded() -> T:
        return await asyncio.wait_for(coroutine, limit)

    return asyncio.run(bounded())
