"""Messages that are in the log more than once: copies that a crash kept compaction from finishing.

Copies of different attempts can overlap, and some may be damaged. What counts is that each message
is found once and whole; one of the copies that compaction meant always covers all of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator

from headrace.model.intervals import Intervals
from headrace.store.log import record as r
from headrace.store.log.queue_index import IndexEntry
from headrace.store.log.segment import Segment
from headrace.wire.record_layout import MESSAGES, inner_seed

Sound = Callable[[IndexEntry], list[bool]]  # per message of the record: can it be read


def without_duplicates(
    found: list[tuple[int, IndexEntry]], settled: Callable[[int], Intervals], sound: Sound
) -> Iterator[tuple[int, IndexEntry]]:
    """Entries of all queues, in order, no two of them with the same offset of a queue."""
    found.sort(key=lambda one: (one[0], one[1].first, -one[1].stop))
    queue, stop = -1, 0
    overlapping: list[IndexEntry] = []
    for number, entry in found:
        if number != queue or entry.first >= stop:
            yield from ((queue, one) for one in _chosen(overlapping, settled, queue, sound))
            queue, stop, overlapping = number, 0, []
        overlapping.append(entry)
        stop = max(stop, entry.stop)
    yield from ((queue, one) for one in _chosen(overlapping, settled, queue, sound))


def _chosen(
    entries: list[IndexEntry], settled: Callable[[int], Intervals], queue: int, sound: Sound
) -> list[IndexEntry]:
    """Of entries that overlap those which do not, and together hold the most messages."""
    if len(entries) < 2:
        return entries
    entries = sorted(entries, key=lambda one: one.stop)
    stops = [entry.stop for entry in entries]
    best: list[tuple[int, list[IndexEntry]]] = [(0, [])]  # among the first n
    for number, entry in enumerate(entries):
        worth = _worth(entry, settled(queue), sound(entry))
        before = best[min(number, bisect_right(stops, entry.first))]
        taken = (before[0] + worth, [*before[1], entry])
        best.append(taken if taken[0] > best[-1][0] else best[-1])
    return best[-1][1]


def _worth(entry: IndexEntry, settled: Intervals, sound: list[bool]) -> int:
    """Above all, messages that are alive and whole.

    Then those alive but damaged, which will be reported when they are read; then settled ones,
    which a queue may retain.
    """
    whole = alive = 0
    for low, high in settled.missing(entry.first, entry.stop):
        whole += sum(sound[low - entry.first : high - entry.first])
        alive += high - low
    return (whole << 64) + (alive << 32) + sum(sound[: entry.stop - entry.first])


def sound_messages(segment: Segment, entry: IndexEntry) -> list[bool]:
    """Which messages of a record can be read."""
    start = segment.read(entry.position, r.HEAD_SIZE)
    head = r.read_head(start)
    data = segment.read(entry.position, head.size) if head is not None else b""
    nothing = [False] * (entry.stop - entry.first)
    if head is None or head.kind != MESSAGES:
        return nothing
    seeds = (segment.seed, inner_seed(segment.seed))
    if not any(r.head_is_good(data, head, seed) for seed in seeds):
        return nothing
    return sound_contents(data, head, 0) or nothing


def sound_contents(data: bytes, head: r.RecordHead, at: int) -> list[bool] | None:
    """Message by message whether its sum is right; None if the head cannot be decoded."""
    messages = r.decode_messages(data, head, at) if head.kind == MESSAGES else None
    if messages is None:
        return None
    return [is_good for _, _, is_good in r.contents_of(data, messages, at)]
