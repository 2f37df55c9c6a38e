"""What one channel has been given and has not settled yet. Pure: no I/O, no clock.

Deliveries are kept as batches of consecutive tags, not one by one: an entry per message would cost
more than the message, and `multiple` would have to scan them all.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from headrace.errors import PreconditionFailed
from headrace.model.intervals import Intervals
from headrace.model.message import Run

Owner = TypeVar("Owner")  # who the messages were taken from and are counted against

_TRIM = 64
_OUTSTANDING = bytes([1]) + bytes(255)  # marks of what is settled -> of what is not


class Lease(Generic[Owner]):
    """Tags ``first`` .. ``first + len(run) - 1``, delivered in one go."""

    __slots__ = ("done", "first", "live", "owner", "run", "since", "start")

    def __init__(self, first: int, owner: Owner, run: Run, since: int) -> None:
        self.first = first
        self.owner = owner
        self.run = run
        self.live = len(run.offsets)
        self.start = 0  # everything before it is settled
        self.done: bytearray | None = None  # marks of what is settled out of order
        self.since = since


@dataclass(slots=True, eq=False, repr=False)
class SettledRange(Generic[Owner]):
    """Messages of one lease that were settled by one request: run.contents[start:stop]."""

    owner: Owner
    run: Run
    start: int
    stop: int

    @property
    def count(self) -> int:
        return self.stop - self.start

    @property
    def size(self) -> int:
        """About how many bytes they have."""
        return self.run.size * self.count // len(self.run.offsets)

    def piece(self) -> Run:
        """The messages themselves, for giving them back."""
        if not self.start and self.stop == len(self.run.offsets):
            return self.run
        return self.run.piece(slice(self.start, self.stop))


class Unacked(Generic[Owner]):
    """All unsettled deliveries of a channel, by tag."""

    __slots__ = ("_dead", "_firsts", "_head", "_leases", "count", "expired")

    def __init__(self) -> None:
        self._leases: list[Lease[Owner]] = []
        self._firsts: list[int] = []
        self._head = 0  # leases before it are settled
        self._dead = 0  # settled leases still in the list
        self.count = 0
        self.expired = Intervals()  # tags taken back by a time-out: settling them is no error

    def add(self, first: int, owner: Owner, run: Run, since: int = 0) -> Lease[Owner]:
        """Note a delivery; tags must rise from call to call."""
        lease = Lease(first, owner, run, since)
        self._leases.append(lease)
        self._firsts.append(first)
        self.count += lease.live
        return lease

    def take(self, first: int, last: int) -> tuple[list[SettledRange[Owner]], int | None]:
        """Settle the tags ``first`` .. ``last``; stops at an unknown one and names it."""
        settled: list[SettledRange[Owner]] = []
        unknown: int | None = None
        tag = first
        while tag <= last:
            lease = self._find(tag)
            if lease is None:
                if tag > 0 and tag in self.expired:
                    tag += 1
                    continue
                unknown = tag
                break
            low = tag - lease.first
            high = min(last - lease.first + 1, len(lease.run.offsets))
            if lease.done is not None:
                stop = lease.done.find(1, low, high)
                if stop >= 0:
                    high = stop
            self._settle(lease, low, high)
            settled.append(SettledRange(lease.owner, lease.run, low, high))
            tag = lease.first + high
        self._trim()
        return settled, unknown

    def owner_of(self, tag: int) -> Owner | None:
        """Who was given the tag, while it is outstanding."""
        lease = self._find(tag)
        return None if lease is None else lease.owner

    def knows(self, tag: int) -> bool:
        """Whether the tag is outstanding (or was taken back, so that settling it is no error)."""
        return tag in self.expired or self._find(tag) is not None

    def take_upto(self, tag: int, limit: int = sys.maxsize) -> list[SettledRange[Owner]]:
        """Settle outstanding tags up to ``tag`` (0 = all); of at most ``limit`` leases."""
        if tag and not self.knows(tag):
            raise PreconditionFailed(f"unknown delivery tag {tag}")
        return self.take_oldest(tag or sys.maxsize, limit)

    def take_oldest(self, tag: int, limit: int) -> list[SettledRange[Owner]]:
        """The same; the tag need not be outstanding. One part for each lease."""
        settled: list[SettledRange[Owner]] = []
        for lease in islice(self._leases, self._head, None):
            if lease.first > tag or len(settled) == limit:
                break
            high = min(tag - lease.first + 1, len(lease.run.offsets))
            if lease.live and high > lease.start:
                settled += self._take_live(lease, high)
        self._trim()
        return settled

    def take_between(self, start: int, stop: int) -> list[SettledRange[Owner]]:
        """Settle what is outstanding of the tags start .. stop - 1."""
        settled: list[SettledRange[Owner]] = []
        where = max(bisect_right(self._firsts, start, self._head) - 1, self._head)
        for lease in islice(self._leases, where, None):
            if lease.first >= stop:
                break
            low = max(start - lease.first, lease.start)
            high = min(stop - lease.first, len(lease.run.offsets))
            for part in _outstanding(lease, low, high):
                self._settle(lease, part.start, part.stop)
                settled.append(part)
        self._trim()
        return settled

    def expire(self, lease: Lease[Owner]) -> list[SettledRange[Owner]]:
        """Take back what is left of a lease; settling it later is forgiven."""
        stop = len(lease.run.offsets)
        for part in _outstanding(lease, lease.start, stop):
            self.expired.add(lease.first + part.start, lease.first + part.stop)
        settled = self._take_live(lease, stop) if lease.live else []
        self._trim()
        return settled

    def leases(self) -> Iterator[Lease[Owner]]:
        """Leases with something outstanding, oldest first."""
        return (lease for lease in self._leases[self._head :] if lease.live)

    def _find(self, tag: int) -> Lease[Owner] | None:
        """The lease in which ``tag`` is outstanding."""
        head = self._head
        leases = self._leases
        if head >= len(leases):
            return None
        lease = leases[head]
        index = tag - lease.first
        if not 0 <= index < len(lease.run.offsets):
            where = bisect_right(self._firsts, tag, head) - 1
            if where < head:
                return None
            lease = leases[where]
            index = tag - lease.first
            if index >= len(lease.run.offsets):
                return None
        if index < lease.start or (lease.done is not None and lease.done[index]):
            return None
        return lease

    def _settle(self, lease: Lease[Owner], low: int, high: int) -> None:
        """Mark [low, high), all of which is outstanding."""
        n = high - low
        lease.live -= n
        self.count -= n
        if low == lease.start:
            lease.start = high
        else:
            if lease.done is None:
                lease.done = bytearray(len(lease.run.offsets))
            lease.done[low:high] = b"\x01" * n
        if not lease.live:
            self._dead += 1

    def _take_live(self, lease: Lease[Owner], stop: int) -> list[SettledRange[Owner]]:
        """All that is outstanding before ``stop``, as one part or none."""
        owner, run, start, done = lease.owner, lease.run, lease.start, lease.done
        lease.start = stop
        if done is None or done.find(1, start, stop) < 0:
            part = SettledRange(owner, run, start, stop)
        else:
            mask = bytes(done[start:stop]).translate(_OUTSTANDING)
            part = SettledRange(owner, run.pick(start, mask), 0, mask.count(1))
        taken = part.count
        lease.live -= taken
        self.count -= taken
        if not lease.live:
            self._dead += 1
        return [part] if taken else []

    def _trim(self) -> None:
        """Drop settled leases: all at the head, and those behind a stuck one now and then."""
        leases = self._leases
        head = self._head
        n = len(leases)
        while head < n and not leases[head].live:
            head += 1
        self._head = head
        if head == n:
            leases.clear()
            self._firsts.clear()
            self._head = self._dead = 0
        elif self._dead > _TRIM and self._dead * 2 > n:
            self._leases = [lease for lease in leases if lease.live]
            self._firsts = [lease.first for lease in self._leases]
            self._head = self._dead = 0


def _outstanding(lease: Lease[Owner], low: int, high: int) -> list[SettledRange[Owner]]:
    """What is not settled of [low, high), which must not begin before ``lease.start``."""
    parts: list[SettledRange[Owner]] = []
    done = lease.done
    while low < high:
        stop = high
        if done is not None:
            low = done.find(0, low, high)
            if low < 0:
                break
            stop = done.find(1, low, high)
            if stop < 0:
                stop = high
        parts.append(SettledRange(lease.owner, lease.run, low, stop))
        low = stop
    return parts
