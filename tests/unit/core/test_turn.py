"""The end of a turn: queues first, then sessions, whatever fails."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from unit.core.stage import Stage


class Worker:
    """A queue or a session: does what it was given, once per mark."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.marked = False
        self.pump = self.flush = work


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
