"""The end of a turn: queues first, then sessions, whatever fails."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from headrace.core import loop_turn
from support.fake_loop import Stage


class Worker:
    """A queue or a session: does what it was given, once per mark."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.marked = False
        self.dispatch = self.flush = work


def test_queues_are_pumped_before_sessions_are_flushed(stage: Stage) -> None:
    log: list[str] = []
    stage.turn.mark_session(Worker(lambda: log.append("session")))
    stage.turn.mark_queue(Worker(lambda: log.append("queue")))

    stage.run()

    assert log == ["queue", "session"]


def test_a_queue_marked_by_a_queue_is_pumped_in_the_same_turn(stage: Stage) -> None:
    log: list[str] = []
    second = Worker(lambda: log.append("second"))
    stage.turn.mark_queue(Worker(lambda: stage.turn.mark_queue(second)))
    stage.turn.mark_session(Worker(lambda: log.append("session")))

    stage.run()

    assert log == ["second", "session"]
    assert not second.marked


def test_one_that_fails_does_not_stop_the_others(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    log: list[str] = []

    def fail() -> None:
        raise ValueError("broken")

    stage.turn.mark_queue(Worker(fail))
    stage.turn.mark_queue(Worker(lambda: log.append("queue")))
    stage.turn.mark_session(Worker(fail))
    stage.turn.mark_session(Worker(lambda: log.append("session")))
    with caplog.at_level(logging.ERROR):
        stage.run()

    assert log == ["queue", "session"]
    assert "a queue failed to deliver" in caplog.text
    assert "a session failed to write" in caplog.text


def test_a_callback_of_another_thread_ends_the_turn_at_once(stage: Stage) -> None:
    log: list[str] = []
    session = Worker(lambda: log.append("session"))

    stage.turn.run_callback(lambda: stage.turn.mark_session(session))

    assert log == ["session"]
    stage.run()
    assert log == ["session"]


def test_a_callback_of_another_thread_leaves_a_turn_that_has_begun_to_its_end(stage: Stage) -> None:
    log: list[str] = []
    stage.turn.mark_session(Worker(lambda: log.append("first")))
    session = Worker(lambda: log.append("second"))

    stage.turn.run_callback(lambda: stage.turn.mark_session(session))

    assert log == []
    stage.run()
    assert log == ["first", "second"]


# -- shares of time -----------------------------------------------------------------------------


class Input:
    """A client's input: one entry in the log for each share, as long as there is more."""

    def __init__(self, stage: Stage, name: str, log: list[str], shares: int) -> None:
        self._stage, self._name, self._log, self._left = stage, name, log, shares

    def work(self) -> None:
        self._log.append(self._name)
        self._left -= 1
        if self._left:
            self._stage.turn.later(self)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the clock shows one millisecond more."""
    ticks = count()
    monkeypatch.setattr(loop_turn, "thread_time", lambda: next(ticks) / 1000)


def test_long_work_goes_on_in_later_turns(stage: Stage, slow: None) -> None:
    done: list[int] = []
    ends: list[Exception | None] = []

    def steps() -> Iterator[None]:
        for step in range(10):
            done.append(step)
            yield

    stage.turn.run(steps(), ends.append)
    assert 0 < len(done) < 10
    before = len(done)
    stage.turn.finish()
    assert before < len(done) < 10
    assert not ends
    stage.run()
    assert done == list(range(10))
    assert ends == [None]


def test_long_work_says_what_it_failed_with(stage: Stage) -> None:
    ends: list[Exception | None] = []

    def steps() -> Iterator[None]:
        yield
        raise ValueError("broken")

    stage.turn.run(steps(), ends.append)
    assert [str(end) for end in ends] == ["broken"]


def test_those_who_have_much_to_do_take_turns(stage: Stage) -> None:
    log: list[str] = []
    for name in "ab":
        stage.turn.later(Input(stage, name, log, 3))
    stage.run()
    assert "".join(log) == "ababab"


def test_little_input_does_not_wait_behind_much(stage: Stage, slow: None) -> None:
    log: list[str] = []
    for _ in range(50):
        stage.turn.later(Input(stage, "much", log, 2))
    stage.turn.later(Input(stage, "little", log, 1), light=True)
    stage.turn.finish()
    assert log[0] == "little"
    assert "much" in log
    assert len(log) < 50  # the turn is over long before all had a share


def test_much_input_is_not_starved_by_little(stage: Stage, slow: None) -> None:
    log: list[str] = []
    stage.turn.later(Input(stage, "much", log, 1))
    for _ in range(50):
        stage.turn.later(Input(stage, "little", log, 1), light=True)
    stage.turn.finish()
    assert "much" in log
