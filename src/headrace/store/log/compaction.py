"""Compaction: live messages of mostly dead segments move to cold ones, so that space comes back.

It goes in small steps between which traffic runs. Copies become valid only when they are on disk;
until then, and after a crash at any moment, the originals count. A message copied twice by such a
crash is found twice and taken once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.store.api import Placed
from headrace.store.failpoints import passing
from headrace.store.log import record as r
from headrace.store.log.index import Entry
from headrace.store.log.segment import Segment

if TYPE_CHECKING:
    from headrace.store.log.log import CommitLog

logger = logging.getLogger(__name__)

STEP_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Rule:
    """Which segments are worth it: big enough, and less than that share of it alive."""

    messages: int = 2000
    size: int = 8 << 20
    alive: float = 0.5

    def fits(self, segment: Segment) -> bool:
        big = segment.total >= self.messages or segment.used >= self.size
        by_bytes = segment.live_bytes < self.alive * max(segment.used, 1)
        by_count = segment.live < self.alive * max(segment.total, 1)
        return big and segment.live > 0 and (by_bytes or by_count)


@dataclass(slots=True)
class Move:
    """One segment on its way out."""

    segment: Segment
    records: Iterator[tuple[int, list[tuple[int, Entry]]]]
    entries: dict[int, list[Entry]] = field(default_factory=dict)  # by queue: where they are now
    end: int = 0  # job to wait for
    copied: bool = False
    messages: int = 0


class Compactor:
    """Drives one move at a time."""

    def __init__(self, log: CommitLog, rule: Rule) -> None:
        self._log = log
        self.rule = rule
        self._move: Move | None = None
        self.moved = 0  # messages, since the start

    @property
    def is_busy(self) -> bool:
        return self._move is not None

    @property
    def segment(self) -> Segment | None:
        """The one on its way out."""
        return self._move.segment if self._move is not None else None

    def step(self, *, force: bool = False) -> bool:
        """Do a little; False when there is nothing to do."""
        if self._move is None:
            segment = self._candidate(force=force)
            if segment is None:
                return False
            passing("compaction.begin")
            self._move = Move(segment, self._log.records_in(segment))
        if not self._move.copied:
            self._copy(self._move)
        return True

    def _candidate(self, *, force: bool) -> Segment | None:
        rule = Rule(0, 0, 1.0) if force else self.rule
        fitting = [one for one in self._log.idle_segments() if rule.fits(one)]
        return min(fitting, key=lambda one: one.live_bytes, default=None)

    def _copy(self, move: Move) -> None:
        size = 0
        for position, holders in move.records:
            size += self._copy_record(move, position, holders)
            if size >= STEP_BYTES:
                return
        move.copied = True
        passing("compaction.copied")
        self._log.commit_cold(lambda: self._swap(move))

    def _copy_record(self, move: Move, position: int, holders: list[tuple[int, Entry]]) -> int:
        messages, contents = self._log.read_record(position)
        copied = 0
        self._report_damage(position, holders, contents)
        for start, stop, queues in self._alive(holders, contents):
            placed = [Placed(queue, entry.first + start, stop - start) for queue, entry in queues]
            out = r.Outgoing(
                messages.exchange,
                messages.key,
                messages.origin,
                messages.ttl_ms,
                [content for content in contents[start:stop] if content is not None],
                placed,
                2,
            )
            moved = self._log.append_cold(out, messages.time)
            for queue, entry in moved:
                move.entries.setdefault(queue, []).append(entry)
            move.messages += stop - start
            copied += sum(map(len, out.contents))
        return copied

    def _report_damage(
        self, position: int, holders: list[tuple[int, Entry]], contents: list[bytes | None]
    ) -> None:
        """What cannot be read cannot be moved: that is its end, so it is told here."""
        for queue, entry in holders:
            for number in range(entry.stop - entry.first):
                whole = number < len(contents) and contents[number] is not None
                if not whole and self._log.is_alive(queue, entry.first + number):
                    logger.error(
                        "message %d of queue number %d is lost: the record at %d is damaged",
                        entry.first + number,
                        queue,
                        position,
                    )

    def _alive(
        self, holders: list[tuple[int, Entry]], contents: list[bytes | None]
    ) -> Iterator[tuple[int, int, list[tuple[int, Entry]]]]:
        """Stretches of a record's messages that are whole, and alive in the same queues."""
        count = len(contents)
        previous: list[tuple[int, Entry]] = []
        start = 0
        for number in range(count + 1):
            queues = [
                (queue, entry)
                for queue, entry in holders
                if number < count
                and contents[number] is not None
                and entry.first + number < entry.stop
                and self._log.is_alive(queue, entry.first + number)
            ]
            if queues != previous:
                if previous:
                    yield start, number, previous
                start, previous = number, queues

    def _swap(self, move: Move) -> None:
        """The copies are on disk: from now on they are the messages."""
        passing("compaction.synced")
        self._log.swap(move.segment, move.entries)
        self.moved += move.messages
        self._move = None
        passing("compaction.swapped")
