"""Consumers for asyncio: their listeners are coroutines, or functions in threads."""

from __future__ import annotations

import asyncio
from typing import Self

from headrace.rocketmq.consuming.base_consumer import BaseConsumer
from headrace.rocketmq.consuming.concurrent import RESULTS as CONCURRENT_RESULTS
from headrace.rocketmq.consuming.concurrent import ConcurrentService
from headrace.rocketmq.consuming.consumer_core import ConsumerCore, ConsumeService
from headrace.rocketmq.consuming.listeners import ListenerAdapter
from headrace.rocketmq.consuming.orderly import RESULTS as ORDERLY_RESULTS
from headrace.rocketmq.consuming.orderly import OrderlyService
from headrace.rocketmq.consuming.runners import ListenerRunner, TaskRunner


class AsyncConsumer(BaseConsumer):
    """start() and shutdown() are awaited; everything happens on the loop of start()."""

    async def start(self) -> None:
        """Returns when brokers know the consumer and its first queues are being pulled."""
        if not self._life.begin():
            return
        try:
            await self._start_engine(asyncio.get_running_loop())
        except BaseException:
            await self._abort()
            self._life.failed()
            raise
        self._running()

    async def shutdown(self) -> None:
        """Stop pulling, wait for listeners, store offsets. Twice = no effect."""
        if not self._life.end():
            return
        await self._stop_engine()
        self._life.ended()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shutdown()

    def _runner(self) -> ListenerRunner:
        return TaskRunner(self.config.consume_thread_max)


class AsyncConcurrentConsumer(AsyncConsumer):
    """Messages in any order, at most consume_thread_max at a time."""

    allowed = CONCURRENT_RESULTS

    def _service(
        self, engine: ConsumerCore, adapter: ListenerAdapter, runner: ListenerRunner
    ) -> ConsumeService:
        return ConcurrentService(engine, adapter, runner)


class AsyncOrderlyConsumer(AsyncConsumer):
    """Messages of a queue one after the other; a failed one blocks its queue."""

    allowed = ORDERLY_RESULTS

    def _service(
        self, engine: ConsumerCore, adapter: ListenerAdapter, runner: ListenerRunner
    ) -> ConsumeService:
        return OrderlyService(engine, adapter, runner)
