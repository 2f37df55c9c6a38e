"""How long a reader that waits pauses between two looks."""

from __future__ import annotations

import pytest

from headrace.store.topics.types import ReadResult
from headrace.topics import consumer
from headrace.topics.consumer import Arrivals


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(consumer, "time", clock)
    return clock


def pauses(arrivals: Arrivals, clock: Clock, count: int) -> list[float]:
    found, pause = [], 0.001
    for _ in range(count):
        found.append(pause)
        clock.now += pause
        pause = arrivals.pause_after(pause)
    return found


def test_pauses_grow_to_200_ms_where_nothing_is_expected(clock: Clock) -> None:
    found = pauses(Arrivals(), clock, 10)
    assert found[:3] == pytest.approx([0.001, 0.002, 0.004])
    assert found[-2:] == [0.2, 0.2]


def test_pauses_stay_short_while_messages_come_often(clock: Clock) -> None:
    arrivals = Arrivals()
    for _ in range(50):
        clock.now += 0.01
        arrivals.note(ReadResult((None,), ()))  # type: ignore[arg-type]
    found = pauses(arrivals, clock, 100)
    assert max(found[:18]) == pytest.approx(0.002, rel=0.1)  # for 40 ms
    assert found[-1] == 0.2
