"""Sends that are appended together, and pulls that wait."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from headrace.core.clock import Timers, VirtualClock
from headrace.core.loop_turn import LoopTurn
from headrace.core.topics.log_topic import LogTopic
from headrace.errors import BrokerError, NoSuchTopic, PreconditionFailed
from headrace.model.topics.message_priority import Priority
from headrace.model.topics.partitions import Partition
from headrace.server.remoting import long_polls as polling
from headrace.server.remoting.long_polls import LongPolls, PullRequest
from headrace.server.remoting.send_batcher import AppendedRange, TurnAppends
from support.fake_loop import HandLoop

PARTITION: Partition = Partition(Priority.MIDDLE, 0)


class Topic:
    """As much of a LogTopic as appending needs."""

    def __init__(self, error: BrokerError | None = None) -> None:
        self.name = "t"
        self.deleted = False
        self.error = error
        self.appended: list[list[bytes]] = []

    def append_to(self, partition: Partition, contents: list[bytes]) -> tuple[int, int]:
        if self.error is not None:
            raise self.error
        first = sum(map(len, self.appended))
        self.appended.append(contents)
        return first, 100 * len(self.appended)

    def number_of(self, partition: Partition) -> int:
        return 7


class Desk:
    def __init__(self) -> None:
        self.loop = HandLoop()
        self.appends = TurnAppends(LoopTurn(cast(asyncio.AbstractEventLoop, self.loop)))
        self.told: list[AppendedRange | str] = []

    def send(self, topic: Topic, *contents: bytes) -> None:
        self.appends.add(
            cast(LogTopic, topic),
            PARTITION,
            contents,
            self.told.append,
            lambda error: self.told.append(str(error)),
        )


def test_sends_of_one_turn_are_one_append_and_each_hears_its_own_place() -> None:
    desk, topic = Desk(), Topic()
    desk.send(topic, b"a")
    desk.send(topic, b"b", b"c")
    desk.send(topic, b"d")
    assert topic.appended == []
    desk.loop.run()
    desk.send(topic, b"e")
    desk.loop.run()

    assert topic.appended == [[b"a", b"b", b"c", b"d"], [b"e"]]
    assert desk.told == [
        AppendedRange(7, 0, 100),
        AppendedRange(7, 1, 100),
        AppendedRange(7, 3, 100),
        AppendedRange(7, 4, 200),
    ]


def test_a_failure_is_reported_only_to_the_affected_callers() -> None:
    desk, good, bad = Desk(), Topic(), Topic(PreconditionFailed("full"))
    gone = Topic()
    gone.deleted = True
    for topic in (bad, good, gone):
        desk.send(topic, b"x")
    desk.loop.run()

    assert desk.told == [
        "full",
        AppendedRange(7, 0, 100),
        "topic 't' was deleted while the message was sent; create it and send again",
    ]
    assert isinstance(bad.error, PreconditionFailed) and not isinstance(bad.error, NoSuchTopic)


# -- polls -------------------------------------------------------------------------------------


class Waiting:
    """A pull which can be answered when ``ready`` says so."""

    def __init__(self) -> None:
        self.ready = False
        self.attempts: list[bool] = []

    def attempt(self, must: bool) -> bool:
        self.attempts.append(must)
        return self.ready or must


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def polls(clock: VirtualClock) -> LongPolls:
    return LongPolls(Timers(clock, cast(asyncio.AbstractEventLoop, HandLoop())))


def hold(polls: LongPolls, clock: VirtualClock, session: object, topic: str, ms: int) -> Waiting:
    waiting = Waiting()
    polls.hold(topic, PullRequest(session, clock.now_ms() + ms, waiting.attempt))
    return waiting


def test_only_pulls_of_the_topic_are_tried(polls: LongPolls, clock: VirtualClock) -> None:
    mine, other = hold(polls, clock, "s", "t", 5000), hold(polls, clock, "s", "u", 5000)
    polls.try_topic("t")
    assert (mine.attempts, other.attempts) == ([False], [])
    mine.ready = True
    polls.try_topic("t")

    assert len(polls) == 1
    polls.try_topic("t")
    assert mine.attempts == [False, False]


def test_a_pull_must_be_answered_when_its_time_is_over(
    polls: LongPolls, clock: VirtualClock
) -> None:
    soon, later = hold(polls, clock, "s", "t", 1000), hold(polls, clock, "s", "t", 9000)
    clock.advance(1000 + polling.SWEEP_MS)

    assert (soon.attempts, later.attempts) == ([True], [])
    clock.advance(9000)
    assert later.attempts == [True]
    assert len(polls) == 0


def test_a_pull_waits_more_than_its_time_since_clocks_drop_parts_of_milliseconds(
    polls: LongPolls, clock: VirtualClock
) -> None:
    waiting = hold(polls, clock, "s", "t", 2 * polling.SWEEP_MS)
    clock.advance(2 * polling.SWEEP_MS)
    assert waiting.attempts == []
    clock.advance(polling.SWEEP_MS)

    assert waiting.attempts == [True]


def test_a_lost_connection_gets_no_answers(polls: LongPolls, clock: VirtualClock) -> None:
    mine, other = hold(polls, clock, "gone", "t", 1000), hold(polls, clock, "stays", "t", 1000)
    polls.drop("gone")
    clock.advance(5000)

    assert (mine.attempts, other.attempts) == ([], [True])


def test_a_connection_holds_no_more_than_its_share(
    polls: LongPolls, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "MAX_HELD", 2)
    waiting = [hold(polls, clock, "s", "t", 5000) for _ in range(2)]

    assert not polls.has_room("s")
    assert polls.has_room("other")
    waiting[0].ready = True
    polls.try_topic("t")
    assert polls.has_room("s")
