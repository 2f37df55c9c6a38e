"""Requests that wait for their answers, without any I/O.

Single operations on a dict are atomic, so threads may add while the reading thread takes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

from headrace.rocketmq.errors import RequestTimeoutError, RocketMQError
from headrace.wire.remoting.command import Command

Done = Callable[[Command | RocketMQError], None]
_INT31 = 0x7FFFFFFF


class PendingRequest(NamedTuple):
    """A request under way."""

    done: Done
    deadline: float
    what: str


class PendingRequests:
    """Numbers requests and finds who waits for an answer."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._numbers = itertools.count(1)
        self._pending: dict[int, PendingRequest] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def next_number(self) -> int:
        return next(self._numbers) & _INT31

    def add(self, number: int, pending: PendingRequest) -> None:
        self._pending[number] = pending

    def drop(self, number: int) -> bool:
        """False when it was answered meanwhile."""
        return self._pending.pop(number, None) is not None

    def answered(self, answer: Command) -> bool:
        """Deliver a response; False when no caller waits for it any more."""
        pending = self._pending.pop(answer.opaque, None)
        if pending is None:
            return False
        pending.done(answer)
        return True

    def expire(self, now: float) -> None:
        """Fail what has waited for too long."""
        late = [number for number, one in list(self._pending.items()) if one.deadline <= now]
        for number in late:
            pending = self._pending.pop(number, None)
            if pending is not None:
                pending.done(timed_out(pending.what, self._address))

    def fail_all(self, error: RocketMQError) -> None:
        while self._pending:
            try:
                _, pending = self._pending.popitem()
            except KeyError:
                return
            pending.done(error)


def timed_out(what: str, address: str) -> RequestTimeoutError:
    return RequestTimeoutError(
        f"{address} did not answer {what} in time; whether it was done is not known"
    )
