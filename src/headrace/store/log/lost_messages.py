"""Which messages were in bytes that are lost, as closely as what is left can say."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from headrace.model.intervals import join_ranges
from headrace.store.log.queue_index import QueueIndex
from headrace.store.log.recovery_state import Lost, Range, RecoveredState

logger = logging.getLogger(__name__)

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


def lost_in(place: Lost, state: RecoveredState) -> list[Range]:
    """Exactly what an index says, else the offsets that are missing around that place."""
    if place.entries is None:
        return list(_missing_around(place, state))
    return [
        (number, low, high)
        for number, entry in place.entries
        if (index := state.queues.get(number)) is not None
        for low, high in unaccounted(index, entry.first, entry.stop, entry.position)
    ]


def _missing_around(place: Lost, state: RecoveredState) -> Iterator[Range]:
    start, end = place.base + place.offset, place.base + place.offset + place.size
    for number, index in state.queues.items():
        for low, high in unaccounted(index, 0, index.next_offset):
            before = next(index.entries(max(0, low - 1), low), None)
            after = next(index.entries(high, high + 1), None)
            is_behind = before is None or before.position < end
            if is_behind and (after is None or after.position >= start):
                yield number, low, high


def name_lost(state: RecoveredState) -> None:
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
