"""AMQP transactions: publishes and settlements held back until commit."""

from __future__ import annotations

from collections.abc import Callable


class Transaction:
    """Steps of one channel, in order. Settlements are checked when made, carried out at commit."""

    __slots__ = ("_steps", "acks", "publishes")

    def __init__(self) -> None:
        self._steps: list[Callable[[], None]] = []
        self.publishes = 0
        self.acks = 0

    def publish(self, step: Callable[[], None]) -> None:
        self.publishes += 1
        self._steps.append(step)

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
        self.publishes = self.acks = 0
