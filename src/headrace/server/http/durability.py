"""Waits until a change is on disk, so that a reply of success is true."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from headrace.core.broker import Broker
from headrace.core.topics.async_engine import AsyncTopicEngine, EngineReply, Then
from headrace.core.topics.engine_confirms import EngineConfirms
from headrace.errors import HttpRefused, StoreError
from headrace.store.topics.engine import TopicEngine

T = TypeVar("T")
SECONDS = 30.0  # also for an engine that is a database far away


class _DurabilityWaiter:
    """Takes part in the turns of the loop like a session."""

    def __init__(self, broker: Broker, position: int) -> None:
        self._storage = broker.storage
        self._ticket = broker.storage.issued
        self._position = position
        self.marked = False
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def flush(self) -> None:
        storage = self._storage
        if storage.committed >= self._ticket and storage.durable >= self._position:
            if not self.done.done():
                self.done.set_result(None)
        elif not self.done.cancelled():
            storage.wait(self)


async def until_taken(engine_confirms: EngineConfirms | None) -> bool:
    """Wait for engines other than the log; False when one of them did not take the message."""
    if engine_confirms is None:
        return True
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    engine_confirms.when_done(lambda: None if done.done() else done.set_result(None))
    try:
        async with asyncio.timeout(SECONDS):
            await done
    except TimeoutError:
        return False
    return not engine_confirms.failed


async def until_durable(broker: Broker, position: int = 0) -> None:
    """Return when every declaration so far, and the log up to ``position``, is on disk."""
    waiter = _DurabilityWaiter(broker, position)
    broker.turn.mark_session(waiter)
    try:
        async with asyncio.timeout(SECONDS):
            await waiter.done
    except TimeoutError:
        raise StoreError("the disk did not respond in time; the outcome is unknown") from None


async def engine_call(
    broker: Broker, engine: AsyncTopicEngine, call: Callable[[TopicEngine], T]
) -> T | None:
    """The value that the engine's call returns; raises its error."""
    return await engine_reply(broker, partial(engine.submit, call))


async def engine_reply(broker: Broker, question: Callable[[Then[T]], object]) -> T | None:
    """The value of an engine's reply, once it is on disk as far as needed; raises its error."""
    future: asyncio.Future[EngineReply[T]] = asyncio.get_running_loop().create_future()

    def then(answer: EngineReply[T]) -> None:
        if not future.done():
            future.set_result(answer)

    question(then)
    try:
        async with asyncio.timeout(SECONDS):
            answer = await future
    except TimeoutError:
        raise HttpRefused(
            f"the topic engine did not reply within {SECONDS:.0f} s: see the broker's log",
            504,
            "timeout",
        ) from None
    if answer.error is not None:
        raise answer.error
    if answer.position:
        await until_durable(broker, answer.position)
    return answer.value
