"""Base of engines that keep their messages themselves: topics with one log per partition.

A subclass stores messages (`LocalTopic`), and what groups have done (`ProgressStore`); the rules of
consumers and groups are in `TopicGroups`. One lock is held during each call.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import count
from threading import RLock
from typing import Final
from zlib import crc32

from headrace.errors import BadTopicValue, BodyTooLarge, NoSuchTopic, TopicConflict
from headrace.model.retention import Retention
from headrace.model.topics.message_priority import Priority
from headrace.model.topics.names import check_topic
from headrace.model.topics.partitions import Partition
from headrace.store.topics.groups import ProgressStore, TopicGroups
from headrace.store.topics.reads import TopicLog, parts_of
from headrace.store.topics.types import (
    ConsumerSpec,
    Entry,
    GroupInfo,
    PriorityLag,
    ReadResult,
    StoredMessage,
    TopicInfo,
    TopicSpec,
    refuse_options,
)

MAX_BODY: Final = 16 << 20


class LocalTopic(TopicLog):
    """One topic, also the `TopicLog` of its readers. Subclasses store the messages, and have the
    other methods of `TopicLog`."""

    def __init__(self, spec: TopicSpec, uuid: str, created_at: int) -> None:
        self.spec = spec
        self.uuid = uuid
        self.created_at = created_at
        self._turn = 0

    # -- of subclasses ---------------------------------------------------------------------------

    def append(self, entries: Sequence[Entry], now: int) -> list[int]:
        """Store them with time ``now``, or a later one that was used before; their ids."""
        raise NotImplementedError

    def expire(self, retention: Retention, now: int) -> None:
        """Remove what the retention does not keep."""
        raise NotImplementedError

    # -- for them --------------------------------------------------------------------------------

    @property
    def queues(self) -> int:
        return self.spec.queues

    def partition_for(self, entry: Entry) -> Partition:
        """Messages of one key go to one queue."""
        self._turn += 1
        number = self._turn if entry.key is None else crc32(entry.key.encode())
        return Partition(entry.priority, number % self.queues)

    def info(self, engine: str) -> TopicInfo:
        spec = self.spec
        return TopicInfo(
            spec.name, self.uuid, engine, spec.queues, spec.retention, self.created_at,
            parts_of(self),
        )  # fmt: skip


class LocalEngine:
    """See store.topics.engine.TopicEngine. Subclasses make topics."""

    def __init__(self, name: str, max_body: int = MAX_BODY) -> None:
        self.name = name
        self.max_body = max_body
        self._lock = RLock()
        self._topics: dict[str, LocalTopic] = {}
        self._readers: dict[str, TopicGroups] = {}
        self._boot = os.urandom(8).hex()
        self._claims = count(1)

    # -- of subclasses ---------------------------------------------------------------------------

    def make(self, spec: TopicSpec) -> tuple[LocalTopic, ProgressStore]:
        """A new topic, and what keeps the progress of its readers."""
        raise NotImplementedError

    def drop(self, topic: LocalTopic) -> None:
        """Everything of the topic is removed."""

    def changes(self) -> AbstractContextManager[object]:
        """Around each call: its changes are kept together, or not at all when it fails."""
        return nullcontext()

    def now_ms(self) -> int:
        """The clock of leases and delays; of an engine that survives restarts, the wall clock."""
        return time.monotonic_ns() // 1_000_000

    def add(self, topic: LocalTopic, notes: ProgressStore) -> TopicGroups:
        """Make the topic known; returns its readers, for what was noted of them earlier."""
        number: Callable[[], int] = self._claims.__next__
        self._topics[topic.spec.name] = topic
        readers = TopicGroups(topic.uuid, topic, notes, self._boot, number)
        self._readers[topic.spec.name] = readers
        return readers

    @contextmanager
    def _using(self, topic: str) -> Iterator[LocalTopic]:
        with self._lock, self.changes():
            found = self._topics.get(topic)
            if found is None:
                raise NoSuchTopic(f"no topic '{topic}'")
            if found.spec.retention is not None:
                found.expire(found.spec.retention, wall_ms())
            yield found

    @contextmanager
    def _reading(self, topic: str) -> Iterator[TopicGroups]:
        with self._using(topic):
            yield self._readers[topic]

    # -- topics ----------------------------------------------------------------------------------

    def create(self, spec: TopicSpec) -> TopicInfo:
        check_topic(spec.name)
        refuse_options(spec, self.name)
        if spec.queues < 1:
            raise BadTopicValue(f"a topic has 1 queue or more, not {spec.queues}")
        with self._lock, self.changes():
            known = self._topics.get(spec.name)
            if known is None:
                known, notes = self.make(spec)
                self.add(known, notes)
            asked = (spec.queues, spec.retention)
            if (known.spec.queues, known.spec.retention) != asked:
                raise TopicConflict(f"topic '{spec.name}' is there with other settings")
            return known.info(self.name)

    def delete(self, topic: str) -> None:
        with self._using(topic) as found:
            self.drop(found)
            del self._topics[topic], self._readers[topic]

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
            return found.append(entries, wall_ms())

    def read(self, topic: str, reader: ConsumerSpec, batch: int) -> ReadResult:
        with self._reading(topic) as readers:
            return readers.read(reader, batch, self.now_ms())

    def commit(self, topic: str, reader: ConsumerSpec, claim: Sequence[object]) -> None:
        with self._reading(topic) as readers:
            readers.commit(reader, claim, self.now_ms())

    def nack(
        self,
        topic: str,
        reader: ConsumerSpec,
        claim: Sequence[object],
        ids: Sequence[tuple[Priority, int]] | None,
        delay_ms: int,
        reason: str = "",
    ) -> None:
        with self._reading(topic) as readers:
            readers.nack(reader, claim, ids, delay_ms, reason, self.now_ms())

    def renew(self, topic: str, reader: ConsumerSpec, claim: Sequence[object]) -> None:
        with self._reading(topic) as readers:
            readers.renew(reader, claim, self.now_ms())

    # -- readers ---------------------------------------------------------------------------------

    def seek(
        self,
        topic: str,
        reader: ConsumerSpec,
        *,
        positions: Mapping[Priority, int] | None = None,
        time_ms: int | None = None,
    ) -> None:
        with self._reading(topic) as readers:
            readers.seek(reader, self.now_ms(), positions=positions, time_ms=time_ms)

    def lag(self, topic: str, reader: ConsumerSpec) -> list[PriorityLag]:
        with self._reading(topic) as readers:
            return readers.lag(reader, self.now_ms())

    def groups(self, topic: str) -> list[GroupInfo]:
        with self._reading(topic) as readers:
            return readers.groups(self.now_ms())

    def forget_group(self, topic: str, reader: ConsumerSpec) -> None:
        with self._reading(topic) as readers:
            readers.forget(reader)

    def dead(self, topic: str, group: str, limit: int = 100) -> list[tuple[StoredMessage, str]]:
        with self._reading(topic) as readers:
            return readers.dead(group, limit)

    def close(self) -> None:
        with self._lock:
            self._topics.clear()
            self._readers.clear()


def wall_ms() -> int:
    return time.time_ns() // 1_000_000
