"""Seek, lag, lists of groups, retention."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.errors import ClaimLost
from headrace.model.retention import Retention
from headrace.model.topics.message_priority import Priority
from headrace.store.topics.engine import TopicEngine
from headrace.store.topics.types import ConsumerSpec, Entry, PriorityLag, ReadResult
from headrace.testing import wait_for

Fill = Callable[..., list[int]]
ANN = ConsumerSpec("ann", "g")
ALONE = ConsumerSpec("ann")
both = pytest.mark.parametrize("reader", [ANN, ALONE], ids=["group", "alone"])


def bodies(taken: ReadResult) -> list[str]:
    return [message.body.decode() for message in taken.messages]


def lag_of(
    engine: TopicEngine, topic: str, reader: ConsumerSpec, priority: Priority = Priority.MIDDLE
) -> PriorityLag:
    return {one.priority: one for one in engine.lag(topic, reader)}[priority]


# -- seek -----------------------------------------------------------------------------------------


@both
def test_seek_goes_back(engine: TopicEngine, topic: str, fill: Fill, reader: ConsumerSpec) -> None:
    ids = fill(*"abcd")
    engine.commit(topic, reader, engine.read(topic, reader, 10).claim)

    engine.seek(topic, reader, positions={Priority.MIDDLE: ids[1]})

    assert bodies(engine.read(topic, reader, 10)) == ["c", "d"]


@both
def test_seek_to_zero_is_the_beginning(
    engine: TopicEngine, topic: str, fill: Fill, reader: ConsumerSpec
) -> None:
    fill(*"ab")
    engine.commit(topic, reader, engine.read(topic, reader, 10).claim)

    engine.seek(topic, reader, positions={Priority.MIDDLE: 0})

    assert bodies(engine.read(topic, reader, 10)) == ["a", "b"]


@both
def test_seek_goes_forward(
    engine: TopicEngine, topic: str, fill: Fill, reader: ConsumerSpec
) -> None:
    ids = fill(*"abcd")

    engine.seek(topic, reader, positions={Priority.MIDDLE: ids[2]})

    assert bodies(engine.read(topic, reader, 10)) == ["d"]


@both
@pytest.mark.parametrize("far", [1000, 10**15, (1 << 63) - 1])
def test_seek_behind_everything_waits_for_what_comes(
    engine: TopicEngine, topic: str, fill: Fill, reader: ConsumerSpec, far: int
) -> None:
    fill(*"ab")
    engine.seek(topic, reader, positions={Priority.MIDDLE: far})
    assert bodies(engine.read(topic, reader, 10)) == []

    fill("c")
    assert bodies(engine.read(topic, reader, 10)) == ["c"]


@both
def test_seek_leaves_other_lanes_alone(
    engine: TopicEngine, topic: str, fill: Fill, reader: ConsumerSpec
) -> None:
    fill("m")
    fill("h", priority=Priority.HIGH)
    engine.commit(topic, reader, engine.read(topic, reader, 10).claim)

    engine.seek(topic, reader, positions={Priority.HIGH: 0})

    assert bodies(engine.read(topic, reader, 10)) == ["h"]


@both
def test_claims_from_before_a_seek_are_void(
    engine: TopicEngine, topic: str, fill: Fill, reader: ConsumerSpec
) -> None:
    fill(*"ab")
    taken = engine.read(topic, reader, 10)
    engine.seek(topic, reader, positions={Priority.MIDDLE: 0})

    with pytest.raises(ClaimLost):
        engine.commit(topic, reader, taken.claim)

    assert bodies(engine.read(topic, reader, 10)) == ["a", "b"]


@both
def test_seek_by_time(engine: TopicEngine, topic: str, fill: Fill, reader: ConsumerSpec) -> None:
    fill("old")
    old = engine.read(topic, ConsumerSpec("looker"), 1).messages[0].time

    def later() -> int:
        fill("new")
        part = engine.describe(topic).parts[0]
        assert part.last_time is not None
        return part.last_time if part.last_time > old else 0

    new = wait_for(later)

    engine.seek(topic, reader, time_ms=new)
    found = engine.read(topic, reader, 1000)
    assert found.messages
    assert all(one.time >= new for one in found.messages)

    engine.seek(topic, reader, time_ms=0)
    assert bodies(engine.read(topic, reader, 1)) == ["old"]

    engine.seek(topic, reader, time_ms=new + 3_600_000)
    assert engine.read(topic, reader, 1) == ReadResult()


# -- lag ------------------------------------------------------------------------------------------


@both
def test_lag_counts_what_is_not_done(
    engine: TopicEngine, topic: str, fill: Fill, reader: ConsumerSpec
) -> None:
    ids = fill(*"abcd")
    taken = engine.read(topic, reader, 3)
    engine.commit(topic, reader, taken.claim)
    fill("l", priority=Priority.LOW)

    lags = engine.lag(topic, reader)

    assert [one.priority for one in lags] == [Priority.HIGH, Priority.MIDDLE, Priority.LOW]
    assert [one.messages for one in lags] == [0, 1, 1]
    assert lags[1].position == ids[2]
    assert lags[1].oldest_time is not None
    assert lags[0].oldest_time is None


def test_lag_has_the_number_of_claimed_messages(
    engine: TopicEngine, topic: str, fill: Fill
) -> None:
    fill(*"abcd")
    engine.read(topic, ANN, 3)

    lag = lag_of(engine, topic, ANN)

    assert (lag.messages, lag.claimed, lag.position) == (4, 3, 0)


@both
def test_lag_does_not_make_the_reader_known(
    engine: TopicEngine, topic: str, fill: Fill, reader: ConsumerSpec
) -> None:
    fill(*"ab")

    assert lag_of(engine, topic, reader).messages == 2
    assert engine.groups(topic) == []


# -- groups ---------------------------------------------------------------------------------------


def test_groups_and_single_readers_are_listed(engine: TopicEngine, topic: str, fill: Fill) -> None:
    fill(*"abc")
    engine.commit(topic, ANN, engine.read(topic, ANN, 1).claim)
    engine.read(topic, ConsumerSpec("bob", "g"), 1)
    engine.commit(topic, ALONE, engine.read(topic, ALONE, 2).claim)

    found = {(one.group, one.token): one for one in engine.groups(topic)}

    assert set(found) == {("g", ""), ("", "ann")}
    assert set(found["g", ""].members) == {"ann", "bob"}
    middle = {lag.priority: lag for lag in found["g", ""].lag}[Priority.MIDDLE]
    assert (middle.messages, middle.claimed) == (2, 1)
    middle = {lag.priority: lag for lag in found["", "ann"].lag}[Priority.MIDDLE]
    assert middle.messages == 1


@both
def test_a_deleted_group_starts_again_at_the_beginning(
    engine: TopicEngine, topic: str, fill: Fill, reader: ConsumerSpec
) -> None:
    fill(*"ab")
    taken = engine.read(topic, reader, 10)
    engine.forget_group(topic, reader)

    assert engine.groups(topic) == []
    with pytest.raises(ClaimLost):
        engine.commit(topic, reader, taken.claim)
    assert bodies(engine.read(topic, reader, 10)) == ["a", "b"]


# -- retention ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "retention", [Retention(ms=1), Retention(size=2000)], ids=["time", "bytes"]
)
def test_retention_removes_the_oldest_and_readers_go_on_behind_it(
    engine: TopicEngine, new_topic: Callable[..., str], retention: Retention
) -> None:
    topic = new_topic(retention=retention)
    for number in range(20):
        engine.append(topic, [Entry(b"%d" % number + bytes(500))])

    def first_is_gone() -> bool:
        return engine.describe(topic).parts[0].first > 1

    wait_for(first_is_gone, timeout=30)
    part = engine.describe(topic).parts[0]
    for reader in (ANN, ALONE):
        found = engine.read(topic, reader, 100).messages
        assert all(one.id >= part.first for one in found)
    (after,) = engine.append(topic, [Entry(b"after")])
    assert after >= part.end  # never given twice
