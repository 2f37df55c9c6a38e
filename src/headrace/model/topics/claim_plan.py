"""What the next claim of a group is made of. Pure.

A claim consists of ranges of ids. In each priority expired ranges come first, then messages due for
retry, then new ones; those that a member had claimed ahead are new.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from headrace.model.topics.message_priority import BY_URGENCY, Priority, shares


@dataclass(frozen=True, slots=True)
class ExpiredRange:
    """A range whose lease is over; without attempts it was claimed ahead and not handed out."""

    id: int
    start: int
    end: int
    attempts: int
    epoch: int = 0

    def __len__(self) -> int:
        return self.end - self.start + 1


@dataclass(frozen=True, slots=True)
class DueRetry:
    """A message to be tried again."""

    id: int
    attempts: int


@dataclass(frozen=True, slots=True)
class ClaimableWork:
    """What a priority has for a group: everything up to ``head`` was handed out before."""

    head: int
    stable: int
    expired: Sequence[ExpiredRange] = ()
    due: Sequence[DueRetry] = ()

    @property
    def waiting(self) -> int:
        fresh = max(0, self.stable - self.head)
        return sum(len(held) for held in self.expired) + len(self.due) + fresh


@dataclass(frozen=True, slots=True)
class ClaimRange:
    """Ids of one priority that are handed out together, for the ``attempts``-th time."""

    priority: Priority
    start: int
    end: int
    attempts: int
    held: ExpiredRange | None = None
    """The range it takes over, in whole or from its beginning."""
    is_fresh: bool = False

    def __len__(self) -> int:
        return self.end - self.start + 1


def plan(work: Mapping[Priority, ClaimableWork], room: int, min_share: int = 0) -> list[ClaimRange]:
    """The ranges that fill ``room``: high, then middle, then low, within their shares.

    Together they have exactly ``room`` ids when there are that many.
    """
    taken = shares({priority: one.waiting for priority, one in work.items()}, room, min_share)
    return [
        piece
        for priority in BY_URGENCY
        for piece in _fill(priority, work.get(priority), taken[priority])
    ]


def _fill(priority: Priority, work: ClaimableWork | None, room: int) -> Iterator[ClaimRange]:
    if work is None:
        return
    for piece in _again(priority, [one for one in work.expired if one.attempts], room):
        yield piece
        room -= len(piece)
    due = work.due[: max(0, room)]
    for start, end, attempts in runs((one.id, one.attempts) for one in due):
        yield ClaimRange(priority, start, end, attempts + 1)
    room -= len(due)
    for piece in _again(priority, [one for one in work.expired if not one.attempts], room):
        yield piece
        room -= len(piece)
    end = min(work.stable, work.head + room)
    if room > 0 and end > work.head:
        yield ClaimRange(priority, work.head + 1, end, 1, is_fresh=True)


def _again(priority: Priority, ranges: Sequence[ExpiredRange], room: int) -> Iterator[ClaimRange]:
    for held in ranges:
        if room <= 0:
            return
        end = min(held.end, held.start + room - 1)
        yield ClaimRange(priority, held.start, end, held.attempts + 1, held)
        room -= end - held.start + 1


def runs(numbered: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Neighbouring ids with the same mark, as (first, last, mark)."""
    # Of neighbours with the same mark the id rises as the place does.
    places = enumerate(sorted(numbered))
    for (_, mark), group in groupby(places, key=lambda one: (one[1][0] - one[0], one[1][1])):
        ids = [number for _, (number, _) in group]
        yield ids[0], ids[-1], mark
