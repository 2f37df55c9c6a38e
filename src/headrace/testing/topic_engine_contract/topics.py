"""Declaring, describing and deleting topics, on every engine."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.errors import BadTopicName, BadTopicValue, NoSuchTopic, TopicConflict
from headrace.model.retention import Retention
from headrace.model.topics.message_priority import Priority
from headrace.store.topics.engine import TopicEngine
from headrace.store.topics.types import ConsumerSpec, Entry, TopicSpec

NewTopic = Callable[..., str]


def test_a_new_topic_is_as_it_was_asked_for(engine: TopicEngine, new_topic: NewTopic) -> None:
    retention = Retention(86_400_000, 1 << 30)
    name = new_topic(queues=4, retention=retention)

    info = engine.describe(name)

    assert (info.name, info.queues, info.retention) == (name, 4, retention)
    assert info.engine == engine.name
    assert info.uuid
    assert info.created_at > 1_600_000_000_000


def test_declaring_again_changes_nothing(engine: TopicEngine, topic: str) -> None:
    before = engine.describe(topic)

    again = engine.create(TopicSpec(topic))

    assert again.uuid == before.uuid


@pytest.mark.parametrize(
    "other", [{"queues": 2}, {"retention": Retention(1000)}], ids=["queues", "retention"]
)
def test_declaring_something_else_is_a_conflict(
    engine: TopicEngine, topic: str, other: dict[str, object]
) -> None:
    before = engine.describe(topic)

    with pytest.raises(TopicConflict):
        engine.create(TopicSpec(topic, **other))  # type: ignore[arg-type]

    assert engine.describe(topic) == before


@pytest.mark.parametrize(
    "name", ["", "Orders", "a" * 41, "x_low", "x_middle", "x_high", "a'b", "a`b", "1a", "a.b", "ü"]
)
def test_names_that_cannot_be_topics_are_refused(engine: TopicEngine, name: str) -> None:
    with pytest.raises(BadTopicName):
        engine.create(TopicSpec(name))
    with pytest.raises(NoSuchTopic):
        engine.describe(name)


def test_a_name_of_forty_characters_is_fine(engine: TopicEngine) -> None:
    name = "a" * 40
    engine.create(TopicSpec(name))
    engine.append(name, [Entry(b"x")])
    assert [one.body for one in engine.read(name, ConsumerSpec("c"), 5).messages] == [b"x"]
    engine.delete(name)


def test_all_topics_are_listed(engine: TopicEngine, new_topic: NewTopic) -> None:
    names = [new_topic(), new_topic()]

    listed = [info.name for info in engine.topics()]

    assert set(names) <= set(listed)


def test_what_is_not_there_cannot_be_used(engine: TopicEngine) -> None:
    reader = ConsumerSpec("c")
    for call in (
        lambda: engine.describe("nowhere"),
        lambda: engine.delete("nowhere"),
        lambda: engine.append("nowhere", [Entry(b"")]),
        lambda: engine.read("nowhere", reader, 1),
        lambda: engine.lag("nowhere", reader),
        lambda: engine.seek("nowhere", reader, time_ms=0),
        lambda: engine.groups("nowhere"),
    ):
        with pytest.raises(NoSuchTopic):
            call()


def test_a_deleted_topic_is_gone_with_its_messages_and_readers(
    engine: TopicEngine, topic: str
) -> None:
    engine.append(topic, [Entry(b"old")])
    group = ConsumerSpec("c", "g")
    taken = engine.read(topic, group, 10)
    engine.commit(topic, group, taken.claim)
    before = engine.describe(topic)
    engine.delete(topic)
    with pytest.raises(NoSuchTopic):
        engine.describe(topic)

    after = engine.create(TopicSpec(topic))
    assert after.uuid != before.uuid
    engine.append(topic, [Entry(b"new")])
    assert [one.body for one in engine.read(topic, group, 10).messages] == [b"new"]
    assert engine.groups(topic)[0].members == ("c",)


def test_partitions_have_a_readable_range(engine: TopicEngine, topic: str) -> None:
    ids = engine.append(topic, [Entry(b"1"), Entry(b"2"), Entry(b"3")])
    engine.append(topic, [Entry(b"h", Priority.HIGH)])

    parts = {part.priority: part for part in engine.describe(topic).parts}

    middle = parts[Priority.MIDDLE]
    assert (middle.partition_index, middle.first, middle.end) == (0, ids[0], ids[-1] + 1)
    assert middle.first_time is not None and middle.last_time is not None
    assert middle.first_time <= middle.last_time
    assert parts[Priority.HIGH].end - parts[Priority.HIGH].first == 1


def test_an_option_that_the_engine_does_not_have_is_refused(engine: TopicEngine) -> None:
    """An option that is ignored without an error would be relied on."""
    with pytest.raises(BadTopicValue, match="no_such_option"):
        engine.create(TopicSpec("t_options", options={"no_such_option": True}))
    with pytest.raises(NoSuchTopic):
        engine.describe("t_options")
