"""How long a queue's messages stay readable after they were acknowledged. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

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
        told = ((self.ms, _TIMES), (self.size, _SIZES))
        return ",".join(_in_units(value, units) for value, units in told if value is not None)

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
