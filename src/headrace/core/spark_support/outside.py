"""Readers outside, such as Spark queries, shown like groups: their pins tell how far they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from headrace.model.topics.message_priority import BY_URGENCY, Priority
from headrace.model.topics.partitions import track_of
from headrace.store.api.message_log import PinRow
from headrace.store.topics.engine import GroupInfo, PriorityLag

if TYPE_CHECKING:
    from headrace.core.vhost import Vhost

PREFIX: Final = "spark."  # as in databases, where they are groups of that name


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
    """One per lane, high first; a queue has one lane."""
    held, journal = vhost.pins.find(row.kind, row.name), vhost.storage.journal
    if held is None or journal is None:
        return ()
    topic = vhost.topics.log.topics.get(row.name) if row.kind == "topic" else None
    lanes: Mapping[Priority, list[int]] = {lane: [] for lane in BY_URGENCY}
    for partition in held.numbers:
        lane = Priority.MIDDLE if topic is None else track_of(partition, topic.queues)[0]
        lanes[lane].append(partition)
    found = []
    for lane, partitions in lanes.items():
        position = end = 0
        for partition in partitions:
            bounds = journal.bounds(held.numbers[partition], vhost.storage.synced)
            at = int(str(row.positions.get(str(partition), 0)))
            position += min(max(at, bounds.first), bounds.end)
            end += bounds.end
        if partitions or topic is not None:
            found.append(PriorityLag(lane, position, end + 1, end - position))
    return tuple(found)
