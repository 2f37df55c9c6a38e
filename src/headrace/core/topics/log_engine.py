"""The topics of the log engine in one vhost. Everything happens on the loop, at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from uuid import uuid4

from headrace.core.spark_support.pins import PREFIX, Pins
from headrace.core.topics import divided
from headrace.core.topics.assigned_groups import ASSIGNED
from headrace.core.topics.async_engine import (
    CancelRead,
    DeclaredTopic,
    EngineReply,
    MessageRow,
    ReadResult,
    Then,
)
from headrace.core.topics.exchange_bridge import ExchangeBridge, LogSink, exchange_arguments
from headrace.core.topics.log_topic import LOG, LogTopic, retention_settings
from headrace.core.topics.waiting_reads import WaitingRead, WaitingReads
from headrace.core.vhost_services import VhostServices
from headrace.errors import BadTopicValue, EngineUnavailable, NoSuchTopic, TopicConflict
from headrace.model.topics.message_priority import Priority
from headrace.model.topics.partitions import message_id
from headrace.store.api.rows import CursorRow, RetryRow, TopicRow
from headrace.store.topics.entry import decode_entry
from headrace.store.topics.reads import DeliveredEntries
from headrace.store.topics.types import (
    ConsumerSpec,
    Entry,
    GroupInfo,
    PriorityLag,
    TopicInfo,
    TopicSpec,
    refuse_options,
)


class LogEngine:
    """See core.topics.async_engine.Engine, and store.topics.engine.TopicEngine for the promises."""

    name = LOG
    max_body = (1 << 32) - 1  # the front doors have a limit of their own

    def __init__(self, services: VhostServices, bridge: ExchangeBridge, pins: Pins) -> None:
        self._services = services
        self._bridge = bridge
        self._pins = pins
        self.topics: dict[str, LogTopic] = {}
        self._waiters: dict[str, WaitingReads] = {}
        self._boot = os.urandom(8).hex()  # claims given before this start are void
        self._claims = count(1)
        self.members_of: divided.MembersOf = lambda group: ()  # of RocketMQ: the front door knows

    # -- topics ----------------------------------------------------------------------------------

    def knows(self, topic: str) -> bool:
        return topic in self.topics

    def names(self) -> Sequence[str]:
        return sorted(self.topics)

    def get(self, name: str) -> LogTopic:
        topic = self.topics.get(name)
        if topic is None:
            raise NoSuchTopic(f"no topic '{name}' in vhost '{self._services.name}'")
        return topic

    def make(self, spec: TopicSpec) -> tuple[LogTopic, bool]:
        """The topic, and whether it is new. The name may be any: callers have checked it."""
        refuse_options(spec, self.name)
        known = self.topics.get(spec.name)
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
        self.topics[row.name] = topic
        waiters = WaitingReads(self._services.timers, topic.readers.next_event)
        self._waiters[row.name] = waiters
        topic.when_appended(waiters.try_all)
        arguments = exchange_arguments(topic.queues, topic.retention)
        self._bridge.open(row.name, LogSink(topic), arguments=arguments)
        return topic

    def declare(self, spec: TopicSpec, then: Then[DeclaredTopic]) -> None:
        topic, created = self.make(spec)
        then(EngineReply(DeclaredTopic(topic.info(), created)))

    def delete(self, topic: str, then: Then[None]) -> None:
        found = self.get(topic)
        found.delete()
        del self.topics[topic]
        self._waiters.pop(topic).end_all()
        self._bridge.close(topic)
        then(EngineReply())

    def describe(self, topic: str, then: Then[TopicInfo]) -> None:
        then(EngineReply(self.get(topic).info()))

    def infos(self, then: Then[list[TopicInfo]]) -> None:
        then(EngineReply([self.topics[name].info() for name in self.names()]))

    def expire(self, now_ms: int) -> None:
        for topic in self.topics.values():
            topic.expire(now_ms)

    # -- messages --------------------------------------------------------------------------------

    def append(self, topic: str, entries: Sequence[Entry], then: Then[list[int]]) -> None:
        ids, position = self.get(topic).append(entries)
        then(EngineReply(ids, position=position))

    def read(
        self, topic: str, reader: ConsumerSpec, batch: int, wait_ms: int, then: Then[ReadResult]
    ) -> CancelRead:
        found = self.get(topic)
        _check_claims(found, reader)
        clock = self._services.clock

        def attempt(must: bool) -> bool:
            if found.deleted:
                then(EngineReply(error=NoSuchTopic(f"topic '{topic}' was deleted")))
                return True
            given = found.readers.read(reader, batch, clock.now_ms())
            if not given.pieces and not must:
                return False
            rows = [row for piece in given.pieces for row in message_rows(piece)]
            then(EngineReply(ReadResult(rows, given.claim)))
            return True

        if attempt(must=wait_ms <= 0):
            return _nothing
        return self._waiters[topic].add(WaitingRead(reader, clock.now_ms() + wait_ms, attempt))

    def _changed(
        self, topic: str, change: Callable[[LogTopic, int], None], then: Then[None]
    ) -> None:
        """Do what readers ask for; it counts when it is on disk."""
        change(self.get(topic), self._services.clock.now_ms())
        self._waiters[topic].try_all()
        then(EngineReply(metadata_version=self._services.storage.issued))

    def commit(
        self, topic: str, reader: ConsumerSpec, claim: Sequence[object], then: Then[None]
    ) -> None:
        self.get(topic).readers.commit(reader, claim, self._services.clock.now_ms())
        then(EngineReply(metadata_version=self._services.storage.issued))

    def nack(
        self,
        topic: str,
        reader: ConsumerSpec,
        claim: Sequence[object],
        ids: Sequence[tuple[Priority, int]] | None,
        delay_ms: int,
        reason: str,
        then: Then[None],
    ) -> None:
        self._changed(
            topic,
            lambda one, now: one.readers.nack(reader, claim, ids, delay_ms, reason, now),
            then,
        )

    def renew(
        self, topic: str, reader: ConsumerSpec, claim: Sequence[object], then: Then[None]
    ) -> None:
        self.get(topic).readers.renew(reader, claim, self._services.clock.now_ms())
        then(EngineReply())

    def seek(
        self,
        topic: str,
        reader: ConsumerSpec,
        positions: Mapping[Priority, int] | None,
        time_ms: int | None,
        then: Then[None],
    ) -> None:
        _check_claims(self.get(topic), reader)
        if any(reader.group == one.group for one in self._pins.groups_of("topic", topic)):
            raise BadTopicValue(
                f"group '{reader.group}' of topic '{topic}' is a Spark query: its position is in "
                "its checkpoint, and cannot be set from here"
            )
        self._changed(
            topic,
            lambda one, now: one.readers.seek(reader, now, positions=positions, time_ms=time_ms),
            then,
        )

    def lag(self, topic: str, reader: ConsumerSpec, then: Then[list[PriorityLag]]) -> None:
        for one in self._pins.groups_of("topic", topic):
            if reader.group == one.group:
                then(EngineReply(list(one.lag)))
                return
        known = self.get(topic)
        if reader.group and (offsets := known.assigned.groups().get(reader.group)) is not None:
            then(EngineReply(list(divided.lag_of(known, offsets))))
            return
        then(EngineReply(known.readers.lag(reader, self._services.clock.now_ms())))

    def groups(self, topic: str, then: Then[list[GroupInfo]]) -> None:
        known = self.get(topic)
        groups = known.readers.groups(self._services.clock.now_ms())
        groups += divided.groups_of(known, self.members_of)
        then(EngineReply(groups + self._pins.groups_of("topic", topic)))

    def forget_group(self, topic: str, reader: ConsumerSpec, then: Then[None]) -> None:
        if reader.group is not None and reader.group.startswith(PREFIX):
            self._pins.remove(reader.group.removeprefix(PREFIX), "topic", topic)
        if reader.group:
            self.get(topic).assigned.forget(reader.group)
        self._changed(topic, lambda one, now: one.readers.forget(reader), then)

    def dead(
        self, topic: str, group: str, limit: int, then: Then[list[tuple[MessageRow, str]]]
    ) -> None:
        found = self.get(topic).readers.dead(group, limit)
        then(EngineReply([(row, reason) for piece, reason in found for row in message_rows(piece)]))

    def close(self) -> None:
        """The vhost is deleted, and its topics with it."""
        for name in list(self.topics):
            self.delete(name, lambda answer: None)


def message_rows(piece: DeliveredEntries) -> list[MessageRow]:
    """The entries of a piece, decoded."""
    (priority, index), attempts, time = piece.partition, piece.attempts, piece.time
    base = message_id(index, 0)
    return [
        (base + offset, priority, index, time, *decode_entry(content), attempts)
        for offset, content in zip(piece.offsets, piece.contents, strict=True)
    ]


def _check_claims(topic: LogTopic, reader: ConsumerSpec) -> None:
    """A group reads by claims or divides the queues: which of the two is fixed at its first use."""
    if reader.group and reader.group in topic.assigned.groups():
        raise BadTopicValue(
            f"group '{reader.group}' of topic '{topic.name}' belongs to RocketMQ clients, who "
            "divide the queues among themselves: take another name"
        )


def _nothing() -> None:
    return
