"""Epochs of a log: each restore of a backup, and each recovery that lost something, begins one.

An offset says which message it means only together with the epoch in which it was seen: after a
restore the same offsets are given again. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

Epochs = Sequence[tuple[int, int]]  # (number, first offset) in order; before them was epoch 0
MAX_EPOCHS: Final = 32  # of one destination


def current_epoch(epochs: Epochs) -> int:
    return epochs[-1][0] if epochs else 0


def end_of_epoch(epochs: Epochs, number: int) -> int | None:
    """Behind the last offset that means the same message to a reader from that epoch; None when the
    epoch has not ended.

    A number that is not known is of another copy of this log, or was merged with others: what
    is certain to be the same ends where the first epoch known here begins.
    """
    numbers = [0, *(known for known, _ in epochs)]
    if number not in numbers:
        return epochs[0][1] if epochs else 0
    place = numbers.index(number)
    return epochs[place][1] if place < len(epochs) else None


def with_epoch(epochs: Epochs, number: int, first: int) -> list[tuple[int, int]]:
    """Begin another. Of too many the two oldest become one, from where the older began."""
    found = [*epochs, (number, first)]
    if len(found) > MAX_EPOCHS:
        found[:2] = [(found[1][0], found[0][1])]
    return found
