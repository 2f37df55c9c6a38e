"""How long a queue's messages stay readable after they were acknowledged. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.model.topics.message_priority import Priority

_PART = re.compile(r"([0-9]{1,15})(ms|s|m|h|d|B|KB|MB|GB|TB|KiB|MiB|GiB|TiB)")
_TIMES = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZES = {
    "B": 1,
    **{unit + "B": 1000**power for power, unit in enumerate("KMGT", 1)},
    **{unit + "iB": 1024**power for power, unit in enumerate("KMGT", 1)},
}


@dataclass(frozen=True, slots=True)
class Retention:
    """Keep messages for that long, and not more than that many bytes of them."""

    ms: int | None = None
    size: int | None = None

    def __str__(self) -> str:
        """As parse_retention takes it, in the largest units that say it exactly."""
        parts = ((self.ms, _TIMES), (self.size, _SIZES))
        return ",".join(_in_units(value, units) for value, units in parts if value is not None)

    def ends(self, *, stored_at: int, now: int, kept: int) -> bool:
        """Whether the oldest acknowledged messages may go; ``kept`` bytes are there in all."""
        too_old = self.ms is not None and stored_at + self.ms <= now
        too_many = self.size is not None and kept > self.size
        return too_old or too_many


def _in_units(value: int, units: dict[str, int]) -> str:
    worth, unit = max((worth, unit) for unit, worth in units.items() if value % worth == 0)
    return f"{value // worth}{unit}"


def parse_retention(text: str) -> Retention | None:
    """`7d`, `500MB`, or both as `7d,500MB`; None when it is neither, or keeps nothing."""
    ms: int | None = None
    size: int | None = None
    for part in text.split(","):
        found = _PART.fullmatch(part.strip())
        if found is None:
            return None
        number, unit = int(found[1]), found[2]
        if not number or (ms if unit in _TIMES else size) is not None:
            return None
        if unit in _TIMES:
            ms = number * _TIMES[unit]
        else:
            size = number * _SIZES[unit]
    return Retention(ms, size)


@dataclass(frozen=True, slots=True)
class RetentionChunk:
    """Neighbouring messages of one priority: the last id, all bytes, time of the last."""

    end: int
    size: int
    time: int


def removable_to(wanted: int, stable: int, holds: Iterable[int]) -> int:
    """The last id that may go: what the policy gives up, but nothing that is pinned.

    A hold is the last id its owner does not need any more.
    """
    return min((wanted, stable, *holds))


def over_limit(chunks: Mapping[Priority, list[RetentionChunk]], limit: int) -> dict[Priority, int]:
    """Up to which id each priority is removed so that all keep at most ``limit`` bytes.

    The oldest chunks go first, whole; the newest one of a priority never does.
    """
    total = sum(chunk.size for its in chunks.values() for chunk in its)
    oldest = sorted(
        ((chunk.time, priority, chunk) for priority, its in chunks.items() for chunk in its[:-1]),
        key=lambda one: (one[0], one[2].end),
    )
    ends: dict[Priority, int] = {}
    for _, priority, chunk in oldest:
        if total <= limit:
            break
        ends[priority] = max(chunk.end, ends.get(priority, 0))
        total -= chunk.size
    return ends


def pairs(chunks: list[RetentionChunk]) -> list[RetentionChunk]:
    """Neighbours counted together: half as many chunks."""
    merged = [
        RetentionChunk(second.end, first.size + second.size, max(first.time, second.time))
        for first, second in zip(chunks[::2], chunks[1::2], strict=False)
    ]
    return merged + chunks[-1:] if len(chunks) % 2 else merged
