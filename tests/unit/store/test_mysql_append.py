"""Appends of several threads in one statement, without a database."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import BodyTooLarge, EngineUnavailable
from headrace.store.mysql.appends import PriorityAppender, portions, size_of
from headrace.store.mysql.message_rows import Values
from headrace.testing import wait_for


def row(body: bytes) -> Values:
    return (body, None, "p", None, 0, None)


class Store:
    """Gives ids in order; waits at a gate, so that others come meanwhile."""

    def __init__(self) -> None:
        self.calls: list[list[bytes]] = []
        self.gate = threading.Semaphore(0)
        self.waiting = 0
        self.bad: dict[bytes, Exception] = {}
        self._lock = threading.Lock()
        self._last = 0

    def __call__(self, rows: Sequence[Values], size: int) -> list[int]:
        with self._lock:
            self.waiting += 1
        self.gate.acquire()
        for one in rows:
            if one[0] in self.bad:
                raise self.bad[one[0]]
        with self._lock:
            self.calls.append([one[0] for one in rows])
            first, self._last = self._last + 1, self._last + len(rows)
            return list(range(first, self._last + 1))


class Crowd:
    """Threads that append one body each."""

    def __init__(self, appender: PriorityAppender) -> None:
        self.appender = appender
        self.results: dict[bytes, list[int] | Exception] = {}
        self.threads: list[threading.Thread] = []

    def append(self, body: bytes) -> None:
        def work() -> None:
            try:
                self.results[body] = self.appender.append([row(body)])
            except Exception as error:
                self.results[body] = error

        self.threads.append(threading.Thread(target=work))
        self.threads[-1].start()

    def join(self) -> None:
        for one in self.threads:
            one.join(10)
            assert not one.is_alive()


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def crowd(store: Store) -> Crowd:
    return Crowd(PriorityAppender(store, 1 << 20))


def gather(store: Store, crowd: Crowd, *bodies: bytes) -> None:
    """Two statements under way, and everything else waiting behind them."""
    for number, body in enumerate((b"first", b"second"), 1):
        crowd.append(body)
        wait_for(lambda number=number: store.waiting == number)  # type: ignore[misc]
    for number, body in enumerate(bodies, 1):
        crowd.append(body)
        wait_for(lambda number=number: len(crowd.appender._waiting) == number)  # type: ignore[misc]


def test_a_single_append_is_committed_without_waiting(store: Store, crowd: Crowd) -> None:
    store.gate.release()
    assert crowd.appender.append([row(b"x"), row(b"y")]) == [1, 2]
    assert store.calls == [[b"x", b"y"]]


def test_those_who_come_meanwhile_share_the_next_statement(store: Store, crowd: Crowd) -> None:
    gather(store, crowd, b"a", b"b", b"c", b"d")
    store.gate.release(10)
    crowd.join()
    # Not always last: whoever of the first two is done begins it.
    assert [b"a", b"b", b"c", b"d"] in store.calls and len(store.calls) == 3
    assert sorted(number for found in crowd.results.values() for number in found) == [  # type: ignore[union-attr]
        1, 2, 3, 4, 5, 6,
    ]  # fmt: skip


def test_one_that_is_refused_does_not_harm_the_others(store: Store, crowd: Crowd) -> None:
    store.bad[b"bad"] = BodyTooLarge("too large")
    gather(store, crowd, b"a", b"bad", b"c")
    store.gate.release(10)
    crowd.join()
    assert isinstance(crowd.results[b"bad"], BodyTooLarge)
    assert isinstance(crowd.results[b"a"], list) and isinstance(crowd.results[b"c"], list)


def test_an_unknown_outcome_is_reported_to_all_callers_and_nothing_is_repeated(
    store: Store, crowd: Crowd
) -> None:
    store.bad[b"a"] = EngineUnavailable("lost; may have been stored")
    gather(store, crowd, b"a", b"b")
    store.gate.release(10)
    crowd.join()
    assert all(isinstance(crowd.results[one], EngineUnavailable) for one in (b"a", b"b"))
    assert store.waiting == 3


def test_an_interrupted_leader_repeats_nothing(store: Store, crowd: Crowd) -> None:
    store.bad[b"a"] = KeyboardInterrupt()  # type: ignore[assignment]
    gather(store, crowd, b"a", b"b")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading, "excepthook", lambda args: None)
        store.gate.release(10)
        crowd.join()
    answered = [crowd.results[one] for one in (b"a", b"b") if one in crowd.results]
    assert len(answered) == 1  # the other one was the leader, and is interrupted itself
    assert isinstance(answered[0], EngineUnavailable) and "may have been" in str(answered[0])
    assert store.waiting == 3


def test_every_concurrent_append_gets_its_answer(store: Store) -> None:
    crowd = Crowd(PriorityAppender(store, 200))
    store.gate.release(10_000)
    for number in range(100):
        crowd.append(b"%d" % number)
    crowd.join()
    assert sorted(found[0] for found in crowd.results.values()) == list(range(1, 101))  # type: ignore[index]


@given(st.lists(st.binary(max_size=50).map(row)), st.integers(1, 5), st.integers(1, 300))
def test_portions_keep_order_and_limits(rows: list[Values], most: int, size: int) -> None:
    found = portions(rows, most, size)
    assert [one for part in found for one in part] == rows
    for part in found:
        assert 1 <= len(part) <= most
        assert len(part) == 1 or sum(map(size_of, part)) <= size
