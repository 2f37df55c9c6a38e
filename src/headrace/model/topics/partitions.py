"""Where messages of a topic are: tracks, stretches of them, and the ids that callers see."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from headrace.model.topics.message_priority import BY_URGENCY, Priority, shares

PARTITION_BITS: Final = 40  # an id is partition << 40, plus offset, plus 1
MAX_OFFSET: Final = (1 << PARTITION_BITS) - 2

Track = tuple[Priority, int]  # one partition of one lane; its offsets are dense and begin with 0


class Bound(NamedTuple):
    """What can be read from a track: first .. end - 1."""

    first: int
    end: int


Bounds = Mapping[Track, Bound]


class ClaimReason(enum.Enum):
    """Why a message is handed out."""

    FRESH = enum.auto()  # for the first time
    AGAIN = enum.auto()  # whoever had it did not commit in time
    RETRY = enum.auto()  # somebody gave it back, and its delay is over


class OffsetRange(NamedTuple):
    """Messages start .. stop - 1 of a track, handed out that often, this time included."""

    track: Track
    start: int
    stop: int
    attempts: int = 1
    source: ClaimReason = ClaimReason.FRESH

    @property
    def size(self) -> int:
        return self.stop - self.start


def message_id(partition: int, offset: int) -> int:
    """Topics with one partition count 1, 2, 3."""
    return (partition << PARTITION_BITS) + offset + 1


def queue_id(track: Track, queues: int) -> int:
    """One number for lane and partition: middle 0 .. queues - 1, then high, then low."""
    return track[0] * queues + track[1]


def track_of(number: int, queues: int) -> Track:
    """The inverse."""
    return Priority(number // queues), number % queues


def place_of(identity: int) -> tuple[int, int]:
    """The partition and offset of an id from 1 on."""
    return (identity - 1) >> PARTITION_BITS, (identity - 1) & ((1 << PARTITION_BITS) - 1)


def fill(
    waiting: Mapping[Priority, Sequence[OffsetRange]], room: int, min_share: int
) -> list[OffsetRange]:
    """The first ``room`` messages: high, then middle, then low, as shares() divides them."""
    sizes = {lane: sum(one.size for one in spans) for lane, spans in waiting.items()}
    wanted = shares(sizes, room, min_share)
    return [part for lane in BY_URGENCY for part in _cut(waiting[lane], wanted[lane])]


def _cut(spans: Iterable[OffsetRange], count: int) -> Iterator[OffsetRange]:
    for span in spans:
        if count <= 0:
            return
        yield span if span.size <= count else span._replace(stop=span.start + count)
        count -= span.size
