"""What can be read of a queue, or of one partition of a topic, by offset."""

from __future__ import annotations

from typing import NamedTuple


class ReadableRange(NamedTuple):
    """Offsets ``first`` .. ``end - 1``; below ``complete`` some of them may be missing."""

    first: int  # the lowest offset that is there
    end: int  # one past the last that is durable, or stable in MySQL
    complete: int = -1  # the lowest from which on nothing is missing; -1: the same as first
    first_time: int | None = None  # ms since 1970, when the first was stored
    last_time: int | None = None
