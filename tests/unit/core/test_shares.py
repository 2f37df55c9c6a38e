"""Requests that touch very much are carried out over several turns, and seen as one."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from headrace.core import loop_turn as turn
from support.fake_loop import Inbox, Stage, message, ready

MANY = 500


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the clock shows a millisecond more, so a share is over after a few steps."""
    ticks = count()
    monkeypatch.setattr(turn, "thread_time", lambda: next(ticks) / 1000)


class Asker:
    """A client that notes when it has to wait."""

    holds = 0

    def hold(self) -> None:
        self.holds += 1

    def release_hold(self) -> None:
        self.holds -= 1


def test_rejected_messages_are_dead_lettered_over_several_turns(stage: Stage, slow: None) -> None:
    queue = stage.queue(dead_letter_exchange="", dead_letter_routing_key="dead")
    dead = stage.queue("dead")
    inbox = Inbox()
    inbox.consume(queue)
    names = [str(number) for number in range(MANY)]
    stage.publish_contents([message(name) for name in names])
    stage.turn.asker = asker = Asker()
    inbox.reject()  # all
    stage.turn.asker = None

    assert 0 < dead.backlog.count < MANY
    assert asker.holds == 1  # the next request of the same client sees all of them
    before = dead.backlog.count
    stage.turn.finish()
    assert before < dead.backlog.count < MANY
    stage.run()
    assert ready(dead) == names
    assert asker.holds == 0


def test_a_queue_deleted_meanwhile_dead_letters_nothing_more(stage: Stage, slow: None) -> None:
    queue = stage.queue(dead_letter_exchange="", dead_letter_routing_key="dead")
    dead = stage.queue("dead")
    inbox = Inbox()
    inbox.consume(queue)
    stage.publish_contents([message("x")] * MANY)
    inbox.reject()  # all
    stage.vhost.remove_queue(queue)
    seen = dead.backlog.count
    stage.run()
    assert dead.backlog.count == seen < MANY


def test_what_expires_at_once_is_dropped_over_several_turns(
    stage: Stage, slow: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.core.queues.expiry.EXPIRE_AT_ONCE", 10)
    queue = stage.queue(message_ttl=5)
    for _ in range(MANY // 10):  # not one run: that would go as a whole
        stage.publish_contents([message("x")] * 10, turn=False)
        queue.mark()
        stage.clock.advance(0)
    stage.run()
    stage.clock.advance(5)  # without the turns that follow
    assert 0 < queue.backlog.count < MANY
    inbox = Inbox()
    inbox.consume(queue)
    stage.run()
    assert queue.backlog.count == 0
    assert not inbox.seen  # nothing that has expired is delivered in between


def test_a_deleted_queue_is_gone_before_its_bindings_are_cleared(
    stage: Stage, slow: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, other = stage.queue(), stage.queue("other")
    exchange = stage.vhost.declare_exchange("e", "direct", auto_delete=True)
    for number in range(MANY):
        stage.vhost.bind("e", queue, str(number))
    stage.vhost.bind("e", other, "0")
    cleared: list[str] = []
    router = type(exchange.router)
    unbind = router.unbind

    def noting(self: Any, key: str, *rest: Any) -> None:  # noqa: ANN401
        cleared.append(key)
        unbind(self, key, *rest)

    monkeypatch.setattr(router, "unbind", noting)

    stage.vhost.remove_queue(queue)

    assert len(cleared) < MANY / 10
    assert [one.target for one in exchange.bindings] == [other]
    assert stage.vhost.routes.get("e", "1").destinations == []
    assert stage.vhost.routes.get("e", "0").destinations == [other]
    again = stage.queue()  # a new one of the same name has none of them
    assert exchange.bindings_to(again) == []
    stage.vhost.bind("e", again, "7")
    stage.run()
    assert stage.vhost.routes.get("e", "7").destinations == [again]
    assert len(exchange.bindings) == 2
    assert len(cleared) == MANY


def test_an_exchange_goes_with_its_last_binding_at_once(stage: Stage, slow: None) -> None:
    queue = stage.queue()
    stage.vhost.declare_exchange("e", "direct", auto_delete=True)
    for number in range(MANY):
        stage.vhost.bind("e", queue, str(number))

    stage.vhost.remove_queue(queue)

    assert "e" not in stage.vhost.exchanges
    stage.run()


def test_timers_that_are_due_at_once_let_others_go_on(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = count()
    monkeypatch.setattr("headrace.core.clock.time.thread_time", lambda: next(ticks) / 1000)
    order: list[str] = []
    for _ in range(10):
        stage.timers.after(5, lambda: order.append("timer"))
    stage.clock.call_later(stage.timers._loop, 5, lambda: order.append("other"))
    stage.advance(5)
    assert order.count("timer") == 10
    assert order.index("other") < 9
