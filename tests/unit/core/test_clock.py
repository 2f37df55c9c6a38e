"""Timers: order, cancellation, and what a failing callback may not spoil."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from headrace.core.clock import Clock, Timers
from unit.core.stage import Stage


def note(log: list[str], text: str) -> Callable[[], None]:
    return lambda: log.append(text)


def test_timers_fire_in_order_and_equal_ones_as_they_came(stage: Stage) -> None:
    log: list[str] = []
    for delay, text in ((30, "c"), (10, "a"), (20, "b1"), (20, "b2")):
        stage.timers.after(delay, note(log, text))

    stage.clock.advance(9)
    assert log == []
    stage.clock.advance(1)
    assert log == ["a"]
    stage.clock.advance(100)
    assert log == ["a", "b1", "b2", "c"]


def test_a_cancelled_timer_does_not_fire(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    log: list[str] = []
    first = stage.timers.after(10, note(log, "first"))
    stage.timers.after(10, note(log, "second"))

    first.cancel()
    first.cancel()
    stage.clock.advance(10)

    assert log == ["second"]
    assert not caplog.records


def test_cancelled_timers_are_forgotten_long_before_they_are_due(stage: Stage) -> None:
    log: list[str] = []
    stage.timers.after(10, note(log, "kept"))
    for _ in range(20_000):
        stage.timers.after(3_600_000, lambda: None).cancel()

    assert len(stage.timers._heap) < 3000
    stage.clock.advance(10)
    assert log == ["kept"]


def test_a_timer_can_be_cancelled_by_one_which_is_due_with_it(stage: Stage) -> None:
    log: list[str] = []
    stage.timers.after(10, lambda: victim.cancel())
    victim = stage.timers.after(10, note(log, "victim"))

    stage.clock.advance(20)

    assert log == []


def test_a_callback_may_set_timers(stage: Stage) -> None:
    log: list[int] = []

    def again() -> None:
        log.append(stage.clock.now_ms())
        if len(log) < 3:
            stage.timers.after(10, again)

    start = stage.clock.now_ms()
    stage.timers.after(10, again)
    stage.timers.after(1000, lambda: None)
    stage.clock.advance(100)

    assert [moment - start for moment in log] == [10, 20, 30]


def test_a_moment_in_the_past_comes_at_once(stage: Stage) -> None:
    log: list[str] = []
    stage.timers.at(stage.clock.now_ms() - 500, note(log, "late"))

    stage.clock.advance(0)

    assert log == ["late"]


def test_a_failing_callback_does_not_stop_the_others(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    log: list[str] = []

    def fail() -> None:
        raise ValueError("broken")

    stage.timers.after(10, fail)
    stage.timers.after(10, note(log, "next"))
    stage.timers.after(20, note(log, "later"))
    with caplog.at_level(logging.ERROR):
        stage.clock.advance(30)

    assert log == ["next", "later"]
    assert "a timer's callback failed" in caplog.text


def test_closed_timers_are_silent(stage: Stage) -> None:
    log: list[str] = []
    stage.timers.after(10, note(log, "never"))

    stage.timers.close()
    stage.clock.advance(100)

    assert log == []


def test_the_virtual_wall_clock_moves_with_the_other(stage: Stage) -> None:
    before = stage.clock.wall_seconds()
    stage.timers.after(250, lambda: None)

    stage.clock.advance(1500)

    assert stage.clock.wall_seconds() - before == pytest.approx(1.5)


def test_the_real_clock_never_fires_early() -> None:
    async def measure() -> int:
        clock = Clock()
        loop = asyncio.get_running_loop()
        fired: asyncio.Future[int] = loop.create_future()
        due = clock.now_ms() + 5
        Timers(clock, loop).at(due, lambda: fired.set_result(clock.now_ms()))
        return await fired - due

    assert asyncio.run(measure()) >= 0
