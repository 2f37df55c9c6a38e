"""Engines in threads: answers on the loop, failures that are told, waiting reads that end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest

from headrace.core.clock import Clock, Timers
from headrace.core.topics import blocking_adapter
from headrace.core.topics.async_engine import EngineReply, Then
from headrace.core.topics.blocking_adapter import BlockingAdapter, EngineThreads
from headrace.errors import EngineUnavailable, NoSuchTopic
from headrace.store.topics.memory import MemoryEngine
from headrace.store.topics.types import ConsumerSpec, Entry, ReadResult, TopicInfo, TopicSpec

T = TypeVar("T")


class Moody(MemoryEngine):
    """Does what it is told to do wrong."""

    def __init__(self) -> None:
        super().__init__("moody")
        self.fault: Exception | None = None

    def append(self, topic: str, entries: Sequence[Entry]) -> list[int]:
        if self.fault is not None:
            raise self.fault
        return super().append(topic, entries)


class Desk:
    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.engine = Moody()
        self.workers = EngineThreads(loop)
        self.timers = Timers(Clock(), loop)
        self.threaded = BlockingAdapter(
            self.engine, self.workers, self.timers, lambda call: loop.call_soon(call) and None
        )

    async def ask(self, call: Callable[[Then[T]], object]) -> EngineReply[T]:
        future: asyncio.Future[EngineReply[T]] = asyncio.get_running_loop().create_future()
        call(future.set_result)
        return await asyncio.wait_for(future, 10)


@pytest.fixture
def run() -> Callable[[Callable[[Desk], object]], None]:
    def run(test: Callable[[Desk], object]) -> None:
        async def live() -> None:
            desk = Desk()
            try:
                await test(desk)  # type: ignore[misc]
            finally:
                desk.threaded.close()
                desk.timers.close()
                desk.workers.close()

        asyncio.run(live())

    return run


Run = Callable[[Callable[[Desk], object]], None]


def test_calls_are_made_elsewhere_and_answered_here(run: Run) -> None:
    async def test(desk: Desk) -> None:
        made = await desk.ask(lambda then: desk.threaded.declare(TopicSpec("t"), then))
        assert made.value is not None and made.value.created
        assert desk.threaded.knows("t")
        appended = await desk.ask(lambda then: desk.threaded.append("t", [Entry(b"x")], then))
        assert appended.value == [1]
        read = await desk.ask(lambda then: desk.threaded.read("t", ConsumerSpec("c"), 5, 0, then))
        assert read.value is not None
        assert [row[4] for row in read.value.messages] == [b"x"]

    run(test)


def test_errors_of_the_engine_are_answers(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def test(desk: Desk) -> None:
        missing = await desk.ask(
            lambda then: desk.threaded.submit(lambda engine: engine.describe("nowhere"), then)
        )
        assert isinstance(missing.error, NoSuchTopic)
        desk.engine.create(TopicSpec("t"))
        desk.engine.fault = ZeroDivisionError("oops")
        failed = await desk.ask(lambda then: desk.threaded.append("t", [Entry(b"x")], then))
        assert isinstance(failed.error, EngineUnavailable)
        assert "may have been made" in str(failed.error)

    run(test)
    assert "oops" in caplog.text


def test_topics_of_other_nodes_are_found(run: Run) -> None:
    async def test(desk: Desk) -> None:
        changed = asyncio.Event()
        desk.threaded.on_change = changed.set
        desk.engine.create(TopicSpec("theirs"))
        desk.threaded.start()
        await asyncio.wait_for(changed.wait(), 10)
        assert desk.threaded.names() == ["theirs"]

    run(test)


def test_a_waiting_read_is_woken_by_an_append_of_this_node(run: Run) -> None:
    async def test(desk: Desk) -> None:
        await desk.ask(lambda then: desk.threaded.declare(TopicSpec("t"), then))
        waiting: asyncio.Future[EngineReply[ReadResult]] = (
            asyncio.get_running_loop().create_future()
        )
        desk.threaded.read("t", ConsumerSpec("c"), 5, 60_000, waiting.set_result)
        await desk.ask(lambda then: desk.threaded.append("t", [Entry(b"x")], then))
        answer = await asyncio.wait_for(waiting, 10)
        assert answer.value is not None and len(answer.value.messages) == 1

    run(test)


def test_a_waiting_read_sees_what_others_append(run: Run) -> None:
    async def test(desk: Desk) -> None:
        desk.engine.create(TopicSpec("t"))
        waiting: asyncio.Future[EngineReply[ReadResult]] = (
            asyncio.get_running_loop().create_future()
        )
        desk.threaded.read("t", ConsumerSpec("c"), 5, 60_000, waiting.set_result)
        desk.engine.append("t", [Entry(b"x")])
        answer = await asyncio.wait_for(waiting, 10)
        assert answer.value is not None and len(answer.value.messages) == 1

    run(test)


def test_a_cancelled_read_is_not_answered(run: Run) -> None:
    async def test(desk: Desk) -> None:
        desk.engine.create(TopicSpec("t"))
        answers: list[EngineReply[ReadResult]] = []
        cancel = desk.threaded.read("t", ConsumerSpec("c"), 5, 60_000, answers.append)
        cancel()
        desk.engine.append("t", [Entry(b"x")])
        infos: EngineReply[list[TopicInfo]] = await desk.ask(desk.threaded.infos)
        assert infos.value is not None
        assert answers == []

    run(test)


def test_after_the_end_nothing_is_taken(run: Run) -> None:
    async def test(desk: Desk) -> None:
        desk.workers.close()
        described = await desk.ask(
            lambda then: desk.threaded.submit(lambda engine: engine.describe("t"), then)
        )
        assert isinstance(described.error, EngineUnavailable)

    run(test)


def test_a_catalog_refresh_never_undoes_a_concurrent_declaration(run: Run) -> None:
    async def test(desk: Desk) -> None:
        seen, may_answer = threading.Event(), threading.Event()
        look = desk.engine.uuids

        def slow() -> dict[str, str]:
            found = look()
            seen.set()
            may_answer.wait(10)
            return found

        known: list[Sequence[str]] = []
        looked_twice = asyncio.Event()

        def changed() -> None:
            known.append(desk.threaded.names())
            if len(known) == 2:  # of the declaration, and of a second look
                looked_twice.set()

        desk.threaded.on_change = changed
        desk.engine.uuids = slow  # type: ignore[method-assign]
        desk.threaded.start()
        await asyncio.to_thread(seen.wait, 10)
        await desk.ask(lambda then: desk.threaded.declare(TopicSpec("t"), then))
        may_answer.set()
        await asyncio.wait_for(looked_twice.wait(), 10)
        assert known == [["t"], ["t"]]

    run(test)


def test_a_waiting_read_fails_when_the_engine_takes_no_more_calls(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else could tell it: its reader would wait for an answer for ever."""

    async def test(desk: Desk) -> None:
        await desk.ask(lambda then: desk.threaded.declare(TopicSpec("t"), then))

        def read(then: Then[ReadResult]) -> None:
            desk.threaded.read("t", ConsumerSpec("c"), 5, 60_000, then)
            monkeypatch.setattr(blocking_adapter, "MAX_WAITING", 0)

        answer = await desk.ask(read)
        assert isinstance(answer.error, EngineUnavailable)
        second = await desk.ask(
            lambda then: desk.threaded.read("t", ConsumerSpec("c"), 5, 60_000, then)
        )
        assert isinstance(second.error, EngineUnavailable)
        assert not desk.threaded.waits

    run(test)


def test_topics_are_listed_as_they_were_last_seen_while_the_engine_is_away(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(desk: Desk) -> None:
        def away() -> list[TopicInfo]:
            raise EngineUnavailable("away")

        with monkeypatch.context() as patched:
            patched.setattr(desk.engine, "topics", away)
            never_seen = await desk.ask(desk.threaded.infos)
            assert isinstance(never_seen.error, EngineUnavailable)
        await desk.ask(lambda then: desk.threaded.declare(TopicSpec("t", queues=3), then))
        seen = await desk.ask(desk.threaded.infos)
        await desk.ask(lambda then: desk.threaded.declare(TopicSpec("u"), then))
        monkeypatch.setattr(desk.engine, "topics", away)
        last = await desk.ask(desk.threaded.infos)
        assert seen.value is not None and last.value is not None
        assert last.value[0] == seen.value[0]
        assert [one.name for one in last.value] == ["t", "u"]

    run(test)
