"""What recovery finds: the state of the log, and a report of what was wrong."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.model.intervals import join_ranges
from headrace.store.log.queue_index import QueueEntry, QueueIndex
from headrace.store.log.segment import Segment
from headrace.wire.record_layout import segment_seed

logger = logging.getLogger(__name__)

Range = tuple[int, int, int]  # queue number, first offset, stop
_NO_POSITION = 1 << 64
MISSING = "the segment is missing"
FOREIGN = "nothing of it belongs to this segment; the file is left as it is"
UNUSABLE = (MISSING, FOREIGN)
SHORT = "there may have been more, and no checkpoint says how much"


class LostRange(NamedTuple):
    """Bytes of a segment that a checkpoint lists, or that lie before good records."""

    base: int
    offset: int  # in the segment
    size: int
    what: str
    entries: list[QueueEntry] | None = None  # what was there, if an index says it


@dataclass(slots=True)
class RecoveryReport:
    """What recovery met."""

    segments: int = 0
    scanned_bytes: int = 0
    messages: int = 0
    rebuilt: list[int] = field(default_factory=list)  # segments whose index was missing or bad
    damage: list[str] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)  # unfinished writes
    lost: list[Range] = field(default_factory=list)  # as closely as known, damaged or missing
    clean: bool = False
    begin_epoch: bool = False  # a restore asks for it
    is_empty: bool = False  # there is neither a segment nor a checkpoint

    def damaged(self, text: str) -> None:
        self.damage.append(text)
        logger.error("damage in the log: %s", text)

    def unfinished(self, text: str) -> None:
        self.cut.append(text)
        logger.warning("%s was cut off", text)


@dataclass(slots=True)
class RecoveredState:
    """The log as found."""

    segments: list[Segment] = field(default_factory=list)
    queues: dict[int, QueueIndex] = field(default_factory=dict)
    position: int = 0  # of the checkpoint
    sequence: int = 0  # of the checkpoint
    metadata_generation: int = 0  # of meta.db as the checkpoint knows it
    format_2_from: int | None = None  # None: a directory of version 1
    next_base: int = 0  # segments that are missing keep their place
    unindexed: list[Segment] = field(default_factory=list)  # had to be scanned
    places: list[LostRange] = field(default_factory=list)  # damaged ones
    has_missing: bool = False  # a segment of the checkpoint: another file may be it
    torn: set[int] = field(default_factory=set)  # positions of unfinished writes between records
    report: RecoveryReport = field(default_factory=RecoveryReport)

    def seed(self, base: int) -> int:
        """Of the sums in a segment."""
        whole_from = _NO_POSITION if self.format_2_from is None else self.format_2_from
        return segment_seed(base, whole_from)

    def add_lost(self, place: LostRange) -> None:
        self.places.append(place)
        where = f"{place.size} bytes at {place.offset} of segment {place.base:020d}"
        self.report.damaged(f"{where}: {place.what}")


_LINES = 100  # of the log; the report has all


def unaccounted(
    index: QueueIndex, first: int, stop: int, position: int | None = None
) -> Iterator[tuple[int, int]]:
    """The ranges of first .. stop - 1 that are neither settled nor in a record, that at
    ``position`` aside."""
    for low, high in index.settled.missing(first, stop):
        for entry in index.entries(low, high):
            if entry.position == position:
                continue
            if entry.first > low:
                yield low, entry.first
            low = max(low, entry.stop)
        if low < high:
            yield low, high


def lost_in(place: LostRange, state: RecoveredState) -> list[Range]:
    """Exactly what an index says, else the offsets that are missing around that place."""
    if place.entries is None:
        return list(_missing_around(place, state))
    return [
        (number, low, high)
        for number, entry in place.entries
        if (index := state.queues.get(number)) is not None
        for low, high in unaccounted(index, entry.first, entry.stop, entry.position)
    ]


def _missing_around(place: LostRange, state: RecoveredState) -> Iterator[Range]:
    start, end = place.base + place.offset, place.base + place.offset + place.size
    for number, index in state.queues.items():
        for low, high in unaccounted(index, 0, index.next_offset):
            before = next(index.entries(max(0, low - 1), low), None)
            after = next(index.entries(high, high + 1), None)
            is_behind = before is None or before.position < end
            if is_behind and (after is None or after.position >= start):
                yield number, low, high


def report_lost_messages(state: RecoveredState) -> None:
    """Report the messages of all damaged places."""
    found: dict[tuple[int, bool], list[tuple[int, int]]] = {}  # by queue, known to have been stored
    for place in state.places:
        for number, low, high in lost_in(place, state):
            found.setdefault((number, place.entries is not None), []).append((low, high))
    for (number, is_known), ranges in found.items():
        doubt = "" if is_known else ", or were never stored"
        for low, high in join_ranges(ranges):
            state.report.lost.append((number, low, high))
            if len(state.report.lost) <= _LINES:
                logger.error(
                    "messages %d to %d of queue number %d are lost%s", low, high - 1, number, doubt
                )
