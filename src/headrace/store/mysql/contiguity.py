"""Ids of a lane that are missing. Pure.

Ids are given before their rows can be seen, and rows become visible in any order. A missing id is
either on its way or will never come; until that is known, nothing behind it may be read.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hole:
    """The ids from ``first`` to ``last`` are missing; ``last + 1`` is there."""

    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first + 1


def fence(hole: Hole, limit: int) -> range:
    """The ids to take away from producers that will never use them, from the lowest on."""
    return range(hole.first, min(hole.last, hole.first + limit - 1) + 1)
