"""The heart of a consumer, on one event loop: start, stop, offsets, and what others need."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from headrace.rocketmq.config import ConsumerConfig
from headrace.rocketmq.consuming.listeners import ListenerResult
from headrace.rocketmq.consuming.membership import Membership
from headrace.rocketmq.consuming.process_queue import Assignment, FlowLimits
from headrace.rocketmq.consuming.rebalance import ConsumeFromWhereManager, Rebalancer, cancel
from headrace.rocketmq.consuming.service import ConsumeService
from headrace.rocketmq.message import MessageExt
from headrace.rocketmq.metrics import ConsumerMetrics
from headrace.rocketmq.net import checks
from headrace.rocketmq.net.client_instance import ClientInstance
from headrace.rocketmq.offsets.local import LocalOffsetStore
from headrace.rocketmq.offsets.offset_store import OffsetStore
from headrace.rocketmq.offsets.remote import BrokerOffsets, RemoteOffsetStore
from headrace.rocketmq.producing.trace import MessageTrace
from headrace.rocketmq.subscriptions.manager import SubscriptionManager

logger = logging.getLogger(__name__)

_OFFSET_SECONDS = 5.0
_ROUTES_GAP = 1.0


class ConsumerCore:
    """One consumer while it runs."""

    service: ConsumeService

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        config: ConsumerConfig,
        client_id: str,
        subscriptions: SubscriptionManager,
        metrics: ConsumerMetrics,
        store: OffsetStore | None = None,
    ) -> None:
        self.config = config
        self.metrics = metrics
        self.trace: MessageTrace | None = None
        self.suspended = False
        self.closing = False
        self.limits = FlowLimits(
            config.pull_threshold_for_queue,
            config.pull_threshold_size_for_queue * 1024 * 1024,
            config.consume_concurrently_max_span,
        )
        self.instance = ClientInstance(
            loop,
            client_id,
            config.name_servers,
            heartbeat=lambda: self.members.heartbeat(),
            request_timeout=config.request_timeout / 1000,
            credentials=config.credentials,
            tls=checks.tls_context(config.tls),
            talks_to_slaves=True,
        )
        self.members = Membership(self.instance, config, subscriptions)
        broker_offsets = BrokerOffsets(
            self.instance,
            config.consumer_group,
            _OFFSET_SECONDS,
            lambda count: metrics.add("offsets_committed", count),
        )
        self.store = store or _store_for(config, client_id, broker_offsets)
        self.routes_needed = asyncio.Event()
        self._loop = loop
        self.rebalancer = Rebalancer(self, ConsumeFromWhereManager(broker_offsets))

    # -- for services and pullers ------------------------------------------------------------

    @property
    def is_orderly(self) -> bool:
        return self.service.is_orderly

    @property
    def needs_locks(self) -> bool:
        return self.service.is_orderly and not self.config.is_broadcasting

    def owned(self) -> list[Assignment]:
        return self.rebalancer.owned()

    def spawn_from_anywhere(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something on the loop, whatever thread this is."""

        def start() -> None:
            if self.instance.stopping:
                work.close()
            else:
                self.instance.spawn(work)

        try:
            self._loop.call_soon_threadsafe(start)
        except RuntimeError:  # the loop is closed: the message comes again
            work.close()

    def count(
        self, messages: list[MessageExt], outcome: ListenerResult, millis: float, fine: int
    ) -> None:
        """A listener has returned; ``fine`` of its messages are finished."""
        failed = len(messages) - fine
        if self.trace is not None:
            self.trace.consumed(messages, outcome, millis)
        self.metrics.listened(millis, fine, failed)
        if outcome.is_wrong:
            self.metrics.add("wrong_results")
            self.instance.problems.set("listener", str(outcome.error))
        elif outcome.error is not None:
            self.metrics.add("listener_errors")
        elif fine:
            self.instance.problems.clear("listener")

    def commit_failed(self, error: Exception) -> None:
        """Of any kind: a store of the user raises what it likes."""
        self.metrics.add("commit_failures")
        if self.instance.problems.set("offsets", str(error)):
            logger.warning("%s: %s", self.config.consumer_group, error)

    # -- start and stop ----------------------------------------------------------------------

    async def start(self) -> None:
        """Returns when brokers know us and the first queues are ours."""
        config = self.config
        await self.members.find_routes(strict=True)
        if config.enable_msg_trace:
            self.trace = MessageTrace(self._loop, config, config.consumer_group, "CONSUME")
            await self.trace.start()
        await self.members.check_selectors()
        await asyncio.to_thread(self.store.load)
        await self.instance.beat()
        await self.members.find_routes()
        self.service.start()
        await self.rebalancer.rebalance()
        spawn, every = self.instance.spawn, self.instance.every
        spawn(self.rebalancer.keep())
        spawn(self._route_loop())
        spawn(every(config.heartbeat_interval, self.instance.beat))
        spawn(every(config.persist_interval, self.persist))

    async def stop(self) -> None:
        """Stop pulling, wait for listeners, store offsets, say goodbye."""
        self.closing = True
        async with self.rebalancer.lock:
            for a in self.owned():
                cancel(a.tasks[:1])
            if not await self.service.stop(self.config.shutdown_timeout / 1000):
                logger.warning(
                    "%s: some listeners did not end within %s ms; their messages are redelivered",
                    self.config.consumer_group,
                    self.config.shutdown_timeout,
                )
            for a in self.owned():
                a.update_offset()
                a.drop()
            try:
                await asyncio.to_thread(self.store.persist_all)
            except Exception as error:
                logger.error("%s: offsets were not stored: %s", self.config.consumer_group, error)
            for a in self.owned():
                await self.service.released(a)
            self.rebalancer.clear()
        if self.trace is not None:
            await self.trace.stop()
        await self.instance.unregister(consumer=self.config.consumer_group)
        await self.instance.close()

    def update_offsets(self) -> None:
        """Bring the store's memory up to date."""
        for a in self.owned():
            a.update_offset()

    async def persist(self) -> None:
        self.update_offsets()
        try:
            await asyncio.to_thread(self.store.persist_all)
        except Exception as error:
            self.commit_failed(error)
        else:
            self.instance.problems.clear("offsets")

    # -- changes -----------------------------------------------------------------------------

    def rebalance_soon(self) -> None:
        """From any thread: something has changed."""
        try:
            self._loop.call_soon_threadsafe(self.rebalancer.needed.set)
        except RuntimeError:
            logger.debug("a change came after the end")

    def subscriptions_changed(self) -> None:
        """From any thread: brokers must be notified."""
        self.spawn_from_anywhere(self._announce())

    async def _announce(self) -> None:
        await self.instance.attempt(self._refresh_brokers)
        self.rebalancer.needed.set()

    async def _refresh_brokers(self) -> None:
        await self.members.find_routes()
        await self.instance.beat()

    async def _route_loop(self) -> None:
        """Poll routes; at once when a pull has failed, but not more often than once a second."""
        while True:
            try:
                async with asyncio.timeout(self.config.poll_route_interval / 1000):
                    await self.routes_needed.wait()
            except TimeoutError:
                pass
            self.routes_needed.clear()
            await self.instance.attempt(self._poll_routes)
            await asyncio.sleep(_ROUTES_GAP)

    async def _poll_routes(self) -> None:
        if await self.members.find_routes():
            await self.instance.beat()
            self.rebalancer.needed.set()


def _store_for(
    config: ConsumerConfig, client_id: str, broker_offsets: BrokerOffsets
) -> OffsetStore:
    if config.is_broadcasting:
        return LocalOffsetStore(
            config.offset_directory,
            config.consumer_group,
            client_id,
            enable_auto_recovery=config.enable_auto_recovery,
            max_retry_times=config.max_retry_times,
            file_format=config.offset_file_format,
        )
    return RemoteOffsetStore(
        broker_offsets,
        persist_batch_size=config.persist_batch_size,
        max_cache_size=config.max_cache_size,
        max_retry_times=config.max_retry_times,
    )
