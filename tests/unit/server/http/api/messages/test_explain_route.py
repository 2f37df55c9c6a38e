"""Explaining a route: the same queues as routing, and a reason for each step."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.clock import Clock, Timers
from headrace.core.loop_turn import LoopTurn
from headrace.core.vhost import Vhost
from headrace.server.http.api.messages.explain_route import explain
from support.example_counts import examples

words = st.sampled_from(["a", "b", "c"])
keys = st.lists(words, min_size=1, max_size=3).map(".".join)
patterns = st.lists(st.sampled_from(["a", "b", "*", "#"]), min_size=1, max_size=3).map(".".join)
kinds = st.sampled_from(["direct", "fanout", "topic", "headers"])
arrows = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 6), patterns, st.sampled_from(["1", "2"])),
    max_size=12,
)


@contextmanager
def a_vhost() -> Iterator[Vhost]:
    loop = asyncio.new_event_loop()
    clock = Clock()
    timers = Timers(clock, loop)
    try:
        yield Vhost("/", clock, timers, LoopTurn(loop))
    finally:
        timers.close()
        loop.close()


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(kinds, min_size=4, max_size=4), arrows, keys, st.sampled_from(["1", "2", "3"]))
def test_it_says_what_routing_does(
    chosen: list[str], given_arrows: list[tuple[int, int, str, str]], key: str, header: str
) -> None:
    with a_vhost() as vhost:
        for number, kind in enumerate(chosen):
            alternate = {"alternate-exchange": "x3"} if number == 0 else {}
            vhost.declare_exchange(f"x{number}", kind, arguments=alternate)
        for number in range(3):
            vhost.declare_queue(f"q{number}")
        for source, target, pattern, value in given_arrows:
            to = vhost.queues[f"q{target}"] if target < 3 else vhost.exchanges[f"x{target - 3}"]
            arguments = {"x-match": "all", "h": value}
            vhost.bind(f"x{source}", to, pattern, arguments)

        start = vhost.exchanges["x0"]
        expected = {
            one.name for one in vhost.routes.walk(start, (key,), {"h": header}).destinations
        }
        explained = explain(vhost, start, key, {"h": header})

        assert set(explained["queues"]) == expected  # type: ignore[call-overload]
        assert explained["routed"] is bool(expected)
        steps = explained["steps"]
        assert isinstance(steps, list)
        assert all(step["reason"] for step in steps)


def test_the_default_exchange_explains_itself() -> None:
    with a_vhost() as vhost:
        vhost.declare_queue("q")
        found = explain(vhost, vhost.exchanges[""], "q", {})
        assert found["queues"] == ["q"]
        lost = explain(vhost, vhost.exchanges[""], "nope", {})
        steps = lost["steps"]
        assert isinstance(steps, list)
        assert steps[0]["reason"] == "there is no queue 'nope'"
