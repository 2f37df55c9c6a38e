"""Messages a group has nacked: delivered again after a delay, or dead. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, replace

from headrace.model.topics.message_priority import Priority
from headrace.model.topics.partitions import Partition

Place = tuple[Partition, int]  # a partition and an offset


@dataclass(frozen=True, slots=True)
class Retry:
    """A message that was handed out ``attempts`` times without success."""

    attempts: int
    due: int  # on the clock that callers pass as ``now``; of a dead one: when it was given up
    dead: bool = False
    reason: str = ""


class GroupRetries:
    """Of one group. A message is waiting, handed out (held), or dead."""

    def __init__(self) -> None:
        self._all: dict[Place, Retry] = {}
        self._held: set[Place] = set()
        # Of waiting ones; may hold stale items.
        self._heaps: dict[Priority, list[tuple[int, Place]]] = {}

    def put(self, place: Place, retry: Retry) -> None:
        """Add, or change what is known of the message; it is not handed out any more."""
        self._all[place] = retry
        self._held.discard(place)
        if not retry.dead:
            heap = self._heaps.setdefault(place[0][0], [])
            heapq.heappush(heap, (retry.due, place))

    def hold(self, place: Place) -> Retry:
        """The message is handed out once more."""
        known = self._all[place]
        self._all[place] = replace(known, attempts=known.attempts + 1)
        self._held.add(place)
        return self._all[place]

    def give_back(self, place: Place, now: int) -> None:
        """Its claim expired: it is due at once."""
        if place in self._held:
            self.put(place, replace(self._all[place], due=now))

    def finish(self, place: Place) -> bool:
        """It was done in the end; False when it is not known."""
        self._held.discard(place)
        return self._all.pop(place, None) is not None

    def get(self, place: Place) -> Retry | None:
        return self._all.get(place)

    def due(self, priority: Priority, now: int, limit: int) -> list[Place]:
        """Those whose delay is over, the longest waiting first, ``limit`` of them at most: there
        may be a hundred thousand."""
        heap = self._heaps.get(priority, [])
        found: list[tuple[int, Place]] = []
        while heap and heap[0][0] <= now and len(found) < limit:
            item = heapq.heappop(heap)
            if self._is_waiting(*item) and (not found or found[-1] != item):
                found.append(item)
        for item in found:
            heapq.heappush(heap, item)
        return [place for _, place in found]

    def next_due(self) -> int | None:
        """When the first of the waiting ones is due."""
        moments = []
        for heap in self._heaps.values():
            while heap and not self._is_waiting(*heap[0]):
                heapq.heappop(heap)
            if heap:
                moments.append(heap[0][0])
        return min(moments, default=None)

    def _is_waiting(self, due: int, place: Place) -> bool:
        known = self._all.get(place)
        return known is not None and known.due == due and not known.dead and place not in self._held

    def forget(self, *, priorities: frozenset[Priority]) -> list[Place]:
        """Drop what waits for a retry in these priorities, not the dead; returns it."""
        gone = [p for p, one in self._all.items() if p[0].priority in priorities and not one.dead]
        for place in gone:
            self.finish(place)
        return gone

    def items(self) -> Iterator[tuple[Place, Retry]]:
        return iter(self._all.items())

    def counts(self, priority: Priority) -> tuple[int, int]:
        """How many are to be tried again, handed out ones included, and how many are dead."""
        retrying = dead = 0
        for (partition, _), one in self._all.items():
            if partition.priority == priority:
                dead += one.dead
                retrying += not one.dead
        return retrying, dead

    def oldest(self, priority: Priority) -> Place | None:
        """The first of those not dead."""
        return min(
            (p for p, one in self._all.items() if p[0][0] == priority and not one.dead),
            default=None,
        )
