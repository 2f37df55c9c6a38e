"""Brokers that were away. For a moment one of them knows only the members that were quick to come
back: whoever believed its list would take queues that the others still consume."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

SETTLED_S: Final = 3.0
_AGAIN_S: Final = 30.0  # one that comes and goes does not keep everybody waiting for ever


class RestartedBrokers:
    """When brokers have come back. Only in the loop's thread."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._known: set[str] = set()
        self._at: dict[str, float] = {}

    def greeted(self, address: str) -> None:
        """A new connection to a broker; the first one is no return."""
        now = self._now()
        if address in self._known and now - self._at.get(address, now - _AGAIN_S) >= _AGAIN_S:
            self._at[address] = now
        self._known.add(address)

    def is_recent(self, addresses: Iterable[str]) -> bool:
        """Whether one of them may not know everybody yet."""
        now = self._now()
        return any(now - self._at.get(one, now - SETTLED_S) < SETTLED_S for one in addresses)
