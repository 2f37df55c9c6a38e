"""Where messages of a topic are: partitions, stretches of them, and the ids that callers see."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from headrace.model.topics.message_priority import BY_URGENCY, Priority, shares

PARTITION_BITS: Final = 40  # an id is partition << 40, plus offset, plus 1
MAX_OFFSET: Final = (1 << PARTITION_BITS) - 2


class Partition(NamedTuple):
    """One partition of a topic; its offsets are dense and begin with 0."""

    priority: Priority
    index: int  # type: ignore[assignment]  # among those of the priority; hides tuple.index()


class Bound(NamedTuple):
    """What can be read from a partition: first .. end - 1."""

    first: int
    end: int


Bounds = Mapping[Partition, Bound]


class ClaimReason(enum.Enum):
    """Why a message is handed out."""

    FRESH = enum.auto()  # for the first time
    AGAIN = enum.auto()  # its claim expired
    RETRY = enum.auto()  # nacked, and its delay is over


class OffsetRange(NamedTuple):
    """Messages start .. stop - 1 of a partition, handed out that often, this time included."""

    partition: Partition
    start: int
    stop: int
    attempts: int = 1
    source: ClaimReason = ClaimReason.FRESH

    @property
    def size(self) -> int:
        return self.stop - self.start


def message_id(index: int, offset: int) -> int:
    """Topics with one partition count 1, 2, 3."""
    return (index << PARTITION_BITS) + offset + 1


def partition_id(partition: Partition, queues: int) -> int:
    """The partition id: middle 0 .. queues - 1, then high, then low."""
    return partition.priority * queues + partition.index


def partition_of(number: int, queues: int) -> Partition:
    """The inverse."""
    return Partition(Priority(number // queues), number % queues)


def place_of(identity: int) -> tuple[int, int]:
    """The partition's index and the offset of an id from 1 on."""
    return (identity - 1) >> PARTITION_BITS, (identity - 1) & ((1 << PARTITION_BITS) - 1)


def fill(
    waiting: Mapping[Priority, Sequence[OffsetRange]], room: int, min_share: int
) -> list[OffsetRange]:
    """The first ``room`` messages: high, then middle, then low, as shares() divides them."""
    sizes = {priority: sum(one.size for one in spans) for priority, spans in waiting.items()}
    wanted = shares(sizes, room, min_share)
    return [part for priority in BY_URGENCY for part in _cut(waiting[priority], wanted[priority])]


def _cut(spans: Iterable[OffsetRange], count: int) -> Iterator[OffsetRange]:
    for span in spans:
        if count <= 0:
            return
        yield span if span.size <= count else span._replace(stop=span.start + count)
        count -= span.size
