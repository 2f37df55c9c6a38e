"""Pins: offsets from which messages are kept for external readers, such as a Spark query.

A queue deletes what was acknowledged, a topic what retention ends. A pin keeps both readable from
its position on, up to a number of bytes: beyond it the pin is lost, and its reader gets an error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from headrace.core.vhost_services import VhostServices
from headrace.errors import DataLost
from headrace.model.topics.message_priority import BY_URGENCY, Priority
from headrace.model.topics.partitions import partition_of
from headrace.store.api.rows import PinRow
from headrace.store.topics.types import GroupInfo, PriorityLag

logger = logging.getLogger(__name__)

PREFIX: Final = "spark."  # of the group that a reader is listed as, as in databases


@dataclass(frozen=True, slots=True)
class PinTarget:
    """A queue or topic that can be pinned: its numbers in the log by partition."""

    kind: str
    name: str
    uuid: str
    numbers: Mapping[int, int]
    queues: int | None = None  # of a topic: partitions per priority


class Pins:
    """All pins of a vhost."""

    def __init__(
        self, services: VhostServices, find: Callable[[str, str], PinTarget | None]
    ) -> None:
        self._vhost = services.name
        self._storage = services.storage
        self._clock = services.clock
        self._rows: dict[tuple[str, str, str], PinRow] = {}  # by query, kind, name
        self.find = find  # a queue or topic by kind and name; None when it is gone

    def __iter__(self) -> Iterator[PinRow]:
        return iter(self._rows.values())

    def pin(
        self, query: str, target: PinTarget, positions: Mapping[int, int], max_bytes: int
    ) -> None:
        """Keep everything from the positions on; DataLost when the pin was lost before."""
        key = (query, target.kind, target.name)
        known = self._rows.get(key)
        if known is not None and known.lost and known.uuid == target.uuid:
            raise DataLost(
                f"the pin of '{query}' on {target.kind} '{target.name}' is lost: it kept more "
                f"than the {known.max_bytes} bytes that are allowed. Remove the pin and start "
                "again, or allow more bytes"
            )
        row = PinRow(
            self._vhost,
            query,
            target.kind,
            target.name,
            target.uuid,
            max_bytes,
            int(self._clock.wall_seconds() * 1000),
            {str(partition): offset for partition, offset in positions.items()},
        )
        self._rows[key] = row
        self._storage.save(row)
        self._apply(target)

    def remove(self, query: str, kind: str = "", name: str = "") -> int:
        """Remove all pins of a query, or its pin of one queue or topic; returns how many."""
        gone = [
            row
            for row in self._rows.values()
            if row.query == query and (not kind or (row.kind, row.name) == (kind, name))
        ]
        for row in gone:
            del self._rows[row.query, row.kind, row.name]
            self._storage.delete(row)
            target = self.find(row.kind, row.name)
            if target is not None:
                self._apply(target)
        return len(gone)

    def restore(self, rows: list[PinRow]) -> None:
        """Restore pins at start; those of deleted queues and topics are dropped."""
        for row in rows:
            target = self.find(row.kind, row.name)
            if target is not None and target.uuid == row.uuid:
                self._rows[row.query, row.kind, row.name] = row
                self._apply(target)
            else:
                self._storage.delete(row)

    def check_limits(self) -> None:
        """Drop pins that keep more bytes than they may."""
        log = self._storage.log
        if log is None:
            return
        for row in [row for row in self._rows.values() if not row.lost]:
            target = self.find(row.kind, row.name)
            if target is None or target.uuid != row.uuid:
                continue
            kept = sum(log.space.kept_bytes(number) for number in target.numbers.values())
            if kept > row.max_bytes:
                self._lose(row, target, kept)

    def _lose(self, row: PinRow, target: PinTarget, kept: int) -> None:
        lost = replace(row, lost=True)
        self._rows[row.query, row.kind, row.name] = lost
        self._storage.save(lost)
        self._apply(target)
        logger.error(
            "the pin of '%s' on %s '%s' is lost: it kept %d bytes, %d are allowed",
            row.query,
            row.kind,
            row.name,
            kept,
            row.max_bytes,
        )

    def _apply(self, target: PinTarget) -> None:
        """Set the lowest pinned offset of each partition in the log."""
        log = self._storage.log
        if log is None:
            return
        rows = [
            row
            for row in self._rows.values()
            if (row.kind, row.name, row.uuid) == (target.kind, target.name, target.uuid)
            and not row.lost
        ]
        for partition, number in target.numbers.items():
            # A partition that was added after the pin is kept as a whole.
            offsets = [int(str(row.positions.get(str(partition), 0))) for row in rows]
            log.space.set_pin(number, min(offsets) if offsets else None)

    # -- readers as groups ----------------------------------------------------------------------

    def groups_of(self, kind: str, name: str) -> list[GroupInfo]:
        """The external readers of a queue or topic, listed like groups, with their lag."""
        target = self.find(kind, name)
        if target is None:
            return []
        return [
            GroupInfo(PREFIX + row.query, "", (), self.lag_of(row))
            for row in sorted(self, key=lambda row: row.query)
            if (row.kind, row.name, row.uuid) == (kind, name, target.uuid)
        ]

    def lag_of(self, row: PinRow) -> tuple[PriorityLag, ...]:
        """The lag per priority, high first; a queue has one."""
        target, log = self.find(row.kind, row.name), self._storage.log
        if target is None or log is None:
            return ()
        by_priority: Mapping[Priority, list[int]] = {priority: [] for priority in BY_URGENCY}
        for partition in target.numbers:
            priority = Priority.MIDDLE
            if target.queues is not None:
                priority = partition_of(partition, target.queues).priority
            by_priority[priority].append(partition)
        found = []
        for priority, partitions in by_priority.items():
            position = end = 0
            for partition in partitions:
                bounds = log.reads.readable_range(target.numbers[partition], self._storage.synced)
                at = int(str(row.positions.get(str(partition), 0)))
                position += min(max(at, bounds.first), bounds.end)
                end += bounds.end
            if partitions or target.queues is not None:
                found.append(PriorityLag(priority, position, end + 1, end - position))
        return tuple(found)
