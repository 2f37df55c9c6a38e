"""What one round of archiving takes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from headrace.bulk.client import Destination, Part
from headrace.spark.errors import DataLost
from headrace.spark.task_plan import PlannedPartition, admit, cut

ROWS_PER_ROUND = 2_000_000
ROWS_PER_TASK = 250_000


@dataclass(frozen=True, slots=True)
class ArchiveTask:
    """What one task archives. ``checked``: nothing of it may be missing."""

    kind: str
    source: str
    uuid: str
    partition: int
    start: int
    end: int
    checked: bool


@dataclass(frozen=True, slots=True)
class ArchivePosition:
    """How far one partition is archived; new ones begin with the first message there is."""

    destination: Destination
    part: Part
    known: int | None

    @property
    def start(self) -> int:
        return self.part.first if self.known is None else self.known


def places(
    sources: Sequence[Destination], known: Callable[[str, int], int | None], skip_lost: bool
) -> list[ArchivePosition]:
    """Of all partitions; DataLost when messages that were to be archived are gone."""
    found = []
    for one in sources:
        for part in one.parts:
            at = known(one.uuid, part.partition)
            gone = min(part.complete, part.end)
            if at is not None and at < gone and not skip_lost:
                raise DataLost(
                    f"{one.kind} '{one.name}' partition {part.partition}: messages from offset "
                    f"{at} to {gone - 1} are gone before they were archived, at least some: more "
                    "had to be held than the pin allows (--pin-bytes). --skip-lost goes on with "
                    "those that are left"
                )
            found.append(ArchivePosition(one, part, at))
    return found


def plan(
    found: Sequence[ArchivePosition], limit: int = ROWS_PER_ROUND
) -> tuple[list[ArchiveTask], list[ArchivePosition]]:
    """The stretches of a round, and the places as they are when it is done."""
    by_key = {(one.destination.uuid, one.part.partition): one for one in found}
    tracks = [
        PlannedPartition(uuid, partition, one.part.lane, min(one.start, one.part.end), one.part.end)
        for (uuid, partition), one in by_key.items()
    ]
    ends = admit(tracks, limit)
    stretches, after = [], []
    for key, one in by_key.items():
        end = max(ends[key], one.start)
        stretches += list(_stretches(one, end))
        after.append(ArchivePosition(one.destination, one.part, end))
    return stretches, after


def _stretches(one: ArchivePosition, end: int) -> Iterator[ArchiveTask]:
    """Before ``complete`` there are gaps, which is right only for what was there before us."""
    destination, part = one.destination, one.part
    border = min(max(part.complete, one.start), end)
    for low, high, checked in ((one.start, border, False), (border, end, True)):
        for start, stop in cut(low, high, ROWS_PER_TASK) if low < high else ():
            yield ArchiveTask(destination.kind, destination.name, destination.uuid, part.partition,
                          start, stop, checked)  # fmt: skip
