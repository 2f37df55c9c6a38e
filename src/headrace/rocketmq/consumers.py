"""Blocking consumers, whose listeners run in threads, and consumers for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar, Self

from headrace.rocketmq.config import ConsumerConfig
from headrace.rocketmq.consuming.base_consumer import BaseConsumer
from headrace.rocketmq.consuming.concurrent import RESULTS as CONCURRENT_RESULTS
from headrace.rocketmq.consuming.concurrent import ConcurrentService
from headrace.rocketmq.consuming.consumer_core import ConsumerCore, ConsumeService
from headrace.rocketmq.consuming.listeners import ListenerAdapter
from headrace.rocketmq.consuming.orderly import RESULTS as ORDERLY_RESULTS
from headrace.rocketmq.consuming.orderly import OrderlyService
from headrace.rocketmq.consuming.runners import ListenerRunner, TaskRunner, ThreadRunner
from headrace.rocketmq.enums import ConsumeResult
from headrace.rocketmq.errors import ConfigurationError
from headrace.rocketmq.net.lifecycle import LoopThread
from headrace.rocketmq.offsets import OffsetStore


class BlockingConsumer(BaseConsumer):
    """start() and shutdown() block; a thread of its own does the network."""

    _thread: LoopThread | None = None

    def start(self) -> None:
        """Returns when brokers know the consumer and its first queues are being pulled."""
        with self._life.lock:
            if not self._life.begin():
                return
            thread = LoopThread(f"rocketmq-{self.config.consumer_group}")
            self._thread = thread
            try:
                thread.run(self._start_core(thread.loop))
            except BaseException:
                thread.run(self._abort())
                thread.stop()
                self._life.failed()
                raise
            self._running()

    def shutdown(self) -> None:
        """Stop pulling, wait for listeners, store offsets. Twice = no effect."""
        with self._life.lock:
            if not self._life.end():
                return
            assert self._thread is not None
            self._thread.run(self._stop_core())
            self._thread.stop()
            self._life.ended()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()


class ConcurrentConsumer(BlockingConsumer):
    """Messages in any order in many threads; a failed one blocks nobody."""

    allowed: ClassVar[Sequence[ConsumeResult]] = CONCURRENT_RESULTS

    def _runner(self) -> ListenerRunner:
        config = self.config
        name = f"rocketmq-{config.consumer_group}-listener"
        return ThreadRunner(name, config.consume_thread_min, config.consume_thread_max)

    def _service(
        self, core: ConsumerCore, adapter: ListenerAdapter, runner: ListenerRunner
    ) -> ConsumeService:
        return ConcurrentService(core, adapter, runner)


class OrderlyConsumer(ConcurrentConsumer):
    """Messages of a queue one after the other; a failed one blocks its queue."""

    allowed: ClassVar[Sequence[ConsumeResult]] = ORDERLY_RESULTS

    def _service(
        self, core: ConsumerCore, adapter: ListenerAdapter, runner: ListenerRunner
    ) -> ConsumeService:
        return OrderlyService(core, adapter, runner)


class TransactionConsumer(OrderlyConsumer):
    """Orderly, and the offset moves only when the listener returns COMMIT.

    ROLLBACK brings back everything since the last COMMIT.
    """

    def __init__(self, config: ConsumerConfig, offset_store: OffsetStore | None = None) -> None:
        if config.enable_auto_commit:
            raise ConfigurationError(
                "a TransactionConsumer needs enable_auto_commit=False: its listener commits"
            )
        super().__init__(config, offset_store)


class AsyncConsumer(BaseConsumer):
    """start() and shutdown() are awaited; everything happens on the loop of start()."""

    async def start(self) -> None:
        """Returns when brokers know the consumer and its first queues are being pulled."""
        if not self._life.begin():
            return
        try:
            await self._start_core(asyncio.get_running_loop())
        except BaseException:
            await self._abort()
            self._life.failed()
            raise
        self._running()

    async def shutdown(self) -> None:
        """Stop pulling, wait for listeners, store offsets. Twice = no effect."""
        if not self._life.end():
            return
        await self._stop_core()
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
        self, core: ConsumerCore, adapter: ListenerAdapter, runner: ListenerRunner
    ) -> ConsumeService:
        return ConcurrentService(core, adapter, runner)


class AsyncOrderlyConsumer(AsyncConsumer):
    """Messages of a queue one after the other; a failed one blocks its queue."""

    allowed = ORDERLY_RESULTS

    def _service(
        self, core: ConsumerCore, adapter: ListenerAdapter, runner: ListenerRunner
    ) -> ConsumeService:
        return OrderlyService(core, adapter, runner)
