"""Timers: order, cancellation, and what a failing callback may not spoil."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from headrace.core.clock import Clock, Timers, VirtualClock
from support.fake_loop import Stage


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


# -- the wall clock ---------------------------------------------------------------------------

HOUR = 3600


def test_a_jump_of_the_system_clock_is_followed_slowly(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    before = clock.wall_seconds()
    clock.jump(2 * HOUR)
    clock.advance(6000)
    assert clock.wall_seconds() - before == pytest.approx(6, abs=0.1)

    clock.jump(-2 * HOUR)
    clock.advance(60_000)
    assert clock.wall_seconds() - before == pytest.approx(66)
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2  # begin and end


def test_a_clock_that_was_set_right_is_reached_in_the_end() -> None:
    clock = VirtualClock()
    clock.jump(-30)
    times = []
    for _ in range(60):
        clock.advance(60_000)
        times.append(clock.wall_seconds())

    assert times == sorted(times)
    assert times[-1] == pytest.approx(clock._system())


def test_time_does_not_go_back_over_a_restart() -> None:
    noted = VirtualClock()
    noted.jump(2 * HOUR)
    clock = VirtualClock()
    clock.go_on_from(int(noted._system() * 1000), 0)

    assert clock.wall_seconds() == pytest.approx(noted._system(), abs=0.01)
    assert clock.expiry_ms() == pytest.approx(clock.wall_seconds() * 1000, abs=10)


@pytest.mark.parametrize("hours", [1, 24, 30])
def test_an_end_that_is_too_long_is_waited_out(hours: int) -> None:
    clock = VirtualClock()
    noted = clock.wall_seconds() - hours * HOUR
    clock.go_on_from(int(noted * 1000), 0)
    in_doubt = max(0, hours - 24) * HOUR

    assert clock.wall_seconds() * 1000 - clock.expiry_ms() == pytest.approx(in_doubt * 1000, abs=5)
    clock.advance(in_doubt * 1000)
    assert clock.wall_seconds() * 1000 - clock.expiry_ms() == pytest.approx(0, abs=5)


def test_time_does_not_go_back_within_a_millisecond_when_the_system_is_slow() -> None:
    clock = VirtualClock()
    now = clock._at
    clock._steady = lambda: now  # type: ignore[method-assign]
    seen = [clock.wall_seconds()]
    for _ in range(1000):
        now += 0.000003
        seen.append(clock.wall_seconds())

    assert seen == sorted(seen)
    assert 0.00296 < seen[-1] - seen[0] <= 0.003  # the system's clock stands still
