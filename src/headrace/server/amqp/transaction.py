"""AMQP transactions: publishes and settlements held back until commit."""

from __future__ import annotations

from collections.abc import Callable

from headrace.model.intervals import Intervals


class Transaction:
    """Steps of one channel, in order. Settlements are checked when made, carried out at commit."""

    __slots__ = ("_steps", "acks", "claimed", "publishes")

    def __init__(self) -> None:
        self._steps: list[Callable[[], None]] = []
        self.claimed = Intervals()  # delivery tags that are settled as far as the client may know
        self.publishes = 0
        self.acks = 0

    def publish(self, step: Callable[[], None]) -> None:
        self.publishes += 1
        self._steps.append(step)

    def claim(self, first: int, last: int) -> list[tuple[int, int]]:
        """Keep what is free of the tags first .. last for one settlement; stops are exclusive."""
        free = list(self.claimed.missing(first, last + 1))
        self.claimed.add(first, last + 1)
        return free

    def settle(self, step: Callable[[], None]) -> None:
        self.acks += 1
        self._steps.append(step)

    def commit(self) -> None:
        steps = self._steps
        self.rollback()
        for step in steps:
            step()

    def rollback(self) -> None:
        self._steps = []
        self.claimed = Intervals()
        self.publishes = self.acks = 0
