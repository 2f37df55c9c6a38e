"""The topic engine interface. The same contract tests run on each engine.

Calls block until what they say is safe; they may be made from any thread. The engine of the log
is the exception: its calls never block and belong on the loop, and `core.topics.async_engine` adds
what a reply waits for. A message is known by
its priority and id: ids rise within a priority (and a partition of it) and are never reused.

Reading. A single consumer (no group) has one position per priority, moved by commit. Members of a
group share one progress: read() hands out ranges as a claim with a lease; commit() of a claim is
accepted once, from the member that read it, until another member has taken the claim over. A token
that reads both alone and in a group has two independent positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from headrace.model.topics.message_priority import Priority
from headrace.store.topics.types import (
    ConsumerSpec,
    Entry,
    GroupInfo,
    PriorityLag,
    RangeQuery,
    ReadResult,
    StoredMessage,
    TopicInfo,
    TopicPin,
    TopicRanges,
    TopicSpec,
)


class TopicAdmin(Protocol):
    """Topics of the engine."""

    def create(self, spec: TopicSpec) -> TopicInfo:
        """The topic. One that is there already is returned as it is, unless ``spec`` asks for
        other queues or retention: that raises TopicConflict."""

    def delete(self, topic: str) -> None: ...

    def describe(self, topic: str) -> TopicInfo:
        """Raises NoSuchTopic."""

    def topics(self) -> list[TopicInfo]: ...

    def uuids(self) -> dict[str, str]:
        """Of all topics by name; cheap enough to be called every few seconds."""


class TopicAppend(Protocol):
    """For producers."""

    @property
    def max_body(self) -> int: ...

    def append(self, topic: str, entries: Sequence[Entry]) -> list[int]:
        """Their ids, in order, when all are safe. All or nothing per priority."""


class TopicConsume(Protocol):
    """For consumers."""

    def read(self, topic: str, reader: ConsumerSpec, batch: int) -> ReadResult:
        """At most ``batch`` messages: high, then middle, then low. Exactly that many when there
        are enough. Does not wait for messages to come."""

    def commit(self, topic: str, reader: ConsumerSpec, claim: Sequence[object]) -> None:
        """All priorities of the claim, in one step. Raises ClaimLost, and changes nothing, when the
        claim is not this reader's (any more)."""

    def nack(
        self,
        topic: str,
        reader: ConsumerSpec,
        claim: Sequence[object],
        ids: Sequence[tuple[Priority, int]] | None,
        delay_ms: int,
        reason: str = "",
    ) -> None:
        """Of a group's claim: these are to be tried again after the delay, or are dead when they
        were tried often enough. They count as done in the claim, which still has to be committed.
        Without ids it is the whole claim, which ends with that.
        """

    def renew(self, topic: str, reader: ConsumerSpec, claim: Sequence[object]) -> None:
        """Restart the lease; ClaimLost as for commit."""


class GroupAdmin(Protocol):
    """Positions of groups and single consumers."""

    def seek(
        self,
        topic: str,
        reader: ConsumerSpec,
        *,
        positions: Mapping[Priority, int] | None = None,
        time_ms: int | None = None,
    ) -> None:
        """The next message read is the first with an id above the position, or stored at that
        time or later. Claims that are out become void."""

    def lag(self, topic: str, reader: ConsumerSpec) -> list[PriorityLag]:
        """One per priority, high first. Does not make the reader known."""

    def groups(self, topic: str) -> list[GroupInfo]: ...

    def forget_group(self, topic: str, reader: ConsumerSpec) -> None:
        """The group's (or single consumer's) progress is deleted."""

    def dead(self, topic: str, group: str, limit: int = 100) -> list[tuple[StoredMessage, str]]:
        """Messages the group has given up, with the reason."""


class TopicEngine(TopicAdmin, TopicAppend, TopicConsume, GroupAdmin, Protocol):
    """See the contract tests for what each call promises."""

    name: str

    def close(self) -> None: ...


class BulkReads(Protocol):
    """Ranges of ids, for readers such as Spark, which select rows by themselves."""

    def ranges(self, topic: str, time_ms: int | None, patience_s: float) -> TopicRanges:
        """With everything that is committed now, unless a gap is left after ``patience_s``."""

    def query(
        self, topic: str, priority: Priority, start: int, end: int, names: Iterable[str]
    ) -> RangeQuery:
        """Reads ids start .. end - 1: always the same rows."""


class TopicPins(Protocol):
    """Retention keeps what is pinned for a query."""

    def pin(
        self, topic: str, query: str, start: Mapping[Priority, int], end: Mapping[Priority, int]
    ) -> None:
        """The query is about to read the ids above ``start`` up to ``end``."""

    def unpin(self, topic: str, query: str) -> None: ...

    def pins(self) -> list[TopicPin]: ...


@runtime_checkable
class BulkEngine(Protocol):
    """An engine whose topics Spark can read."""

    bulk: BulkReads
    pins: TopicPins
