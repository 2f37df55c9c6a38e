"""The topic engine interface for callers on the event loop.

Nothing here blocks. A call replies through ``then``: at once or later, on the loop. Errors are in
the reply, never raised. A call that needs nothing special of the loop goes through `submit()`, so
that it is written once, in the engine (`store.topics.engine.TopicEngine`). There are two adapters:
`LoopAdapter` for the engine of the log, `BlockingAdapter` for engines that block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from headrace.errors import BrokerError
from headrace.store.topics.engine import TopicEngine
from headrace.store.topics.types import ConsumerSpec, Entry, ReadResult, TopicInfo, TopicSpec

T = TypeVar("T")


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


CancelRead = Callable[[], None]  # ends a waiting read whose reader is gone


class AsyncTopics(Protocol):
    """Topics of one vhost, as far as they are known."""

    def knows(self, topic: str) -> bool:
        """Whether the topic is one of this engine's."""

    def names(self) -> Sequence[str]: ...

    def declare(self, spec: TopicSpec, then: Then[DeclaredTopic]) -> None: ...

    def delete(self, topic: str, then: Then[None]) -> None: ...

    def infos(self, then: Then[list[TopicInfo]]) -> None:
        """All topics of the engine, by name."""


class AsyncTopicEngine(AsyncTopics, Protocol):
    """The topics of one engine in one vhost."""

    name: str

    @property
    def max_body(self) -> int: ...

    def submit(self, call: Callable[[TopicEngine], T], then: Then[T]) -> None:
        """Make the call; it may run in a thread."""

    def append(self, topic: str, entries: Sequence[Entry], then: Then[list[int]]) -> None:
        """As `TopicAppend.append`; appends of many publishers may be made in one call."""

    def read(
        self, topic: str, reader: ConsumerSpec, batch: int, wait_ms: int, then: Then[ReadResult]
    ) -> CancelRead:
        """Replies as soon as there is a message, or when the time is over."""

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
