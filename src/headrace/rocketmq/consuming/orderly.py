"""Orderly consumption: one listener at a time per queue, while the broker's lock is held.

Brokers keep the locks: a queue has one orderly consumer in the whole group.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from headrace.errors import BrokerError as CodecError
from headrace.rocketmq.config import clamp_suspension
from headrace.rocketmq.consuming.listeners import ConsumeContext, ListenerResult
from headrace.rocketmq.consuming.process_queue import Assignment
from headrace.rocketmq.consuming.runners import ListenerRunner, until
from headrace.rocketmq.consuming.service import DEAD_LETTER, ConsumeService, batches
from headrace.rocketmq.enums import ConsumeResult
from headrace.rocketmq.errors import RocketMQError
from headrace.rocketmq.message import MessageExt
from headrace.wire.remoting.codes import RequestCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.message_queue import LockRequest, MessageQueue, take_locked

if TYPE_CHECKING:
    from headrace.rocketmq.consuming.consumer_core import ConsumerCore

logger = logging.getLogger(__name__)

_LOCK_PAUSE = 0.05
_LEAVE_SECONDS = 0.5  # seconds a rebalance waits for a listener
BROKER_LIFE = 55.0  # after so long without renewal another member may have had the lock


class QueueLockHolder:
    """Takes, renews and releases."""

    def __init__(self, core: ConsumerCore) -> None:
        self._core = core
        self._one_at_a_time = asyncio.Lock()  # else a renewal could overtake a release

    async def acquire(self, assignments: list[Assignment]) -> list[Assignment]:
        """Those whose lock we have now."""
        held: set[MessageQueue] = set()
        for broker, wanted in by_broker(a.queue for a in assignments).items():
            try:
                held |= await self._lock_on(broker, wanted)
            except (RocketMQError, CodecError) as error:
                logger.warning("queues of %s were not locked: %s", broker, error)
        now = time.monotonic()
        taken = [a for a in assignments if a.queue in held]
        for a in taken:
            a.cached.lock_renewed(now)
        if len(taken) < len(assignments):
            self._core.metrics.add("lock_failures", len(assignments) - len(taken))
        return taken

    async def renew(self) -> None:
        """A lock that another member has is lost, and with it the queue."""
        async with self._one_at_a_time:
            for broker, queues in by_broker(a.queue for a in self._core.owned()).items():
                try:
                    held = await self._lock_on(broker, queues)
                except (RocketMQError, CodecError) as error:
                    logger.warning("locks on %s were not renewed: %s", broker, error)
                else:
                    await self._renewed(set(queues), held)

    async def _renewed(self, asked: set[MessageQueue], held: set[MessageQueue]) -> None:
        now = time.monotonic()
        for a in self._core.owned():
            if a.queue not in asked or a.dropped:
                continue
            if a.queue in held and now - a.cached.locked_at < BROKER_LIFE:
                a.cached.lock_renewed(now)
            else:
                logger.warning("the lock of %s was lost; it is requested again", a.queue)
                self._core.metrics.add("lock_failures")
                await self._core.rebalancer.lock_lost(a)

    async def _lock_on(self, broker: str, queues: list[MessageQueue]) -> set[MessageQueue]:
        answer = await self._ask(RequestCode.LOCK_BATCH_MQ, broker, queues)
        return set(take_locked(answer.body))

    async def release(self, a: Assignment) -> None:
        async with self._one_at_a_time:
            try:
                await self._ask(RequestCode.UNLOCK_BATCH_MQ, a.queue.broker_name, [a.queue])
            except RocketMQError as error:
                logger.warning("the lock of %s was not released: %s", a.queue, error)

    async def _ask(self, code: int, broker: str, queues: list[MessageQueue]) -> Command:
        core = self._core
        request = LockRequest(core.config.consumer_group, core.instance.client_id, tuple(queues))
        command = Command(code, body=request.encode())
        return await core.instance.ask(core.instance.address_of(broker), command)


def by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    """Locks are asked for from each broker in one request."""
    found: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        found.setdefault(queue.broker_name, []).append(queue)
    return found


class OrderlyService(ConsumeService):
    """A worker per queue."""

    is_orderly = True
    results = (
        ConsumeResult.SUCCESS,
        ConsumeResult.RECONSUME_LATER,
        ConsumeResult.SUSPEND_CURRENT_QUEUE_A_MOMENT,
        ConsumeResult.COMMIT,
        ConsumeResult.ROLLBACK,
    )

    def __init__(self, core: ConsumerCore, runner: ListenerRunner) -> None:
        super().__init__(core, runner, core.config.orderly_max_reconsume_times)
        self._locks = QueueLockHolder(core)
        self._keeper: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._core.needs_locks:
            every = self._core.instance.every(self._core.config.lock_interval, self._locks.renew)
            self._keeper = self._core.instance.spawn(every)

    def arrived(self, a: Assignment, messages: list[MessageExt]) -> None:
        a.arrived.set()

    async def took(self, assignments: list[Assignment]) -> list[Assignment]:
        """Only queues whose lock we get are ours."""
        if self._core.needs_locks:
            assignments = await self._locks.acquire(assignments)
        for a in assignments:
            a.tasks.append(self._core.instance.spawn(self._work(a)))
        return assignments

    async def leave(self, a: Assignment) -> bool:
        """False while a listener is running: the queue stays ours, and locked, until it ends."""
        a.is_leaving = True
        if not await until(lambda: not a.is_busy, _LEAVE_SECONDS):
            return False
        return await super().leave(a)

    async def released(self, a: Assignment) -> None:
        """After its offset is stored."""
        if self._core.needs_locks:
            await self._locks.release(a)

    async def stop(self, seconds: float) -> bool:
        for a in self._core.owned():
            a.is_leaving = True
            a.arrived.set()
        deadline = time.monotonic() + seconds
        await until(lambda: not any(a.is_busy for a in self._core.owned()), seconds)
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        return await self._runner.stop(max(0.0, deadline - time.monotonic()))

    # -- one queue ---------------------------------------------------------------------------

    async def _work(self, a: Assignment) -> None:
        core = self._core
        while not a.dropped and not a.is_leaving:
            await a.arrived.wait()
            if core.suspended or not self._may_consume(a):
                await asyncio.sleep(_LOCK_PAUSE)
                continue
            messages = a.cached.take(core.config.consume_message_batch_max_size)
            if len(messages) > 1:
                first = next(batches(messages, len(messages)))
                a.cached.give_back(messages[len(first) :])
                messages = first
            if not messages:
                a.arrived.clear()
                continue
            a.is_busy = True
            try:
                pause = await self._consume(a, messages)
            finally:
                a.is_busy = False
            if pause:
                core.metrics.add("suspensions")
                await asyncio.sleep(pause)

    def _may_consume(self, a: Assignment) -> bool:
        if a.dropped or a.is_leaving:
            return False
        return not self._core.needs_locks or a.cached.holds_lock(time.monotonic())

    async def _consume(self, a: Assignment, messages: list[MessageExt]) -> float:
        """Seconds to pause before the queue continues."""
        core = self._core
        context = ConsumeContext(a.queue, auto_commit=core.config.enable_auto_commit)
        outcome, millis = await self._listen(a, messages, context)
        result = outcome.result
        is_fine = result in (ConsumeResult.SUCCESS, ConsumeResult.COMMIT)
        if context.auto_commit and result is ConsumeResult.ROLLBACK:
            is_fine = True  # without manual commits there is nothing to roll back, as in Java
            logger.warning("ROLLBACK counts as SUCCESS while enable_auto_commit is on")
        core.count(messages, outcome, millis, len(messages) if is_fine else 0)
        if a.dropped:
            return 0.0
        if not is_fine:
            return await self._failed(a, messages, context, result)
        if context.auto_commit or result is ConsumeResult.COMMIT:
            await self._commit(a)
        return 0.0

    async def _listen(
        self, a: Assignment, messages: list[MessageExt], context: ConsumeContext
    ) -> tuple[ListenerResult, float]:
        """A listener that takes too long is reported; the order is worth more than the time."""
        core, subject = self._core, f"slow {a.queue}"
        seconds = core.config.orderly_consume_timeout
        if core.trace is not None:
            core.trace.consuming(messages)
        call = asyncio.ensure_future(self._runner.call(messages, context))
        try:
            while True:
                done, _ = await asyncio.wait({call}, timeout=seconds)
                if done:
                    return call.result()
                text = (
                    f"the listener is busy with message {messages[0].msg_id} of {a.queue} for "
                    f"more than {seconds} s; the queue waits for it"
                )
                if core.instance.problems.set(subject, text):
                    core.metrics.add("timed_out")
                    logger.error("%s", text)
        finally:
            call.cancel()
            core.instance.problems.clear(subject)

    async def _commit(self, a: Assignment) -> None:
        """The offset is stored before the next message is touched."""
        a.cached.commit()
        a.update_offset()
        try:
            await asyncio.to_thread(self._core.store.persist, a.queue)
        except Exception as error:
            self._core.commit_failed(error)

    async def _failed(
        self,
        a: Assignment,
        messages: list[MessageExt],
        context: ConsumeContext,
        result: ConsumeResult,
    ) -> float:
        if result is not ConsumeResult.ROLLBACK and await self._dead_lettered(a, messages):
            await self._commit(a)
            return 0.0
        for message in messages:
            message.reconsume_times += 1
        a.cached.give_back()
        wanted = context.suspend_current_queue_time_millis
        if wanted == -1:
            wanted = self._core.config.orderly_suspend_current_queue_time_millis
        return clamp_suspension(wanted) / 1000

    async def _dead_lettered(self, a: Assignment, messages: list[MessageExt]) -> bool:
        """True when all have failed too often and are out of the way."""
        limit = self._core.config.orderly_max_reconsume_times
        if limit < 0 or any(one.reconsume_times < limit for one in messages):
            return False
        if self._core.config.is_broadcasting:
            for message in messages:
                logger.error("message %s failed %s times; it is given up", message.msg_id, limit)
            return True
        for message in messages:
            if not await self.send_back(a.queue, message, DEAD_LETTER):
                return False
        return True
