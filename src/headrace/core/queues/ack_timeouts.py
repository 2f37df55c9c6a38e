"""Time-outs of unacknowledged messages: messages that a consumer keeps too long are requeued.

The channel stays open: one slow message is no reason to requeue the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from headrace.core.clock import Timer, Timers
from headrace.core.queues.consumer import Consumer
from headrace.model.unacked import Lease, SettledRange

_SWEEP = 64  # leases watched before settled ones are looked for


class LeaseOwner(Protocol):
    """A channel that holds unacknowledged messages."""

    def expire(self, lease: Lease[Consumer]) -> list[SettledRange[Consumer]]:
        """End what is left of the lease."""


class AckTimeouts:
    """The leases of one queue, in the order of delivery."""

    __slots__ = ("_expired", "_leases", "_sweep_at", "_timer", "_timers")

    def __init__(
        self, timers: Timers, expired: Callable[[list[SettledRange[Consumer]]], None]
    ) -> None:
        self._timers = timers
        self._expired = expired
        self._leases: deque[tuple[int, LeaseOwner, Lease[Consumer]]] = deque()
        self._sweep_at = _SWEEP
        self._timer: Timer | None = None

    def watch(self, holder: LeaseOwner, lease: Lease[Consumer], timeout_ms: int) -> None:
        """Expire the lease when its time is over."""
        due = self._timers.clock.now_ms() + timeout_ms
        leases = self._leases
        if len(leases) >= self._sweep_at:
            # Settled leases would hold their contents until the time-out.
            leases = self._leases = deque(one for one in leases if one[2].live)
            self._sweep_at = 2 * len(leases) + _SWEEP
        leases.append((due, holder, lease))
        if self._timer is None or self._timer.callback is None:
            self._timer = self._timers.at(due, self._due)

    def _due(self) -> None:
        now = self._timers.clock.now_ms()
        leases = self._leases
        while leases and (leases[0][0] <= now or not leases[0][2].live):
            _, holder, lease = leases.popleft()
            if lease.live:
                self._expired(holder.expire(lease))
        if leases:
            self._timer = self._timers.at(leases[0][0], self._due)

    def close(self) -> None:
        self._expired = lambda parts: None  # or the queue would be a cycle, left to the collector
        self._leases.clear()
        if self._timer is not None:
            self._timer.cancel()
