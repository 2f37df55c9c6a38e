"""A tap follows a topic of another engine from its first moment, also when that moment failed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from headrace.core.clock import Clock, Timers
from headrace.core.topics import queue_feed as tails
from headrace.core.topics.async_engine import EngineReply, Then
from headrace.core.topics.blocking_adapter import BlockingAdapter, EngineThreads
from headrace.core.topics.queue_feed import DatabaseTap
from headrace.errors import EngineUnavailable
from headrace.model.topics.message_priority import Priority
from headrace.store.topics.entry import EntryFields
from headrace.store.topics.memory import MemoryEngine
from headrace.store.topics.types import ConsumerSpec, Entry, ReadResult, TopicSpec


class Refusing(MemoryEngine):
    """Its reads fail as often as it is told."""

    def __init__(self, failures: int) -> None:
        super().__init__("refusing")
        self.failures = failures

    def read(self, topic: str, reader: ConsumerSpec, batch: int) -> ReadResult:
        if self.failures:
            self.failures -= 1
            raise EngineUnavailable("the database is away")
        return super().read(topic, reader, batch)


class Ear:
    """In place of bridge and storage: hears what the tap gives."""

    synced = 0

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.heard = asyncio.Event()

    def give(self, topic: str, appended: Sequence[tuple[Priority, EntryFields]]) -> int:
        self.bodies += [bytes(parts.body) for _, parts in appended]
        if self.bodies:
            self.heard.set()
        return 0


def follow(failures: int, test: Callable[[BlockingAdapter, Ear], object]) -> None:
    async def live() -> None:
        loop = asyncio.get_running_loop()
        workers, timers, ear = EngineThreads(loop), Timers(Clock(), loop), Ear()
        engine = BlockingAdapter(
            Refusing(failures), workers, timers, lambda call: loop.call_soon(call) and None
        )
        await ask(lambda then: engine.declare(TopicSpec("t"), then))
        tail = DatabaseTap(engine, "t", ear, ear, timers, "tap", is_new=True)  # type: ignore[arg-type]
        tail.start()
        try:
            await test(engine, ear)  # type: ignore[misc]
        finally:
            tail.stop()
            engine.close()
            timers.close()
            workers.close()

    asyncio.run(live())


async def ask(call: Callable[[Then[object]], object]) -> EngineReply[object]:
    future: asyncio.Future[EngineReply[object]] = asyncio.get_running_loop().create_future()
    call(future.set_result)  # type: ignore[arg-type]
    return await asyncio.wait_for(future, 10)


@pytest.mark.parametrize("pause_ms", [1, 60_000])
@pytest.mark.parametrize("failures", [0, 1, 2])
def test_what_this_node_appends_after_the_binding_reaches_the_tap(
    failures: int, pause_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tails, "PAUSE_MS", pause_ms)  # if long, appends make it look again

    async def test(engine: BlockingAdapter, ear: Ear) -> None:
        answers = []
        while not answers or answers[-1].error is not None:
            answers.append(await ask(lambda then: engine.append("t", [Entry(b"x")], then)))
        assert len(answers) <= failures + 1
        await asyncio.wait_for(ear.heard.wait(), 10)
        assert ear.bodies == [b"x"]

    follow(failures, test)
