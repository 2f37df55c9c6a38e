"""Filters of a query that narrow down which offsets have to be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from headrace.bulk.client import ReadableSource
from headrace.spark.task_plan import PartitionOffsets

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class OffsetFilter:
    """Never removes a row that the filters would keep; Spark applies them again."""

    partitions: set[int] | None = None
    low: int = 0
    high: int | None = None  # exclusive
    since_ms: int | None = None
    until_ms: int | None = None

    def take(self, one: Filter) -> None:
        column = getattr(one, "attribute", ())
        if column == ("partition",) and isinstance(one, EqualTo | In):
            self._take_partition(one)
        elif column == ("offset",):
            self._take_offset(one)
        elif column == ("timestamp",):
            self._take_time(one)

    def _take_partition(self, one: EqualTo | In) -> None:
        wanted = {one.value} if isinstance(one, EqualTo) else set(one.value)
        self.partitions = wanted if self.partitions is None else self.partitions & wanted

    def _take_offset(self, one: Filter) -> None:
        if isinstance(one, EqualTo | GreaterThan | GreaterThanOrEqual):
            self.low = max(self.low, one.value + isinstance(one, GreaterThan))
        if isinstance(one, EqualTo | LessThan | LessThanOrEqual):
            high = one.value + (not isinstance(one, LessThan))
            self.high = high if self.high is None else min(self.high, high)

    def _take_time(self, one: Filter) -> None:
        value = getattr(one, "value", None)
        if not isinstance(value, datetime):
            return
        if value.tzinfo is None:
            value = value.astimezone(UTC)  # Spark hands local times over
        # Whole numbers: a float of seconds is off by a millisecond now and then.
        us = (value - _EPOCH) // timedelta(microseconds=1)
        if isinstance(one, GreaterThan | GreaterThanOrEqual | EqualTo):
            since = (us + 1 if isinstance(one, GreaterThan) else us) + 999
            self.since_ms = max(self.since_ms or 1, since // 1000)
        if isinstance(one, LessThan | LessThanOrEqual | EqualTo):
            until = ((us - 1 if isinstance(one, LessThan) else us) // 1000) + 1
            self.until_ms = max(1, until if self.until_ms is None else min(self.until_ms, until))

    def apply(
        self,
        starts: PartitionOffsets,
        ends: PartitionOffsets,
        sources: Callable[[int | None], Mapping[str, ReadableSource]],
    ) -> tuple[PartitionOffsets, PartitionOffsets]:
        """The offsets that are left to read."""
        since = _at_time(sources(self.since_ms)) if self.since_ms is not None else {}
        until = _at_time(sources(self.until_ms)) if self.until_ms is not None else {}
        kept = [one for one in ends if self.partitions is None or one[1] in self.partitions]
        high = self.high
        narrow_starts = {
            one: max(starts[one], self.low, since.get(one, 0)) for one in kept if one in starts
        }
        narrow_ends = {
            one: min(ends[one], until.get(one, ends[one]), ends[one] if high is None else high)
            for one in narrow_starts
        }
        return narrow_starts, {
            one: max(end, narrow_starts[one]) for one, end in narrow_ends.items()
        }


def _at_time(sources: Mapping[str, ReadableSource]) -> PartitionOffsets:
    return {
        (name, partition): at
        for name, one in sources.items()
        for partition, at in one.at_time.items()
    }
