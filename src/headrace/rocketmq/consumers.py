"""Blocking consumers, whose listeners run in threads, and consumers for asyncio."""

from __future__ import annotations

from headrace.rocketmq.config import ConsumerConfig
from headrace.rocketmq.consuming.base_consumer import GroupConsumer
from headrace.rocketmq.consuming.concurrent import ConcurrentService
from headrace.rocketmq.consuming.orderly import OrderlyService
from headrace.rocketmq.consuming.runners import ListenerRunner, TaskRunner, ThreadRunner
from headrace.rocketmq.errors import ConfigurationError
from headrace.rocketmq.net.lifecycle import AsyncClient, BlockingClient
from headrace.rocketmq.offsets import OffsetStore


class BlockingConsumer(BlockingClient, GroupConsumer):
    """Listeners run in threads."""

    def _runner(self) -> ListenerRunner:
        config = self.config
        name = f"rocketmq-{config.consumer_group}-listener"
        return ThreadRunner(name, config.consume_thread_min, config.consume_thread_max)


class ConcurrentConsumer(BlockingConsumer):
    """Messages in any order in many threads; a failed message delays no other."""

    service_type = ConcurrentService


class OrderlyConsumer(BlockingConsumer):
    """Messages of a queue one after the other; a failed one blocks its queue."""

    service_type = OrderlyService


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


class AsyncConsumer(AsyncClient, GroupConsumer):
    """Listeners are tasks of the event loop."""

    def _runner(self) -> ListenerRunner:
        return TaskRunner(self.config.consume_thread_max)


class AsyncConcurrentConsumer(AsyncConsumer):
    """Messages in any order, at most consume_thread_max at a time."""

    service_type = ConcurrentService


class AsyncOrderlyConsumer(AsyncConsumer):
    """Messages of a queue one after the other; a failed one blocks its queue."""

    service_type = OrderlyService
