"""How much happened in the last minute, hour and day. No I/O; minutes are given."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

PUT, PUT_BYTES = "TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE"  # by topic
GOT, GOT_BYTES = "GROUP_GET_NUMS", "GROUP_GET_SIZE"  # by topic@group
BACK = "SNDBCK_PUT_NUMS"  # by topic@group
HOUR, DAY = 60, 1440  # minutes
MAX_KEYS = 10_000  # of all kinds together; more are not counted


class RateSums(NamedTuple):
    """Of the last full minute, and of the hour and the day up to now."""

    minute: int
    hour: int
    day: int


class RateCounters:
    """Counts by kind and key; minutes without any cost nothing."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], deque[list[int]]] = {}

    def add(self, kind: str, key: str, amount: int, minute: int) -> None:
        counts = self._counts.get((kind, key))
        if counts is None:
            if len(self._counts) >= MAX_KEYS:
                return
            counts = self._counts[kind, key] = deque(maxlen=DAY)
        if counts and counts[-1][0] == minute:
            counts[-1][1] += amount
        else:
            counts.append([minute, amount])

    def rates(self, kind: str, minute: int) -> tuple[float, float]:
        """Per second, of everything of a kind: the last full minute, the last ten."""
        one = ten = 0
        for (which, _), counts in self._counts.items():
            if which == kind:
                recent = [(minute - at, amount) for at, amount in counts]
                one += sum(amount for age, amount in recent if age == 1)
                ten += sum(amount for age, amount in recent if 1 <= age <= 10)
        return one / 60, ten / 600

    def sums(self, kind: str, key: str, minute: int) -> RateSums | None:
        """None when nothing was ever counted under this name."""
        counts = self._counts.get((kind, key))
        if counts is None:
            return None
        recent = [(minute - at, amount) for at, amount in counts]
        return RateSums(
            sum(amount for age, amount in recent if age == 1),
            sum(amount for age, amount in recent if age < HOUR),
            sum(amount for age, amount in recent if age < DAY),
        )
