"""Blocking consumers, whose listeners run in threads, and consumers for asyncio."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, ClassVar

from headrace.rocketmq.config import ConsumerConfig
from headrace.rocketmq.consuming.concurrent import ConcurrentService
from headrace.rocketmq.consuming.consumer_core import ConsumerCore
from headrace.rocketmq.consuming.listeners import Listener, ListenerAdapter
from headrace.rocketmq.consuming.membership import ConsumerRequests
from headrace.rocketmq.consuming.orderly import OrderlyService
from headrace.rocketmq.consuming.runners import ListenerRunner, TaskRunner, ThreadRunner
from headrace.rocketmq.enums import ConsumeResult
from headrace.rocketmq.errors import ConfigurationError, StateError
from headrace.rocketmq.metrics import ConsumerMetrics, Health, State
from headrace.rocketmq.net.client_instance import client_id
from headrace.rocketmq.net.lifecycle import AsyncClient, BlockingClient, Client, Lifecycle
from headrace.rocketmq.offsets.offset_store import OffsetStore
from headrace.rocketmq.selector import MessageSelector, selector_of
from headrace.rocketmq.subscriptions.manager import SubscriptionManager
from headrace.wire.remoting.message_queue import MessageQueue
from headrace.wire.remoting.names import in_namespace


class BaseConsumer(ABC):
    """Subscriptions, listener, state and numbers of a consumer.

    A subclass of your own needs start() and shutdown(), and may override subscribe().
    """

    service_type: ClassVar[type[ConcurrentService | OrderlyService] | None] = None

    def __init__(self, config: ConsumerConfig, offset_store: OffsetStore | None = None) -> None:
        if not isinstance(config, ConsumerConfig):
            raise ConfigurationError(f"{config!r} is no ConsumerConfig")
        self.config = config
        self.client_id = client_id(config.instance_name, broadcasting=config.is_broadcasting)
        self.metrics = ConsumerMetrics()
        self.subscription_manager = SubscriptionManager(config.max_subscriptions)
        self.message_listener: Listener | None = None
        self._adapter: ListenerAdapter | None = None
        self._offset_store = offset_store
        self._core: ConsumerCore | None = None
        group = config.consumer_group
        self._life = Lifecycle(f"{type(self).__name__} of group {group!r}", f"rocketmq-{group}")

    @abstractmethod
    def start(self) -> Awaitable[None] | None:
        """Join the group and begin to consume; to be awaited where the consumer is asynchronous."""

    @abstractmethod
    def shutdown(self) -> Awaitable[None] | None:
        """Stop pulling, wait for listeners, store offsets, leave the group."""

    @property
    def running(self) -> bool:
        return self._life.state is State.RUNNING

    @running.setter
    def running(self, value: bool) -> None:
        """For start() and shutdown() of a subclass of your own."""
        if isinstance(self, Client):
            raise StateError("running cannot be set; call start() or shutdown()")
        self._life.state = State.RUNNING if value else State.STOPPED

    # -- before and while it runs ------------------------------------------------------------

    def subscribe(self, topic: str, selector: MessageSelector | str | None = None) -> None:
        """Consume a topic. A text is a tag expression; nothing means everything."""
        self._life.refuse_fork()
        self.subscription_manager.subscribe(topic, selector_of(selector))

    def unsubscribe(self, topic: str) -> bool:
        return self.subscription_manager.unsubscribe(topic)

    def register_message_listener(self, listener: Listener) -> None:
        """An object with consume_message(), a function or a coroutine function."""
        if self._life.state is not State.CREATED:
            raise StateError("the listener of a consumer cannot be changed after start()")
        allowed = self.service_type.results if self.service_type else tuple(ConsumeResult)
        self._adapter = ListenerAdapter(listener, allowed)
        self.message_listener = listener

    def suspend(self) -> None:
        """Pull nothing more until resume(); what is cached is still consumed."""
        self._running_core().suspended = True

    def resume(self) -> None:
        self._running_core().suspended = False

    # -- questions ---------------------------------------------------------------------------

    @property
    def state(self) -> State:
        return self._life.state

    @property
    def offset_store(self) -> OffsetStore | None:
        """The store in use; None before start() unless one was given."""
        return self._core.store if self._core is not None else self._offset_store

    def assigned_queues(self) -> list[MessageQueue]:
        """The queues that this consumer owns at the moment."""
        return sorted(a.queue for a in self._core.owned()) if self._core is not None else []

    def health(self) -> Health:
        """Whether it works, and what keeps it from working."""
        state, core = self._life.state, self._core
        if state is not State.RUNNING:
            return Health(state, ok=False, problems=(f"the consumer is {state.value}",))
        if core is None:
            return Health(state, ok=True)
        problems = core.instance.problems.texts()
        beat = core.instance.problems.last_heartbeat
        return Health(state, not problems, problems, len(core.owned()), beat)

    def statistics(self) -> dict[str, Any]:
        """Counters, times and what is cached now."""
        owned = self._core.owned() if self._core is not None else []
        return {
            **self.metrics.to_dict(),
            "queues": len(owned),
            "messages_cached": sum(a.cached.count for a in owned),
            "bytes_cached": sum(a.cached.size for a in owned),
            "lag": sum(a.lag for a in owned),
        }

    def _running_core(self) -> ConsumerCore:
        self._life.check_running()
        assert self._core is not None
        return self._core


class GroupConsumer(Client, BaseConsumer):
    """A member of a group, without its way to wait."""

    service_type: ClassVar[type[ConcurrentService | OrderlyService]]

    @abstractmethod
    def _runner(self, adapter: ListenerAdapter) -> ListenerRunner:
        """Where listeners run."""

    def _check_ready(self) -> ListenerAdapter:
        if self._adapter is None:
            raise StateError("no listener; call register_message_listener() before start()")
        if not self.subscription_manager.get_subscription_count():
            raise StateError("no subscription; call subscribe() before start()")
        return self._adapter

    async def _open(self, loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
        """Returns when brokers know the consumer and its first queues are being pulled."""
        adapter = self._check_ready()
        group = in_namespace(self.config.namespace, self.config.consumer_group)
        core = ConsumerCore(
            loop,
            replace(self.config, consumer_group=group),
            self.client_id,
            self.subscription_manager,
            self.metrics,
            self._offset_store,
        )
        self._core = core
        runner = self._runner(adapter)
        core.service = self.service_type(core, runner)
        ConsumerRequests(core, runner)
        self.subscription_manager.on_change = core.subscriptions_changed
        await core.start()
        return core.instance.remoting.abandon

    async def _close(self) -> None:
        """Stop pulling, wait for listeners, store offsets."""
        self.subscription_manager.on_change = None
        assert self._core is not None
        await self._core.stop()

    async def _abort(self) -> None:
        self.subscription_manager.on_change = None
        if self._core is not None:
            await self._core.service.stop(0.0)
            if self._core.trace is not None:
                await self._core.trace.stop()
            await self._core.instance.close()
            self._core = None


class BlockingConsumer(BlockingClient, GroupConsumer):
    """Listeners run in threads."""

    def _runner(self, adapter: ListenerAdapter) -> ListenerRunner:
        config = self.config
        name = f"rocketmq-{config.consumer_group}-listener"
        return ThreadRunner(adapter, name, config.consume_thread_min, config.consume_thread_max)


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

    def _runner(self, adapter: ListenerAdapter) -> ListenerRunner:
        return TaskRunner(adapter, self.config.consume_thread_max)


class AsyncConcurrentConsumer(AsyncConsumer):
    """Messages in any order, at most consume_thread_max at a time."""

    service_type = ConcurrentService


class AsyncOrderlyConsumer(AsyncConsumer):
    """Messages of a queue one after the other; a failed one blocks its queue."""

    service_type = OrderlyService
