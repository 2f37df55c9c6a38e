"""Waiting on an event loop for what no event announces."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

_LOOK = 0.01


async def until(condition: Callable[[], bool], seconds: float) -> bool:
    """Look again and again; False when it has not become true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        await asyncio.sleep(_LOOK)
    return True
