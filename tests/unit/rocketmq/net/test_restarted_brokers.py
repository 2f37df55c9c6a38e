"""When a broker's list of members is not to be believed yet."""

from __future__ import annotations

from headrace.rocketmq.net.client_instance import SETTLED_S, RestartedBrokers


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_broker_that_came_back_is_not_believed_for_a_moment() -> None:
    clock = Clock()
    returns = RestartedBrokers(clock)
    returns.connected("a")
    assert not returns.is_recent(["a"])  # nobody was away: a start
    clock.now += 5
    returns.connected("a")
    assert returns.is_recent(["b", "a"]) and not returns.is_recent(["b"])
    clock.now += SETTLED_S
    assert not returns.is_recent(["a"])


def test_a_broker_that_reconnects_often_delays_few_calls() -> None:
    clock = Clock()
    returns = RestartedBrokers(clock)
    waited = 0
    for _ in range(60):
        returns.connected("a")
        waited += returns.is_recent(["a"])
        clock.now += 1
    assert 0 < waited <= 7
