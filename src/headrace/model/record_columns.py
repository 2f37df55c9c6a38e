"""Records of one destination in one segment of the log, as columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

C = TypeVar("C")  # a column of 64-bit numbers: an array, its bytes, or a view of NumPy on them
D = TypeVar("D")


class RecordColumns(NamedTuple, Generic[C]):
    """Columns of equal length, one row per record (several where a part of it is not wanted)."""

    base: int  # the position at which the segment begins
    seed: int  # of the checksums of record heads in it
    positions: C
    first_offsets: C  # of each record's first message
    low_offsets: C  # which offsets of each record are wanted: low .. high - 1
    high_offsets: C

    def map(self, change: Callable[[C], D]) -> RecordColumns[D]:
        """Change every column in the same way."""
        columns = map(change, self[2:])
        return RecordColumns(self.base, self.seed, *columns)
