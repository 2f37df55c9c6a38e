"""Appends of many publishers in few calls: in order, each answered once, failures kept apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from headrace.core.topics import append_batcher
from headrace.core.topics.append_batcher import AppendBatcher
from headrace.core.topics.async_engine import EngineReply, Then
from headrace.errors import BadTopicValue, EngineUnavailable
from headrace.store.topics.types import Entry


class Desk:
    """An engine whose calls are answered by hand, and a turn of the loop likewise."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[bytes], Then[list[int]]]] = []
        self.todo: list[Callable[[], None]] = []
        self.refuses = False
        self.batcher = AppendBatcher(self.call, self.todo.append)
        self.answers: list[tuple[bytes, list[int] | None]] = []
        self.next = 1

    def call(self, entries: Sequence[Entry], then: Then[list[int]]) -> None:
        if self.refuses:
            then(EngineReply(error=EngineUnavailable("no more")))
            return
        self.calls.append(([entry.body for entry in entries], then))

    def turn(self) -> None:
        todo, self.todo[:] = list(self.todo), []
        for one in todo:
            one()

    def append(self, *bodies: bytes) -> None:
        def then(answer: EngineReply[list[int]]) -> None:
            self.answers.append((bodies[0], answer.value))

        self.batcher.append([Entry(body) for body in bodies], then)

    def answer(self, error: EngineUnavailable | BadTopicValue | None = None) -> None:
        bodies, then = self.calls.pop(0)
        if error is not None:
            then(EngineReply(error=error))
            return
        ids = list(range(self.next, self.next + len(bodies)))
        self.next += len(bodies)
        then(EngineReply(ids))


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_appends_of_one_turn_are_one_call(desk: Desk) -> None:
    desk.append(b"a", b"b")
    desk.append(b"c")
    desk.turn()

    assert [bodies for bodies, _ in desk.calls] == [[b"a", b"b", b"c"]]
    desk.answer()
    assert desk.answers == [(b"a", [1, 2]), (b"c", [3])]


def test_while_a_call_runs_the_next_one_gathers(desk: Desk) -> None:
    desk.append(b"a")
    desk.turn()
    desk.append(b"b")
    desk.append(b"c")
    desk.turn()
    assert len(desk.calls) == 1

    desk.answer()

    assert [bodies for bodies, _ in desk.calls] == [[b"b", b"c"]]


def test_a_call_has_a_limit(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append_batcher, "MAX_ROWS", 3)
    for number in range(4):
        desk.append(b"%d" % number, b"")
    desk.turn()
    desk.answer()

    assert [len(bodies) for bodies, _ in desk.calls] == [2]
    assert [name for name, _ in desk.answers] == [b"0"]


def test_one_bad_append_does_not_spoil_the_others(desk: Desk) -> None:
    for body in (b"a", b"bad", b"c"):
        desk.append(body)
    desk.turn()
    desk.answer(BadTopicValue("one of them"))
    assert [bodies for bodies, _ in desk.calls] == [[b"a"]]
    desk.answer()
    desk.answer(BadTopicValue("one of them"))
    desk.answer(BadTopicValue("this one"))
    desk.answer()

    assert desk.answers == [(b"a", [1]), (b"bad", None), (b"c", [2])]


def test_a_failure_is_reported_to_all_callers_and_not_retried(desk: Desk) -> None:
    desk.append(b"a")
    desk.append(b"b")
    desk.turn()
    desk.answer(EngineUnavailable("gone; may have been done"))

    assert desk.answers == [(b"a", None), (b"b", None)]
    assert desk.calls == []


def test_an_append_refused_by_the_engine_is_answered(desk: Desk) -> None:
    desk.refuses = True
    desk.append(b"a")
    desk.turn()
    desk.turn()
    assert desk.answers == [(b"a", None)]

    desk.refuses = False
    desk.append(b"b")
    desk.turn()
    desk.answer()
    assert desk.answers[-1] == (b"b", [1])


def test_more_than_can_wait_is_refused(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append_batcher, "MAX_BEHIND", 10)
    desk.append(bytes(20))  # one alone may be as large as it likes

    desk.append(b"x")
    assert desk.answers == [(b"x", None)]

    desk.turn()
    desk.answer()
    desk.append(b"y")
    desk.turn()
    desk.answer()
    assert desk.answers[-1] == (b"y", [2])


def test_appends_go_when_the_gate_lets_them(desk: Desk) -> None:
    asked: list[Then[None]] = []
    desk.batcher.gate = asked.append
    desk.append(b"a")
    desk.turn()
    desk.append(b"b")
    assert desk.calls == [] and len(asked) == 1

    desk.batcher.gate = None
    asked[0](EngineReply())

    assert [bodies for bodies, _ in desk.calls] == [[b"a", b"b"]]


def test_an_error_of_the_gate_is_the_answer_and_nothing_is_appended(desk: Desk) -> None:
    asked: list[Then[None]] = []
    desk.batcher.gate = asked.append
    desk.append(b"a")
    desk.turn()
    asked.pop()(EngineReply(error=EngineUnavailable("away")))
    assert desk.answers == [(b"a", None)] and desk.calls == []

    desk.append(b"b")
    desk.turn()
    asked.pop()(EngineReply())

    assert [bodies for bodies, _ in desk.calls] == [[b"b"]]
