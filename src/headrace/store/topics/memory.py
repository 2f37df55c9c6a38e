"""Topics in memory: the contract of the SPI without a disk. Gone with the process."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from uuid import uuid4

from headrace.model.retention import Retention
from headrace.model.topics.partitions import Bound, Partition, message_id
from headrace.model.topics.retries import Place, Retry
from headrace.store.topics.entry import encode_entries
from headrace.store.topics.groups import PartitionCursor, ProgressStore, ReaderKey
from headrace.store.topics.local_engine import MAX_BODY, LocalEngine, LocalTopic, wall_ms
from headrace.store.topics.reads import LoadedEntries
from headrace.store.topics.types import Entry, TopicSpec


class _NoProgressStore:
    """Nothing survives, so nothing is noted."""

    def cursor(self, name: ReaderKey, partition: Partition, cursor: PartitionCursor) -> None:
        return

    def retry(self, group: str, place: Place, retry: Retry | None) -> None:
        return

    def forget(self, name: ReaderKey) -> None:
        return


class _MemoryPartition:
    """Messages of one partition of one priority; those before ``first`` are removed."""

    def __init__(self) -> None:
        self.first = 0
        self.times: list[int] = []
        self.contents: list[bytes] = []

    @property
    def end(self) -> int:
        return self.first + len(self.contents)

    def remove(self, count: int) -> None:
        del self.times[:count], self.contents[:count]
        self.first += count


class _Topic(LocalTopic):
    """One topic."""

    def __init__(self, spec: TopicSpec, uuid: str, created_at: int) -> None:
        super().__init__(spec, uuid, created_at)
        self.partitions: dict[Partition, _MemoryPartition] = {}
        self._last_time = 0

    def append(self, entries: Sequence[Entry], now: int) -> list[int]:
        contents = encode_entries(entries)
        now = self._last_time = max(now, self._last_time)
        ids = []
        for entry, content in zip(entries, contents, strict=True):
            partition = self.partition_for(entry)
            stored = self.partitions.setdefault(partition, _MemoryPartition())
            ids.append(message_id(partition.index, stored.end))
            stored.times.append(now)
            stored.contents.append(content)
        return ids

    def expire(self, retention: Retention, now: int) -> None:
        kept = sum(len(one) for partition in self.partitions.values() for one in partition.contents)
        while True:
            filled = [partition for partition in self.partitions.values() if partition.times]
            oldest = min(filled, key=lambda partition: partition.times[0], default=None)
            if oldest is None:
                return
            if not retention.ends(stored_at=oldest.times[0], now=now, kept=kept):
                return
            kept -= len(oldest.contents[0])
            oldest.remove(1)

    # -- for readers -----------------------------------------------------------------------------

    def bounds(self) -> Mapping[Partition, Bound]:
        return {partition: Bound(one.first, one.end) for partition, one in self.partitions.items()}

    def load(
        self, partition: Partition, start: int, stop: int, max_bytes: int
    ) -> tuple[list[LoadedEntries], int]:
        known = self.partitions[partition]
        low, high = max(start - known.first, 0), max(stop - known.first, 0)
        loaded = [
            LoadedEntries(known.times[at], [known.first + at], [known.contents[at]])
            for at in range(low, min(high, len(known.contents)))
        ]
        return loaded, stop

    def offset_at(self, partition: Partition, time_ms: int) -> int:
        known = self.partitions[partition]
        return known.first + bisect_left(known.times, time_ms)

    def time_at(self, partition: Partition, offset: int) -> int | None:
        known = self.partitions[partition]
        at = offset - known.first
        return known.times[at] if 0 <= at < len(known.times) else None


class MemoryEngine(LocalEngine):
    """Made for tests."""

    def __init__(self, name: str = "memory", max_body: int = MAX_BODY) -> None:
        super().__init__(name, max_body)

    def make(self, spec: TopicSpec) -> tuple[LocalTopic, ProgressStore]:
        return _Topic(spec, str(uuid4()), wall_ms()), _NoProgressStore()
