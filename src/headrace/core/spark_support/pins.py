"""Pins: from where on messages are held for readers outside, such as a Spark query.

A queue forgets what was acknowledged, a topic what retention ends. A pin keeps both readable from
its position on, up to a number of bytes: beyond it the pin is lost, which its reader is told.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from headrace.errors import DataLost
from headrace.model.topics.message_priority import BY_URGENCY, Priority
from headrace.model.topics.partitions import partition_of
from headrace.store.api.rows import PinRow
from headrace.store.topics.types import GroupInfo, PriorityLag

if TYPE_CHECKING:
    from headrace.core.clock import Clock
    from headrace.core.storage import Storage
    from headrace.core.vhost import Vhost

logger = logging.getLogger(__name__)

PREFIX: Final = "spark."  # of the group that a reader is listed as, as in databases


@dataclass(frozen=True, slots=True)
class PinTarget:
    """A queue or topic that can be pinned: its numbers in the log by partition."""

    kind: str
    name: str
    uuid: str
    numbers: Mapping[int, int]


class Pins:
    """All pins of a vhost."""

    def __init__(self, vhost: str, storage: Storage, clock: Clock) -> None:
        self._vhost = vhost
        self._storage = storage
        self._clock = clock
        self._rows: dict[tuple[str, str, str], PinRow] = {}  # by query, kind, name
        # Which numbers of the log a pinned thing has now; None when it is gone.
        self.find: Callable[[str, str], PinTarget | None] = lambda kind, name: None

    def __iter__(self) -> Iterator[PinRow]:
        return iter(self._rows.values())

    def place(
        self, query: str, held: PinTarget, positions: Mapping[int, int], max_bytes: int
    ) -> None:
        """Hold everything from the positions on; DataLost when the pin was lost before."""
        key = (query, held.kind, held.name)
        known = self._rows.get(key)
        if known is not None and known.lost and known.uuid == held.uuid:
            raise DataLost(
                f"the pin of '{query}' on {held.kind} '{held.name}' is lost: more than "
                f"{known.max_bytes} bytes had to be held for it. Unpin it and begin anew, or allow "
                "more bytes"
            )
        row = PinRow(
            self._vhost,
            query,
            held.kind,
            held.name,
            held.uuid,
            max_bytes,
            int(self._clock.wall_seconds() * 1000),
            {str(partition): offset for partition, offset in positions.items()},
        )
        self._rows[key] = row
        self._storage.save(row)
        self._apply(held)

    def remove(self, query: str, kind: str = "", name: str = "") -> int:
        """The reader is done for good, with everything or with one queue or topic; returns how
        many pins that were."""
        gone = [
            row
            for row in self._rows.values()
            if row.query == query and (not kind or (row.kind, row.name) == (kind, name))
        ]
        for row in gone:
            del self._rows[row.query, row.kind, row.name]
            self._storage.delete(row)
            held = self.find(row.kind, row.name)
            if held is not None:
                self._apply(held)
        return len(gone)

    def restore(self, rows: list[PinRow]) -> None:
        """Pins found at start; those of things that are gone are dropped."""
        for row in rows:
            held = self.find(row.kind, row.name)
            if held is not None and held.uuid == row.uuid:
                self._rows[row.query, row.kind, row.name] = row
                self._apply(held)
            else:
                self._storage.delete(row)

    def check_limits(self) -> None:
        """Give up pins that hold more than they may."""
        log = self._storage.log
        if log is None:
            return
        for row in [row for row in self._rows.values() if not row.lost]:
            held = self.find(row.kind, row.name)
            if held is None or held.uuid != row.uuid:
                continue
            kept = sum(log.space.kept_bytes(number) for number in held.numbers.values())
            if kept > row.max_bytes:
                self._lose(row, held, kept)

    def _lose(self, row: PinRow, held: PinTarget, kept: int) -> None:
        lost = replace(row, lost=True)
        self._rows[row.query, row.kind, row.name] = lost
        self._storage.save(lost)
        self._apply(held)
        logger.error(
            "the pin of '%s' on %s '%s' is lost: %d bytes are held, %d are allowed",
            row.query,
            row.kind,
            row.name,
            kept,
            row.max_bytes,
        )

    def _apply(self, held: PinTarget) -> None:
        """Tell the log the lowest position that anybody holds."""
        log = self._storage.log
        if log is None:
            return
        rows = [
            row
            for row in self._rows.values()
            if (row.kind, row.name, row.uuid) == (held.kind, held.name, held.uuid) and not row.lost
        ]
        for partition, number in held.numbers.items():
            # A partition that was not there when the pin was placed is held as a whole.
            offsets = [int(str(row.positions.get(str(partition), 0))) for row in rows]
            log.space.set_pin(number, min(offsets) if offsets else None)


def queries_of(vhost: Vhost, kind: str, name: str) -> list[GroupInfo]:
    """Who reads a queue or a topic from outside, and how far behind."""
    held = vhost.pins.find(kind, name)
    if held is None:
        return []
    return [
        GroupInfo(PREFIX + row.query, "", (), lag_of(vhost, row))
        for row in sorted(vhost.pins, key=lambda row: row.query)
        if (row.kind, row.name, row.uuid) == (kind, name, held.uuid)
    ]


def lag_of(vhost: Vhost, row: PinRow) -> tuple[PriorityLag, ...]:
    """One per priority, high first; a queue has one priority."""
    held, log = vhost.pins.find(row.kind, row.name), vhost.storage.log
    if held is None or log is None:
        return ()
    topic = vhost.topics.log.topics.get(row.name) if row.kind == "topic" else None
    priorities: Mapping[Priority, list[int]] = {priority: [] for priority in BY_URGENCY}
    for partition in held.numbers:
        priority = (
            Priority.MIDDLE if topic is None else partition_of(partition, topic.queues).priority
        )
        priorities[priority].append(partition)
    found = []
    for priority, partitions in priorities.items():
        position = end = 0
        for partition in partitions:
            bounds = log.reads.readable_range(held.numbers[partition], vhost.storage.synced)
            at = int(str(row.positions.get(str(partition), 0)))
            position += min(max(at, bounds.first), bounds.end)
            end += bounds.end
        if partitions or topic is not None:
            found.append(PriorityLag(priority, position, end + 1, end - position))
    return tuple(found)
