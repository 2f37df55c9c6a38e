"""What recovery finds: the state of the log, and a report of what was wrong."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.store.log import record as r
from headrace.store.log.queue_index import IndexEntry, QueueIndex
from headrace.store.log.segment import Segment

logger = logging.getLogger(__name__)

Range = tuple[int, int, int]  # queue number, first offset, stop
_NO_POSITION = 1 << 64
MISSING = "the segment is missing"
FOREIGN = "nothing of it belongs to this segment; the file is left as it is"
UNUSABLE = (MISSING, FOREIGN)
SHORT = "there may have been more, and no checkpoint says how much"


class Lost(NamedTuple):
    """Bytes of a segment that a checkpoint lists, or that lie before good records."""

    base: int
    offset: int  # in the segment
    size: int
    what: str
    entries: list[tuple[int, IndexEntry]] | None = None  # what was there, if an index says it


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
        logger.error("damage in the journal: %s", text)

    def unfinished(self, text: str) -> None:
        self.cut.append(text)
        logger.warning("%s was cut off", text)


@dataclass(slots=True)
class RecoveredState:
    """The journal as found."""

    segments: list[Segment] = field(default_factory=list)
    queues: dict[int, QueueIndex] = field(default_factory=dict)
    position: int = 0  # of the checkpoint
    sequence: int = 0  # of the checkpoint
    catalog_generation: int = 0  # of meta.db as the checkpoint knows it
    whole_seed_from: int | None = None  # None: a directory of version 1
    next_base: int = 0  # segments that are missing keep their place
    unindexed: list[Segment] = field(default_factory=list)  # had to be scanned
    places: list[Lost] = field(default_factory=list)  # damaged ones
    has_missing: bool = False  # a segment of the checkpoint: another file may be it
    torn: set[int] = field(default_factory=set)  # positions of unfinished writes between records
    report: RecoveryReport = field(default_factory=RecoveryReport)

    def seed(self, base: int) -> int:
        """Of the sums in a segment."""
        whole_from = _NO_POSITION if self.whole_seed_from is None else self.whole_seed_from
        return r.segment_seed(base, whole_from)

    def lose(self, place: Lost) -> None:
        self.places.append(place)
        where = f"{place.size} bytes at {place.offset} of segment {place.base:020d}"
        self.report.damaged(f"{where}: {place.what}")
