"""Fixtures of the contract; they need `engine`, which you write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from uuid import uuid4

import pytest

from headrace.errors import NoSuchTopic
from headrace.model.topics.message_priority import Priority
from headrace.store.topics.engine import TopicEngine
from headrace.store.topics.types import Entry, TopicSpec

__all__ = ["fill", "new_topic", "topic"]


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


Fill = Callable[..., list[int]]


@pytest.fixture
def fill(engine: TopicEngine, topic: str) -> Fill:
    """Append bodies to a priority: `fill("a", "b", priority=Priority.HIGH)`."""

    def fill(*bodies: str, priority: Priority = Priority.MIDDLE) -> list[int]:
        return engine.append(topic, [Entry(body.encode(), priority) for body in bodies])

    return fill
