"""Where listeners run: in threads, or as tasks of an event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from headrace.rocketmq.consuming.listeners import ConsumeContext, ListenerAdapter, ListenerResult
from headrace.rocketmq.consuming.workers import ThreadPool
from headrace.rocketmq.message import MessageExt

Done = Callable[[ListenerResult, float], None]
Begin = Callable[[], bool]


class ListenerRunner(Protocol):
    """Both ways to run a listener."""

    def submit(
        self,
        adapter: ListenerAdapter,
        messages: list[MessageExt],
        context: ConsumeContext,
        begin: Begin,
        done: Done,
    ) -> None:
        """Some time: `begin`, and if that is True, the listener, then `done`."""

    async def call(
        self, adapter: ListenerAdapter, messages: list[MessageExt], context: ConsumeContext
    ) -> tuple[ListenerResult, float]:
        """Now, and wait for it; the outcome and the milliseconds it took."""

    async def stop(self, seconds: float) -> bool:
        """Begin nothing more; False when some listeners did not end in time."""


def _timed(
    adapter: ListenerAdapter, messages: list[MessageExt], context: ConsumeContext
) -> tuple[ListenerResult, float]:
    start = time.perf_counter()
    outcome = adapter.run(messages, context)
    return outcome, (time.perf_counter() - start) * 1000


class ThreadRunner:
    """Listeners in a pool of threads."""

    def __init__(self, name: str, low: int, high: int) -> None:
        self._workers = ThreadPool(name, low, high)

    def submit(
        self,
        adapter: ListenerAdapter,
        messages: list[MessageExt],
        context: ConsumeContext,
        begin: Begin,
        done: Done,
    ) -> None:
        def job() -> None:
            if begin():
                done(*_timed(adapter, messages, context))

        self._workers.submit(job)

    async def call(
        self, adapter: ListenerAdapter, messages: list[MessageExt], context: ConsumeContext
    ) -> tuple[ListenerResult, float]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[tuple[ListenerResult, float]] = loop.create_future()

        def hand_over(found: tuple[ListenerResult, float]) -> None:
            if not future.done():
                future.set_result(found)

        def job() -> None:
            found = _timed(adapter, messages, context)
            loop.call_soon_threadsafe(hand_over, found)

        self._workers.submit(job)
        return await future

    async def stop(self, seconds: float) -> bool:
        return await asyncio.to_thread(self._workers.stop, seconds)


class TaskRunner:
    """Listeners as tasks; a semaphore limits how many are at work."""

    def __init__(self, high: int) -> None:
        self._room = asyncio.Semaphore(high)
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False

    def submit(
        self,
        adapter: ListenerAdapter,
        messages: list[MessageExt],
        context: ConsumeContext,
        begin: Begin,
        done: Done,
    ) -> None:
        async def job() -> None:
            async with self._room:
                if not self._stopped and begin():
                    done(*await self.call(adapter, messages, context))

        task = asyncio.get_running_loop().create_task(job())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def call(
        self, adapter: ListenerAdapter, messages: list[MessageExt], context: ConsumeContext
    ) -> tuple[ListenerResult, float]:
        start = time.perf_counter()
        outcome = await adapter.run_async(messages, context)
        return outcome, (time.perf_counter() - start) * 1000

    async def stop(self, seconds: float) -> bool:
        self._stopped = True
        if not self._tasks:
            return True
        _, late = await asyncio.wait(set(self._tasks), timeout=seconds)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        return not late
