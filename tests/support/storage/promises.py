"""What was sent, what was promised, and whether a log found again keeps the promises."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from headrace.store.api.message_log import DurabilityLevel
from headrace.store.log.commit_log import CommitLog

Place = tuple[int, int]  # queue, offset


@dataclass(slots=True, eq=False)
class Copy:
    """One message in one queue, and in the queues it was moved to: it is in one of them."""

    content: bytes
    level: DurabilityLevel
    places: list[Place]
    positions: list[int]  # in the log: to wait for, place by place
    known: int = -1  # the latest place that is known to be on the disk
    settled: bool = False
    settled_safely: bool = False


class Broken(AssertionError):
    """A promise was not kept."""


@dataclass(slots=True)
class Ledger:
    """Every copy that may still be found."""

    copies: list[Copy] = field(default_factory=list)
    sent: int = 0
    _settling: list[Copy] = field(default_factory=list)  # not handed to the writer yet
    _handed: list[list[Copy]] = field(default_factory=list)  # job by job
    _written: list[Copy] = field(default_factory=list)  # written, but not synced

    def add(self, content: bytes, level: DurabilityLevel, place: Place, position: int) -> None:
        self.copies.append(Copy(content, level, [place], [position]))

    def moved(self, copy: Copy, place: Place, position: int) -> None:
        copy.places.append(place)
        copy.positions.append(position)

    def settle(self, copies: Iterable[Copy]) -> None:
        for copy in copies:
            copy.settled = True
            self._settling.append(copy)

    def live(self, queue: int) -> list[Copy]:
        return [one for one in self.copies if one.places[-1][0] == queue and not one.settled]

    # -- what becomes known ----------------------------------------------------------------------

    def submitted(self) -> None:
        self._handed.append(self._settling)
        self._settling = []

    def written(self, *, synced: bool) -> None:
        """A job is done. A sync is one of everything written before it."""
        self._written += self._handed.pop(0)
        if synced:
            for copy in self._written:
                copy.settled_safely = True
            self._written = []

    def durable(self, position: int) -> None:
        for copy in self.copies:
            if copy.level >= DurabilityLevel.FSYNC:
                while copy.known + 1 < len(copy.places) and (
                    copy.positions[copy.known + 1] <= position
                ):
                    copy.known += 1

    # -- the judgement ---------------------------------------------------------------------------

    def check(self, found: dict[Place, bytes]) -> None:
        """Raises Broken unless everything promised is found and nothing else."""
        left = dict(found)
        for copy in self.copies:
            self._check_copy(copy, left)
        if left:
            place, content = next(iter(left.items()))
            raise Broken(f"GHOST: {content[:24]!r} at {place} was never there, or is gone")

    def _check_copy(self, copy: Copy, left: dict[Place, bytes]) -> None:
        name = copy.content[:24]
        here = [place for place in copy.places if left.get(place) == copy.content]
        for place in here:
            del left[place]
        if len(here) > 1:
            raise Broken(f"DOUBLED: {name!r} is at {here}")
        if here and copy.settled_safely:
            raise Broken(f"RETURNED: {name!r} was settled and synced, and is at {here[0]}")
        if here and copy.places.index(here[0]) < copy.known:
            raise Broken(f"RETURNED: {name!r} was moved on from {here[0]}")
        if not here and copy.known >= 0 and not copy.settled:
            raise Broken(f"LOST: {name!r}, confirmed at {copy.places[copy.known]}")

    def begin_again(self, found: dict[Place, bytes]) -> None:
        """What a recovery found is the truth from then on."""
        kept = []
        for copy in self.copies:
            for place in copy.places:
                if found.get(place) == copy.content:
                    known = 0 if copy.level >= DurabilityLevel.FSYNC else -1
                    kept.append(Copy(copy.content, copy.level, [place], [0], known))
        self.copies = kept
        self._settling, self._handed, self._written = [], [], []


def found_in(log: CommitLog, queues: Iterable[int]) -> dict[Place, bytes]:
    """Everything that the log would deliver; also a check of the order."""
    found: dict[Place, bytes] = {}
    for queue in queues:
        start, stop, last = 0, log.reads.next_offset(queue), -1
        while start < stop:
            stored, start = log.reads.read(queue, start, stop, max_bytes=2000)
            for one in stored:
                for offset, content in zip(one.offsets, one.contents, strict=True):
                    if (queue, offset) in found:
                        raise Broken(f"DOUBLED: {content[:24]!r} at {(queue, offset)}")
                    found[queue, offset] = content
            offsets = sorted(offset for one in stored for offset in one.offsets)
            if offsets and offsets[0] <= last:
                raise Broken(f"DISORDER: {offsets[0]} of queue {queue} comes after {last}")
            last = offsets[-1] if offsets else last
    return found
