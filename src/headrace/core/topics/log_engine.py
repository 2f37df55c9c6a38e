"""The topics of one vhost in the commit log. Everything happens on the loop, at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import TypeVar
from uuid import uuid4

from headrace.core.spark_support.pins import PREFIX, Pins
from headrace.core.topics.async_engine import CancelRead, DeclaredTopic, EngineReply, Then
from headrace.core.topics.exchange_bridge import (
    ExchangeBridge,
    LogSink,
    RefusingSink,
    exchange_arguments,
    topic_exchange_name,
)
from headrace.core.topics.log_topic import LOG, LogTopic, retention_settings
from headrace.core.topics.progress_rows import ASSIGNED
from headrace.core.topics.waiting_reads import WaitingRead, WaitingReads
from headrace.core.vhost_services import VhostServices
from headrace.errors import (
    AccessRefused,
    BadTopicValue,
    BrokerError,
    EngineUnavailable,
    NoSuchTopic,
    TopicConflict,
)
from headrace.model.topics.message_priority import Priority
from headrace.store.api.rows import CursorRow, RetryRow, TopicRow
from headrace.store.topics.engine import TopicEngine
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
from headrace.wire.remoting.names import HIDDEN_TOPICS

T = TypeVar("T")


class LogEngine:
    """See store.topics.engine.TopicEngine. Calls never block; they are made on the loop."""

    name = LOG
    max_body = (1 << 32) - 1  # the front doors have a limit of their own

    def __init__(self, services: VhostServices, bridge: ExchangeBridge, pins: Pins) -> None:
        self._services = services
        self._bridge = bridge
        self._pins = pins
        self.by_name: dict[str, LogTopic] = {}
        self._waiting: dict[str, WaitingReads] = {}
        self._boot = os.urandom(8).hex()  # claims given before this start are void
        self._claims = count(1)
        # Of groups of RocketMQ clients, who divide the queues among themselves.
        self.members_of: Callable[[str], Sequence[str]] = lambda group: ()
        self.on_delete: Callable[[str], object] = lambda topic: None

    # -- topics ----------------------------------------------------------------------------------

    def get(self, name: str) -> LogTopic:
        topic = self.by_name.get(name)
        if topic is None:
            raise NoSuchTopic(f"no topic '{name}' in vhost '{self._services.name}'")
        return topic

    def make(self, spec: TopicSpec) -> tuple[LogTopic, bool]:
        """The topic, and whether it is new. The name may be any: callers have checked it."""
        refuse_options(spec, self.name)
        known = self.by_name.get(spec.name)
        if known is not None:
            if known.queues != spec.queues or known.retention != spec.retention:
                raise TopicConflict(
                    f"topic '{spec.name}' is there with {known.queues} queues and retention "
                    f"{known.retention}; it was left as it is"
                )
            return known, False
        if self._services.storage.log is None:
            raise EngineUnavailable("this broker stores nothing, so it has no log topics")
        self._bridge.check_free(spec.name)
        now = int(self._services.clock.wall_seconds() * 1000)
        row = TopicRow(
            self._services.name,
            spec.name,
            str(uuid4()),
            spec.queues,
            now,
            retention_settings(spec.retention),
        )
        topic = self._add(row)
        self._services.storage.save(topic.row())
        return topic, True

    def append_to(self, spec: TopicSpec, entries: Sequence[Entry]) -> None:
        """Append to a topic of the broker, which is created if it is missing."""
        self.make(spec)[0].append(entries)

    def restore(
        self, row: TopicRow, cursors: Sequence[CursorRow], retries: Sequence[RetryRow]
    ) -> None:
        """A topic found at start."""
        topic = self._add(row)
        topic.assigned.restore([one for one in cursors if one.kind == ASSIGNED])
        claims = [one for one in cursors if one.kind != ASSIGNED]
        topic.notes.restore(topic.readers, claims, retries)

    def _add(self, row: TopicRow) -> LogTopic:
        topic = LogTopic(self._services, self._bridge, row, self._boot, self._claims.__next__)
        self.by_name[row.name] = topic
        waiting = WaitingReads(self._services.timers, topic.readers.next_event)
        self._waiting[row.name] = waiting
        topic.when_appended(waiting.try_all)
        arguments = exchange_arguments(topic.queues, topic.retention)
        is_hidden = row.name in HIDDEN_TOPICS
        sink = RefusingSink(topic_exchange_name(row.name)) if is_hidden else LogSink(topic)
        self._bridge.open(row.name, sink, arguments=arguments).internal = is_hidden
        return topic

    def create(self, spec: TopicSpec) -> TopicInfo:
        return self.make(spec)[0].info()

    def delete(self, topic: str) -> None:
        if topic in HIDDEN_TOPICS:
            raise AccessRefused(f"topic '{topic}' is internal: confirmed messages wait in it")
        self._delete(topic)

    def _delete(self, topic: str) -> None:
        self.get(topic).delete()
        self.on_delete(topic)
        del self.by_name[topic]
        self._waiting.pop(topic).end_all()
        self._bridge.close(topic)

    def describe(self, topic: str) -> TopicInfo:
        return self.get(topic).info()

    def topics(self) -> list[TopicInfo]:
        return [self.by_name[name].info() for name in sorted(self.by_name)]

    def uuids(self) -> dict[str, str]:
        return {name: topic.uuid for name, topic in self.by_name.items()}

    def expire(self, now_ms: int) -> None:
        for topic in self.by_name.values():
            topic.expire(now_ms)

    # -- messages --------------------------------------------------------------------------------

    def append(self, topic: str, entries: Sequence[Entry]) -> list[int]:
        return self.get(topic).append(entries).ids

    def read(self, topic: str, reader: ConsumerSpec, batch: int) -> ReadResult:
        found = self.get(topic)
        _check_claims(found, reader)
        return found.readers.read(reader, batch, self._now())

    def wait(self, topic: str, read: WaitingRead) -> Callable[[], None]:
        """Try the read again when there may be something for it; returns what ends that."""
        return self._waiting[topic].add(read)

    def commit(self, topic: str, reader: ConsumerSpec, claim: Sequence[object]) -> None:
        self.get(topic).readers.commit(reader, claim, self._now())

    def nack(
        self,
        topic: str,
        reader: ConsumerSpec,
        claim: Sequence[object],
        ids: Sequence[tuple[Priority, int]] | None,
        delay_ms: int,
        reason: str = "",
    ) -> None:
        self.get(topic).readers.nack(reader, claim, ids, delay_ms, reason, self._now())
        self._waiting[topic].try_all()

    def renew(self, topic: str, reader: ConsumerSpec, claim: Sequence[object]) -> None:
        self.get(topic).readers.renew(reader, claim, self._now())

    # -- groups ----------------------------------------------------------------------------------

    def seek(
        self,
        topic: str,
        reader: ConsumerSpec,
        *,
        positions: Mapping[Priority, int] | None = None,
        time_ms: int | None = None,
    ) -> None:
        found = self.get(topic)
        _check_claims(found, reader)
        if any(reader.group == one.group for one in self._pins.groups_of("topic", topic)):
            raise BadTopicValue(
                f"group '{reader.group}' of topic '{topic}' is a Spark query: its position is in "
                "its checkpoint, and cannot be set from here"
            )
        found.readers.seek(reader, self._now(), positions=positions, time_ms=time_ms)
        self._waiting[topic].try_all()

    def lag(self, topic: str, reader: ConsumerSpec) -> list[PriorityLag]:
        for one in self._pins.groups_of("topic", topic):
            if reader.group == one.group:
                return list(one.lag)
        found = self.get(topic)
        if reader.group and (offsets := found.assigned.groups().get(reader.group)) is not None:
            return found.readers.lag_at(offsets)
        return found.readers.lag(reader, self._now())

    def groups(self, topic: str) -> list[GroupInfo]:
        found = self.get(topic)
        groups = found.readers.groups(self._now())
        groups += [
            GroupInfo(group, "", tuple(self.members_of(group)), tuple(found.readers.lag_at(its)))
            for group, its in sorted(found.assigned.groups().items())
        ]
        return groups + self._pins.groups_of("topic", topic)

    def forget_group(self, topic: str, reader: ConsumerSpec) -> None:
        if reader.group is not None and reader.group.startswith(PREFIX):
            self._pins.remove(reader.group.removeprefix(PREFIX), "topic", topic)
        found = self.get(topic)
        if reader.group:
            found.assigned.forget(reader.group)
        found.readers.forget(reader)
        self._waiting[topic].try_all()

    def dead(self, topic: str, group: str, limit: int = 100) -> list[tuple[StoredMessage, str]]:
        return self.get(topic).readers.dead(group, limit)

    def close(self) -> None:
        """The vhost is deleted, and its topics with it."""
        for name in list(self.by_name):
            self._delete(name)

    def _now(self) -> int:
        return self._services.clock.now_ms()


def _check_claims(topic: LogTopic, reader: ConsumerSpec) -> None:
    """A group reads by claims or divides the queues: which of the two is fixed at its first use."""
    if reader.group and reader.group in topic.assigned.groups():
        raise BadTopicValue(
            f"group '{reader.group}' of topic '{topic.name}' belongs to RocketMQ clients, which "
            "allocate the queues among themselves: use another name"
        )


class LoopAdapter:
    """See core.topics.async_engine.AsyncTopicEngine. Every call is made at once; a reply waits for
    what the call has appended or changed: for the log, or for metadata."""

    def __init__(self, engine: LogEngine, services: VhostServices) -> None:
        self.name = engine.name
        self.max_body = engine.max_body
        self._engine = engine
        self._services = services

    def submit(self, call: Callable[[TopicEngine], T], then: Then[T]) -> None:
        try:
            value = call(self._engine)
        except BrokerError as error:
            then(EngineReply(error=error))
        else:
            then(EngineReply(value, metadata_version=self._services.storage.issued))

    # -- topics ----------------------------------------------------------------------------------

    def knows(self, topic: str) -> bool:
        return topic in self._engine.by_name

    def names(self) -> Sequence[str]:
        return sorted(self._engine.by_name)

    def declare(self, spec: TopicSpec, then: Then[DeclaredTopic]) -> None:
        created = not self.knows(spec.name)
        self.submit(lambda engine: DeclaredTopic(engine.create(spec), created), then)

    def delete(self, topic: str, then: Then[None]) -> None:
        self.submit(lambda engine: engine.delete(topic), then)

    def infos(self, then: Then[list[TopicInfo]]) -> None:
        self.submit(lambda engine: engine.topics(), then)

    # -- messages --------------------------------------------------------------------------------

    def append(self, topic: str, entries: Sequence[Entry], then: Then[list[int]]) -> None:
        try:
            ids, position = self._engine.get(topic).append(entries)
        except BrokerError as error:
            then(EngineReply(error=error))
        else:
            then(EngineReply(ids, position=position))

    def read(
        self, topic: str, reader: ConsumerSpec, batch: int, wait_ms: int, then: Then[ReadResult]
    ) -> CancelRead:
        def attempt(must: bool) -> bool:
            try:
                result = self._engine.read(topic, reader, batch)
            except BrokerError as error:
                then(EngineReply(error=error))
                return True
            if not result.messages and not must:
                return False
            then(EngineReply(result))
            return True

        if attempt(must=wait_ms <= 0):
            return _nothing
        deadline = self._services.clock.now_ms() + wait_ms
        return self._engine.wait(topic, WaitingRead(reader, deadline, attempt))

    def close(self) -> None:
        """The vhost is deleted, and its topics with it."""
        self._engine.close()


def _nothing() -> None:
    return
