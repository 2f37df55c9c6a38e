"""Locks of queues, which brokers keep: a queue has one orderly consumer in the whole group."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from headrace.errors import BrokerError as CodecError
from headrace.rocketmq.consuming.assignment import Assignment
from headrace.rocketmq.consuming.rebalancing import by_broker
from headrace.rocketmq.errors import RocketMQError
from headrace.wire.remoting.codes import RequestCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.message_queue import LockRequest, MessageQueue, take_locked

if TYPE_CHECKING:
    from headrace.rocketmq.consuming.consumer_core import ConsumerCore

logger = logging.getLogger(__name__)

BROKER_LIFE = 55.0  # after so long without renewal somebody else may have had the lock


class QueueLockHolder:
    """Takes, renews and releases."""

    def __init__(self, engine: ConsumerCore) -> None:
        self._engine = engine
        self._one_at_a_time = asyncio.Lock()  # else a renewal could overtake a release

    async def acquire(self, assignments: list[Assignment]) -> list[Assignment]:
        """Those whose lock we have now."""
        held = await self._lock([a.queue for a in assignments])
        now = time.monotonic()
        taken = [a for a in assignments if a.queue in held]
        for a in taken:
            a.cached.lock_renewed(now)
        if len(taken) < len(assignments):
            self._engine.metrics.add("lock_failures", len(assignments) - len(taken))
        return taken

    async def keep(self) -> None:
        await self._engine.instance.every(self._engine.config.lock_interval, self.renew)

    async def renew(self) -> None:
        """A lock that somebody else has is lost, and with it the queue."""
        async with self._one_at_a_time:
            await self._renew()

    async def _renew(self) -> None:
        for broker, queues in by_broker(a.queue for a in self._engine.owned()).items():
            try:
                held = await self._lock_on(broker, queues)
            except (RocketMQError, CodecError) as error:
                logger.warning("locks on %s were not renewed: %s", broker, error)
                continue
            await self._judge(set(queues), held)

    async def _judge(self, asked: set[MessageQueue], held: set[MessageQueue]) -> None:
        now = time.monotonic()
        for a in self._engine.owned():
            if a.queue not in asked or a.dropped:
                continue
            if a.queue in held and now - a.cached.locked_at < BROKER_LIFE:
                a.cached.lock_renewed(now)
            else:
                logger.warning("the lock of %s was lost; it is taken anew", a.queue)
                self._engine.metrics.add("lock_failures")
                await self._engine.shares.lock_lost(a)

    async def _lock(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        held: set[MessageQueue] = set()
        for broker, wanted in by_broker(queues).items():
            try:
                held |= await self._lock_on(broker, wanted)
            except (RocketMQError, CodecError) as error:
                logger.warning("queues of %s were not locked: %s", broker, error)
        return held

    async def _lock_on(self, broker: str, queues: list[MessageQueue]) -> set[MessageQueue]:
        answer = await self._engine.instance.ask(
            self._engine.broker_address(broker),
            Command(RequestCode.LOCK_BATCH_MQ, body=self._body(queues)),
        )
        return set(take_locked(answer.body))

    async def release(self, assignments: list[Assignment]) -> None:
        async with self._one_at_a_time:
            await self._release(assignments)

    async def _release(self, assignments: list[Assignment]) -> None:
        for broker, queues in by_broker(a.queue for a in assignments).items():
            command = Command(RequestCode.UNLOCK_BATCH_MQ, body=self._body(queues))
            try:
                await self._engine.instance.ask(self._engine.broker_address(broker), command)
            except RocketMQError as error:
                logger.warning("locks on %s were not released: %s", broker, error)

    def _body(self, queues: list[MessageQueue]) -> bytes:
        group, client = self._engine.config.consumer_group, self._engine.instance.client_id
        return LockRequest(group, client, tuple(queues)).encode()
