"""Which messages of a topic retention may remove. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.model.topics.message_priority import Priority


@dataclass(frozen=True, slots=True)
class RetentionChunk:
    """Neighbouring messages of a lane, counted together: the last id, bytes, time of the last."""

    end: int
    size: int
    time: int


def removable_to(wanted: int, stable: int, holds: Iterable[int]) -> int:
    """The last id that may go: what the policy gives up, but nothing that somebody holds.

    A hold is the last id its owner does not need any more.
    """
    return min((wanted, stable, *holds))


def over_limit(chunks: Mapping[Priority, list[RetentionChunk]], limit: int) -> dict[Priority, int]:
    """Up to which id each lane must go so that no more than ``limit`` bytes stay in all lanes.

    The oldest chunks go first, whole; the newest one of a lane never does.
    """
    total = sum(chunk.size for its in chunks.values() for chunk in its)
    oldest = sorted(
        ((chunk.time, lane, chunk) for lane, its in chunks.items() for chunk in its[:-1]),
        key=lambda one: (one[0], one[2].end),
    )
    ends: dict[Priority, int] = {}
    for _, lane, chunk in oldest:
        if total <= limit:
            break
        ends[lane] = max(chunk.end, ends.get(lane, 0))
        total -= chunk.size
    return ends


def pairs(chunks: list[RetentionChunk]) -> list[RetentionChunk]:
    """Neighbours counted together: half as many chunks."""
    merged = [
        RetentionChunk(second.end, first.size + second.size, max(first.time, second.time))
        for first, second in zip(chunks[::2], chunks[1::2], strict=False)
    ]
    return merged + chunks[-1:] if len(chunks) % 2 else merged
