"""Fixtures of the contract; they need `engine`, which you write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import uuid4

import pytest

from headrace.errors import NoSuchTopic
from headrace.model.topics.message_priority import Priority
from headrace.store.topics.engine import TopicEngine
from headrace.store.topics.types import ConsumerSpec, Entry, PriorityLag, ReadResult, TopicSpec
from headrace.testing.wait import wait_for

__all__ = ["Subject", "bodies", "fill", "ids_of", "new_topic", "subject", "topic"]


@pytest.fixture
def new_topic(engine: TopicEngine) -> Iterator[Callable[..., str]]:
    """Topics that are deleted in the end: `new_topic(queues=4)`."""
    made: list[str] = []

    def new_topic(**named: object) -> str:
        name = f"t_{uuid4().hex[:12]}"
        engine.create(TopicSpec(name, **named))  # type: ignore[arg-type]
        made.append(name)
        return name

    yield new_topic
    for name in made:
        with suppress(NoSuchTopic):
            engine.delete(name)


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    """A topic with one queue."""
    return new_topic()


@dataclass(frozen=True, slots=True)
class Subject:
    """A topic, and what nearly every test does with it."""

    engine: TopicEngine
    name: str

    def fill(self, *bodies: str, priority: Priority = Priority.MIDDLE) -> list[int]:
        return self.engine.append(self.name, [Entry(body.encode(), priority) for body in bodies])

    def read(self, reader: ConsumerSpec, batch: int = 10) -> ReadResult:
        return self.engine.read(self.name, reader, batch)

    def bodies(self, reader: ConsumerSpec, batch: int = 10) -> list[str]:
        return bodies(self.read(reader, batch))

    def read_some(self, reader: ConsumerSpec) -> ReadResult:
        """Read until there is a message: a delay, or the lease of another member, must end."""
        return wait_for(lambda: [one for one in [self.read(reader, 100)] if one.messages])[0]

    def commit(self, reader: ConsumerSpec, taken: ReadResult) -> None:
        self.engine.commit(self.name, reader, taken.claim)

    def nack(
        self,
        reader: ConsumerSpec,
        taken: ReadResult,
        ids: Sequence[tuple[Priority, int]] | None,
        delay: int = 0,
        reason: str = "",
    ) -> None:
        self.engine.nack(self.name, reader, taken.claim, ids, delay, reason)

    def lag(self, reader: ConsumerSpec, priority: Priority = Priority.MIDDLE) -> PriorityLag:
        return {one.priority: one for one in self.engine.lag(self.name, reader)}[priority]


def bodies(taken: ReadResult) -> list[str]:
    return [message.body.decode() for message in taken.messages]


def ids_of(taken: ReadResult) -> list[tuple[Priority, int]]:
    return [(message.priority, message.id) for message in taken.messages]


@pytest.fixture
def subject(engine: TopicEngine, topic: str) -> Subject:
    return Subject(engine, topic)


@pytest.fixture
def fill(subject: Subject) -> Callable[..., list[int]]:
    """Append bodies to a priority: `fill("a", "b", priority=Priority.HIGH)`."""
    return subject.fill
