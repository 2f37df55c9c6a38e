"""Topics in memory: the contract of the SPI without a disk. Gone with the process."""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from threading import RLock
from typing import Final
from uuid import uuid4
from zlib import crc32

from headrace.errors import BadTopicValue, BodyTooLarge, NoSuchTopic, TopicConflict
from headrace.model.retention import Retention
from headrace.model.topics.message_priority import BY_URGENCY, Priority
from headrace.model.topics.names import check_topic
from headrace.model.topics.partitions import Bound, Partition, message_id
from headrace.model.topics.retries import Place, Retry
from headrace.store.topics.entry import encode_entries
from headrace.store.topics.groups import PartitionCursor, ReaderKey, TopicGroups
from headrace.store.topics.reads import LoadedEntries
from headrace.store.topics.types import (
    ConsumerSpec,
    Entry,
    GroupInfo,
    Part,
    PriorityLag,
    ReadResult,
    StoredMessage,
    TopicInfo,
    TopicSpec,
    refuse_options,
)

MAX_BODY: Final = 16 << 20


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


class _Topic:
    """One topic, also the `TopicLog` of its readers."""

    def __init__(self, spec: TopicSpec, now: int, boot: str, number: Callable[[], int]) -> None:
        self.spec = spec
        self.uuid = str(uuid4())
        self.created_at = now
        self.partitions: dict[Partition, _MemoryPartition] = {}
        self.readers = TopicGroups(self.uuid, self, _NoProgressStore(), boot, number)
        self._turn = 0
        self._last_time = 0

    @property
    def queues(self) -> int:
        return self.spec.queues

    def info(self, engine: str) -> TopicInfo:
        parts = tuple(
            self._part(partition)
            for priority in BY_URGENCY
            for partition in sorted(self.partitions)
            if partition.priority == priority
        )
        spec = self.spec
        return TopicInfo(
            spec.name, self.uuid, engine, spec.queues, spec.retention, self.created_at, parts
        )

    def _part(self, partition: Partition) -> Part:
        known = self.partitions[partition]
        times = (known.times[0], known.times[-1]) if known.times else ()
        first, end = (message_id(partition.index, offset) for offset in (known.first, known.end))
        return Part(partition.priority, partition.index, first, end, *times)

    def append(self, entries: Sequence[Entry], now: int) -> list[int]:
        contents = encode_entries(entries)
        now = self._last_time = max(now, self._last_time)
        ids = []
        for entry, content in zip(entries, contents, strict=True):
            index = self._index_of(entry.key)
            stored = self.partitions.setdefault(
                Partition(entry.priority, index), _MemoryPartition()
            )
            ids.append(message_id(index, stored.end))
            stored.times.append(now)
            stored.contents.append(content)
        return ids

    def _index_of(self, key: str | None) -> int:
        if key is not None:
            return crc32(key.encode()) % self.spec.queues
        self._turn += 1
        return self._turn % self.spec.queues

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


class MemoryEngine:
    """See store.topics.engine.TopicEngine. One lock for everything: it is made for tests."""

    def __init__(self, name: str = "memory", max_body: int = MAX_BODY) -> None:
        self.name = name
        self.max_body = max_body
        self._lock = RLock()
        self._topics: dict[str, _Topic] = {}
        self._boot = os.urandom(8).hex()
        self._claims = count(1)

    @contextmanager
    def _using(self, topic: str) -> Iterator[_Topic]:
        with self._lock:
            found = self._topics.get(topic)
            if found is None:
                raise NoSuchTopic(f"no topic '{topic}'")
            if found.spec.retention is not None:
                found.expire(found.spec.retention, _wall_ms())
            yield found

    # -- topics ----------------------------------------------------------------------------------

    def create(self, spec: TopicSpec) -> TopicInfo:
        check_topic(spec.name)
        refuse_options(spec, self.name)
        if spec.queues < 1:
            raise BadTopicValue(f"a topic has 1 queue or more, not {spec.queues}")
        with self._lock:
            known = self._topics.get(spec.name)
            if known is None:
                known = _Topic(spec, _wall_ms(), self._boot, self._claims.__next__)
                self._topics[spec.name] = known
            asked = (spec.queues, spec.retention)
            if (known.spec.queues, known.spec.retention) != asked:
                raise TopicConflict(f"topic '{spec.name}' is there with other settings")
            return known.info(self.name)

    def delete(self, topic: str) -> None:
        with self._using(topic):
            del self._topics[topic]

    def describe(self, topic: str) -> TopicInfo:
        with self._using(topic) as found:
            return found.info(self.name)

    def topics(self) -> list[TopicInfo]:
        with self._lock:
            return [self._topics[name].info(self.name) for name in sorted(self._topics)]

    def uuids(self) -> dict[str, str]:
        with self._lock:
            return {name: topic.uuid for name, topic in self._topics.items()}

    # -- messages --------------------------------------------------------------------------------

    def append(self, topic: str, entries: Sequence[Entry]) -> list[int]:
        for entry in entries:
            if len(entry.body) > self.max_body:
                raise BodyTooLarge(f"a body of {len(entry.body)} bytes: at most {self.max_body}")
        with self._using(topic) as found:
            return found.append(entries, _wall_ms())

    def read(self, topic: str, reader: ConsumerSpec, batch: int) -> ReadResult:
        with self._using(topic) as found:
            return found.readers.read(reader, batch, _now_ms())

    def commit(self, topic: str, reader: ConsumerSpec, claim: Sequence[object]) -> None:
        with self._using(topic) as found:
            found.readers.commit(reader, claim, _now_ms())

    def nack(
        self,
        topic: str,
        reader: ConsumerSpec,
        claim: Sequence[object],
        ids: Sequence[tuple[Priority, int]] | None,
        delay_ms: int,
        reason: str = "",
    ) -> None:
        with self._using(topic) as found:
            found.readers.nack(reader, claim, ids, delay_ms, reason, _now_ms())

    def renew(self, topic: str, reader: ConsumerSpec, claim: Sequence[object]) -> None:
        with self._using(topic) as found:
            found.readers.renew(reader, claim, _now_ms())

    # -- readers ---------------------------------------------------------------------------------

    def seek(
        self,
        topic: str,
        reader: ConsumerSpec,
        *,
        positions: Mapping[Priority, int] | None = None,
        time_ms: int | None = None,
    ) -> None:
        with self._using(topic) as found:
            found.readers.seek(reader, _now_ms(), positions=positions, time_ms=time_ms)

    def lag(self, topic: str, reader: ConsumerSpec) -> list[PriorityLag]:
        with self._using(topic) as found:
            return found.readers.lag(reader, _now_ms())

    def groups(self, topic: str) -> list[GroupInfo]:
        with self._using(topic) as found:
            return found.readers.groups(_now_ms())

    def forget_group(self, topic: str, reader: ConsumerSpec) -> None:
        with self._using(topic) as found:
            found.readers.forget(reader)

    def dead(self, topic: str, group: str, limit: int = 100) -> list[tuple[StoredMessage, str]]:
        with self._using(topic) as found:
            return found.readers.dead(group, limit)

    def close(self) -> None:
        with self._lock:
            self._topics.clear()


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
