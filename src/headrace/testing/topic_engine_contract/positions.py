"""Seek, lag, lists of groups, retention."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.errors import ClaimLost
from headrace.model.retention import Retention
from headrace.model.topics.message_priority import Priority
from headrace.store.topics.engine import TopicEngine
from headrace.store.topics.types import ConsumerSpec, Entry, ReadResult
from headrace.testing import wait_for
from headrace.testing.topic_engine_contract.fixtures import Subject

ANN = ConsumerSpec("ann", "g")
ALONE = ConsumerSpec("ann")
both = pytest.mark.parametrize("reader", [ANN, ALONE], ids=["group", "alone"])


# -- seek -----------------------------------------------------------------------------------------


@both
def test_seek_goes_back(subject: Subject, reader: ConsumerSpec) -> None:
    ids = subject.fill(*"abcd")
    subject.commit(reader, subject.read(reader))

    subject.engine.seek(subject.name, reader, positions={Priority.MIDDLE: ids[1]})

    assert subject.bodies(reader) == ["c", "d"]


@both
def test_seek_to_zero_is_the_beginning(subject: Subject, reader: ConsumerSpec) -> None:
    subject.fill(*"ab")
    subject.commit(reader, subject.read(reader))

    subject.engine.seek(subject.name, reader, positions={Priority.MIDDLE: 0})

    assert subject.bodies(reader) == ["a", "b"]


@both
def test_seek_goes_forward(subject: Subject, reader: ConsumerSpec) -> None:
    ids = subject.fill(*"abcd")

    subject.engine.seek(subject.name, reader, positions={Priority.MIDDLE: ids[2]})

    assert subject.bodies(reader) == ["d"]


@both
@pytest.mark.parametrize("far", [1000, 10**15, (1 << 63) - 1])
def test_seek_behind_everything_waits_for_what_comes(
    subject: Subject, reader: ConsumerSpec, far: int
) -> None:
    subject.fill(*"ab")
    subject.engine.seek(subject.name, reader, positions={Priority.MIDDLE: far})
    assert subject.bodies(reader) == []

    subject.fill("c")
    assert subject.bodies(reader) == ["c"]


@both
def test_seek_leaves_other_lanes_alone(subject: Subject, reader: ConsumerSpec) -> None:
    subject.fill("m")
    subject.fill("h", priority=Priority.HIGH)
    subject.commit(reader, subject.read(reader))

    subject.engine.seek(subject.name, reader, positions={Priority.HIGH: 0})

    assert subject.bodies(reader) == ["h"]


@both
def test_claims_from_before_a_seek_are_void(subject: Subject, reader: ConsumerSpec) -> None:
    subject.fill(*"ab")
    taken = subject.read(reader)
    subject.engine.seek(subject.name, reader, positions={Priority.MIDDLE: 0})

    with pytest.raises(ClaimLost):
        subject.commit(reader, taken)

    assert subject.bodies(reader) == ["a", "b"]


@both
def test_seek_by_time(subject: Subject, reader: ConsumerSpec) -> None:
    subject.fill("old")
    old = subject.read(ConsumerSpec("looker"), 1).messages[0].time

    def later() -> int:
        subject.fill("new")
        part = subject.engine.describe(subject.name).parts[0]
        assert part.last_time is not None
        return part.last_time if part.last_time > old else 0

    new = wait_for(later)

    subject.engine.seek(subject.name, reader, time_ms=new)
    found = subject.read(reader, 1000)
    assert found.messages
    assert all(one.time >= new for one in found.messages)

    subject.engine.seek(subject.name, reader, time_ms=0)
    assert subject.bodies(reader, 1) == ["old"]

    subject.engine.seek(subject.name, reader, time_ms=new + 3_600_000)
    assert subject.read(reader, 1) == ReadResult()


# -- lag ------------------------------------------------------------------------------------------


@both
def test_lag_counts_what_is_not_done(subject: Subject, reader: ConsumerSpec) -> None:
    ids = subject.fill(*"abcd")
    taken = subject.read(reader, 3)
    subject.commit(reader, taken)
    subject.fill("l", priority=Priority.LOW)

    lags = subject.engine.lag(subject.name, reader)

    assert [one.priority for one in lags] == [Priority.HIGH, Priority.MIDDLE, Priority.LOW]
    assert [one.messages for one in lags] == [0, 1, 1]
    assert lags[1].position == ids[2]
    assert lags[1].oldest_time is not None
    assert lags[0].oldest_time is None


def test_lag_has_the_number_of_claimed_messages(subject: Subject) -> None:
    subject.fill(*"abcd")
    subject.read(ANN, 3)

    lag = subject.lag(ANN)

    assert (lag.messages, lag.claimed, lag.position) == (4, 3, 0)


@both
def test_lag_does_not_make_the_reader_known(subject: Subject, reader: ConsumerSpec) -> None:
    subject.fill(*"ab")

    assert subject.lag(reader).messages == 2
    assert subject.engine.groups(subject.name) == []


# -- groups ---------------------------------------------------------------------------------------


def test_groups_and_single_readers_are_listed(subject: Subject) -> None:
    subject.fill(*"abc")
    subject.commit(ANN, subject.read(ANN, 1))
    subject.read(ConsumerSpec("bob", "g"), 1)
    subject.commit(ALONE, subject.read(ALONE, 2))

    found = {(one.group, one.token): one for one in subject.engine.groups(subject.name)}

    assert set(found) == {("g", ""), ("", "ann")}
    assert set(found["g", ""].members) == {"ann", "bob"}
    middle = {lag.priority: lag for lag in found["g", ""].lag}[Priority.MIDDLE]
    assert (middle.messages, middle.claimed) == (2, 1)
    middle = {lag.priority: lag for lag in found["", "ann"].lag}[Priority.MIDDLE]
    assert middle.messages == 1


@both
def test_a_deleted_group_starts_again_at_the_beginning(
    subject: Subject, reader: ConsumerSpec
) -> None:
    subject.fill(*"ab")
    taken = subject.read(reader)
    subject.engine.forget_group(subject.name, reader)

    assert subject.engine.groups(subject.name) == []
    with pytest.raises(ClaimLost):
        subject.commit(reader, taken)
    assert subject.bodies(reader) == ["a", "b"]


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
