"""Which rows a batch takes and how they are cut into tasks. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

PRIORITIES = ("high", "middle", "low")  # most urgent first
PartitionOffsets = dict[tuple[str, int], int]
"""Offsets by source and partition."""


@dataclass(frozen=True, slots=True)
class PlannedPartition:
    """One partition of one source, and what is there of it."""

    source: str
    partition: int
    priority: str
    start: int
    end: int

    @property
    def waiting(self) -> int:
        return max(0, self.end - self.start)


@dataclass(frozen=True, slots=True)
class TaskRange:
    source: str
    partition: int
    start: int
    end: int
    epoch: int | None = None  # in which the end was seen


def admit(partitions: Sequence[PlannedPartition], limit: int | None) -> PartitionOffsets:
    """How far a batch goes in each partition: high first, then middle, then low; within a priority
    every partition gets its share of what is left."""
    ends = {(one.source, one.partition): one.start for one in partitions}
    left = limit
    for priority in PRIORITIES:
        group = [one for one in partitions if one.priority == priority and one.waiting]
        for one, count in _share_out(group, left):
            ends[one.source, one.partition] = one.start + count
            if left is not None:
                left -= count
    return ends


def _share_out(
    group: Sequence[PlannedPartition], room: int | None
) -> Iterator[tuple[PlannedPartition, int]]:
    total = sum(one.waiting for one in group)
    if room is None or total <= room:
        yield from ((one, one.waiting) for one in group)
        return
    given = 0
    passed = 0
    for one in group:
        # By cumulative shares: they add up to the room exactly, whatever the rounding.
        passed += one.waiting
        upto = room * passed // total
        yield one, upto - given
        given = upto


def cut(start: int, end: int, rows_per_task: int) -> Iterator[tuple[int, int]]:
    """start .. end - 1 in parts of nearly equal size, none above ``rows_per_task``."""
    count = -(-(end - start) // rows_per_task)
    for number in range(count):
        low = start + (end - start) * number // count
        high = start + (end - start) * (number + 1) // count
        yield low, high


def ranges(
    starts: Mapping[tuple[str, int], int],
    ends: Mapping[tuple[str, int], int],
    rows_per_task: int,
) -> list[TaskRange]:
    return [
        TaskRange(source, partition, low, high)
        for (source, partition), end in sorted(ends.items())
        for low, high in cut(starts.get((source, partition), end), end, rows_per_task)
    ]
