"""Message events: the system topic `$events`, for reports and the history of a message.

Queues record offsets as they go; once a second adjacent ones are merged to ranges and appended to
the topic, one entry for each queue and kind. A crash loses the last second.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from headrace.core.clock import Timer
from headrace.core.vhost_services import VhostServices
from headrace.model.retention import Retention
from headrace.store.topics.types import Entry, TopicSpec

TOPIC = "$events"
RETENTION = Retention(24 * 3_600_000, 256 << 20)
EVERY_MS = 1000
NOTES_AT_ONCE = 100_000  # then they are written before the second is over
RANGES_PER_ENTRY = 2000

ACKNOWLEDGED, REDELIVERED, EXPIRED = "acknowledged", "redelivered", "expired"
DEAD_LETTERED, DROPPED = "dead-lettered", "dropped"

Note = tuple[Sequence[int], str]  # offsets in rising order, the consumer
Range = tuple[int, int, str]  # first, last, the consumer; "" when there are several


class EventSource(Protocol):
    """The queue that something happened in."""

    name: str
    uuid: str


@dataclass(slots=True, eq=False)
class MessageEvents:
    """Events of one vhost. Nothing is recorded unless ``on`` is set."""

    services: VhostServices
    append: Callable[[TopicSpec, list[Entry]], object]  # to a topic, created if it is missing
    on: bool = False
    _notes: dict[tuple[EventSource, str], list[Note]] = field(default_factory=dict)
    _timer: Timer | None = None
    _count: int = 0

    def note(
        self, queue: EventSource, kind: str, offsets: Sequence[int], consumer: str = ""
    ) -> None:
        """Record an event of stored messages: others cannot be found by their offset."""
        notes = self._notes.get((queue, kind))
        if notes is None:
            notes = self._notes[queue, kind] = []
            if self._timer is None:
                self._timer = self.services.timers.after(EVERY_MS, self.flush)
        notes.append((offsets, consumer))
        self._count += 1
        if self._count >= NOTES_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Append what was recorded."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        notes, self._notes, self._count = self._notes, {}, 0
        if not notes or self.services.storage.log is None:
            return
        now = int(self.services.clock.wall_seconds() * 1000)
        entries = [
            _entry(queue, kind, now, ranges[start : start + RANGES_PER_ENTRY])
            for (queue, kind), noted in notes.items()
            for ranges in (list(merged(noted)),)
            for start in range(0, len(ranges), RANGES_PER_ENTRY)
        ]
        self.append(TopicSpec(TOPIC, 1, RETENTION), entries)


def _entry(queue: EventSource, kind: str, now: int, ranges: list[Range]) -> Entry:
    body = {
        "destination": queue.name,
        "uuid": queue.uuid,
        "kind": kind,
        "time": now,
        "ranges": [{"first": a, "last": b, "consumer": who} for a, b, who in ranges],
    }
    return Entry(json.dumps(body).encode(), key=queue.name[:255], tags=kind, born=now)


def merged(notes: Sequence[Note]) -> Iterator[Range]:
    """The ranges of all offsets noted, each offset once."""
    pieces = sorted(_pieces(notes))
    if not pieces:
        return
    first, last, consumer = pieces[0]
    for start, end, who in pieces:
        if start > last + 1:
            yield first, last, consumer
            first, last, consumer = start, end, who
            continue
        last = max(last, end)
        if who != consumer:
            consumer = ""
    yield first, last, consumer


def _pieces(notes: Sequence[Note]) -> Iterator[Range]:
    for offsets, consumer in notes:
        if not offsets:
            continue
        first, last = offsets[0], offsets[-1]
        if last - first + 1 == len(offsets):
            yield first, last, consumer
        else:
            for offset in offsets:
                yield offset, offset, consumer
