"""What front doors ask of a vhost's topics, whatever engine they are in.

Nothing here blocks. A call answers through ``then``: at once or later, on the loop. What the
caller did wrong may also be raised by the call itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from headrace.errors import BrokerError
from headrace.model.topics.message_priority import Priority
from headrace.store.topics.types import (
    ConsumerSpec,
    Entry,
    GroupInfo,
    PriorityLag,
    TopicInfo,
    TopicSpec,
)

T = TypeVar("T")

# id, priority, partition, time, body, token, key, tags, source ip, message id, born, properties,
# attempts: as in store.topics.types.StoredMessage.
MessageRow = tuple[object, ...]


class EngineReply(NamedTuple, Generic[T]):
    """The outcome: a value, or an error. It counts once the log has reached ``position``, and
    metadata is committed up to ``metadata_version``."""

    value: T | None = None
    error: BrokerError | None = None
    position: int = 0
    metadata_version: int = 0


Then = Callable[[EngineReply[T]], None]


class DeclaredTopic(NamedTuple):
    topic: TopicInfo
    created: bool


class ReadResult(NamedTuple):
    """What a read gave."""

    messages: list[MessageRow]
    claim: tuple[object, ...]


class CancelRead(Protocol):
    """Ends a waiting read whose reader is gone."""

    def __call__(self) -> None: ...


class AsyncTopicAdmin(Protocol):
    """Topics of the engine."""

    def knows(self, topic: str) -> bool:
        """Whether the topic is one of this engine's."""

    def names(self) -> Sequence[str]: ...

    def declare(self, spec: TopicSpec, then: Then[DeclaredTopic]) -> None: ...

    def delete(self, topic: str, then: Then[None]) -> None: ...

    def describe(self, topic: str, then: Then[TopicInfo]) -> None: ...

    def infos(self, then: Then[list[TopicInfo]]) -> None:
        """All topics of the engine, by name."""


class AsyncTopicMessages(Protocol):
    """For producers and consumers."""

    @property
    def max_body(self) -> int: ...

    def append(self, topic: str, entries: Sequence[Entry], then: Then[list[int]]) -> None: ...

    def read(
        self, topic: str, reader: ConsumerSpec, batch: int, wait_ms: int, then: Then[ReadResult]
    ) -> CancelRead:
        """Answers as soon as there is a message, or when the time is over."""

    def commit(
        self, topic: str, reader: ConsumerSpec, claim: Sequence[object], then: Then[None]
    ) -> None: ...

    def nack(
        self,
        topic: str,
        reader: ConsumerSpec,
        claim: Sequence[object],
        ids: Sequence[tuple[Priority, int]] | None,
        delay_ms: int,
        reason: str,
        then: Then[None],
    ) -> None: ...

    def renew(
        self, topic: str, reader: ConsumerSpec, claim: Sequence[object], then: Then[None]
    ) -> None: ...


class AsyncGroupAdmin(Protocol):
    """Positions of groups and single consumers."""

    def seek(
        self,
        topic: str,
        reader: ConsumerSpec,
        positions: Mapping[Priority, int] | None,
        time_ms: int | None,
        then: Then[None],
    ) -> None: ...

    def lag(self, topic: str, reader: ConsumerSpec, then: Then[list[PriorityLag]]) -> None: ...

    def groups(self, topic: str, then: Then[list[GroupInfo]]) -> None: ...

    def forget_group(self, topic: str, reader: ConsumerSpec, then: Then[None]) -> None: ...

    def dead(
        self, topic: str, group: str, limit: int, then: Then[list[tuple[MessageRow, str]]]
    ) -> None: ...


class AsyncTopicEngine(AsyncTopicAdmin, AsyncTopicMessages, AsyncGroupAdmin, Protocol):
    """The topics of one engine in one vhost."""

    name: str

    def close(self) -> None: ...


def collect(calls: Sequence[Callable[[Then[list[T]]], None]], then: Then[list[T]]) -> None:
    """Make the calls one after the other; answer with everything together, or the first error."""
    found: list[T] = []
    todo = list(calls)

    def proceed(answer: EngineReply[list[T]]) -> None:
        if answer.error is not None:
            then(answer)
            return
        found.extend(answer.value or ())
        if todo:
            todo.pop(0)(proceed)
        else:
            then(EngineReply(found))

    proceed(EngineReply([]))
