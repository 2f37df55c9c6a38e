"""What one round of archiving takes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from headrace.bulk.client import ReadableSource
from headrace.model.readable_range import ReadableRange
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

    source: ReadableSource
    partition: int
    known: int | None

    @property
    def range(self) -> ReadableRange:
        return self.source.ranges[self.partition]

    @property
    def start(self) -> int:
        return self.range.first if self.known is None else self.known


def positions(
    sources: Sequence[ReadableSource], known: Callable[[str, int], int | None], skip_lost: bool
) -> list[ArchivePosition]:
    """Of all partitions; DataLost when messages that were to be archived are gone."""
    found = []
    for one in sources:
        for partition, there in one.ranges.items():
            at = known(one.uuid, partition)
            gone = min(there.complete, there.end)
            if at is not None and at < gone and not skip_lost:
                raise DataLost(
                    f"{one.kind} '{one.name}' partition {partition}: messages from offset "
                    f"{at} to {gone - 1} were removed before they were archived, or some of them: "
                    "the pin has reached its limit (--pin-bytes). --skip-lost continues with the "
                    "messages that are left"
                )
            found.append(ArchivePosition(one, partition, at))
    return found


def plan(
    found: Sequence[ArchivePosition], limit: int = ROWS_PER_ROUND
) -> tuple[list[ArchiveTask], list[ArchivePosition]]:
    """The tasks of a round, and the positions when it is done."""
    by_key = {(one.source.uuid, one.partition): one for one in found}
    partitions = [
        PlannedPartition(
            uuid,
            partition,
            one.source.priorities[partition],
            min(one.start, one.range.end),
            one.range.end,
        )
        for (uuid, partition), one in by_key.items()
    ]
    ends = admit(partitions, limit)
    tasks, after = [], []
    for key, one in by_key.items():
        end = max(ends[key], one.start)
        tasks += list(_tasks_of(one, end))
        after.append(ArchivePosition(one.source, one.partition, end))
    return tasks, after


def _tasks_of(one: ArchivePosition, end: int) -> Iterator[ArchiveTask]:
    """Before ``complete`` there are gaps, which is right only for what was there before us."""
    source = one.source
    border = min(max(one.range.complete, one.start), end)
    for low, high, checked in ((one.start, border, False), (border, end, True)):
        for start, stop in cut(low, high, ROWS_PER_TASK) if low < high else ():
            yield ArchiveTask(source.kind, source.name, source.uuid, one.partition,
                              start, stop, checked)  # fmt: skip
