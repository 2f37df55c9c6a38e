"""Slow hashes off the event loop: few threads, a short queue, and a share per address.

Who comes when the queue is full is refused at once. Nothing piles up, and one address cannot take
all places.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from headrace.errors import LoginLocked

T = TypeVar("T")

THREADS = 2
MAX_WAITING = 32  # a wait of about five seconds, half of what a handshake may take
PER_ADDRESS = 16
NICE = 5


class LoginPool:
    """Runs slow functions; the number of those under way is bounded."""

    def __init__(
        self,
        threads: int = THREADS,
        max_waiting: int = MAX_WAITING,
        per_address: int = PER_ADDRESS,
    ) -> None:
        self._executor = ThreadPoolExecutor(
            threads, thread_name_prefix="headrace-login", initializer=_step_back
        )
        self._places = threads + max_waiting
        self._per_address = per_address
        self._addresses: Counter[str] = Counter()
        self.busy = 0

    async def run(self, address: str, work: Callable[[], T]) -> T:
        """The result of ``work``; LoginLocked when there is no place."""
        if self.busy >= self._places or self._addresses[address] >= self._per_address:
            raise LoginLocked(f"too many logins at once, the one from {address} is not checked")
        self.busy += 1
        self._addresses[address] += 1
        # The place is taken until the thread is free again, not until somebody stops waiting.
        job = asyncio.get_running_loop().run_in_executor(self._executor, work)
        job.add_done_callback(lambda _: self._free(address))
        return await asyncio.shield(job)

    def _free(self, address: str) -> None:
        self.busy -= 1
        self._addresses[address] -= 1
        if self._addresses[address] <= 0:
            del self._addresses[address]

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)


def _step_back() -> None:
    """Let the event loop go first where there are not enough cores for all (a thread's own nice
    value is Linux's; elsewhere it would be the whole process's)."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
