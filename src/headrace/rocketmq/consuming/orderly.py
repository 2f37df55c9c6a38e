"""Orderly consumption: one listener at a time per queue, and only while its lock is ours."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from headrace.rocketmq.config import clamp_suspension
from headrace.rocketmq.consuming.assignment import Assignment
from headrace.rocketmq.consuming.listeners import ConsumeContext, ListenerAdapter, ListenerResult
from headrace.rocketmq.consuming.locking import QueueLockHolder
from headrace.rocketmq.consuming.retry_topics import BURY, RetrySender
from headrace.rocketmq.consuming.runners import ListenerRunner
from headrace.rocketmq.consuming.waits import until
from headrace.rocketmq.enums import ConsumeResult
from headrace.rocketmq.errors import OffsetStoreError
from headrace.rocketmq.message import MessageExt

if TYPE_CHECKING:
    from headrace.rocketmq.consuming.consumer_core import ConsumerCore

logger = logging.getLogger(__name__)

RESULTS = (
    ConsumeResult.SUCCESS,
    ConsumeResult.RECONSUME_LATER,
    ConsumeResult.SUSPEND_CURRENT_QUEUE_A_MOMENT,
    ConsumeResult.COMMIT,
    ConsumeResult.ROLLBACK,
)
_LOCK_PAUSE = 0.05
_GIVE_UP = 0.5  # seconds a rebalance waits for a listener


class OrderlyService:
    """A worker per queue."""

    is_orderly = True

    def __init__(
        self, engine: ConsumerCore, adapter: ListenerAdapter, runner: ListenerRunner
    ) -> None:
        self._engine = engine
        self._adapter = adapter
        self._runner = runner
        self._locks = QueueLockHolder(engine)
        self._keeper: asyncio.Task[None] | None = None
        limit = engine.config.orderly_max_reconsume_times
        self._desk = RetrySender(engine, limit)
        self._limit = limit if limit >= 0 else None

    def start(self) -> None:
        if self._engine.needs_locks:
            self._keeper = self._engine.instance.spawn(self._locks.keep())

    def arrived(self, a: Assignment, messages: list[MessageExt]) -> None:
        a.arrived.set()

    async def took(self, assignments: list[Assignment]) -> list[Assignment]:
        """Only queues whose lock we get are ours."""
        if self._engine.needs_locks:
            assignments = await self._locks.acquire(assignments)
        for a in assignments:
            a.tasks.append(self._engine.instance.spawn(self._work(a)))
        return assignments

    async def leave(self, a: Assignment) -> bool:
        """False while a listener is at work: the queue stays ours, and locked, until it ends."""
        a.is_leaving = True
        if not await until(lambda: not a.is_busy, _GIVE_UP):
            return False
        a.note_offset()
        a.drop()
        return True

    async def released(self, a: Assignment) -> None:
        """After its offset is stored."""
        if self._engine.needs_locks:
            await self._locks.release([a])

    async def stop(self, seconds: float) -> bool:
        for a in self._engine.owned():
            a.is_leaving = True
            a.arrived.set()
        deadline = time.monotonic() + seconds
        await until(lambda: not any(a.is_busy for a in self._engine.owned()), seconds)
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        return await self._runner.stop(max(0.0, deadline - time.monotonic()))

    # -- one queue ---------------------------------------------------------------------------

    async def _work(self, a: Assignment) -> None:
        engine = self._engine
        while not a.dropped and not a.is_leaving:
            await a.arrived.wait()
            if engine.suspended or not self._may_consume(a):
                await asyncio.sleep(_LOCK_PAUSE)
                continue
            messages = a.cached.take(engine.config.consume_message_batch_max_size)
            if not messages:
                a.arrived.clear()
                continue
            a.is_busy = True
            try:
                pause = await self._consume(a, messages)
            finally:
                a.is_busy = False
            if pause:
                engine.metrics.add("suspensions")
                await asyncio.sleep(pause)

    def _may_consume(self, a: Assignment) -> bool:
        if a.dropped or a.is_leaving:
            return False
        return not self._engine.needs_locks or a.cached.holds_lock(time.monotonic())

    async def _consume(self, a: Assignment, messages: list[MessageExt]) -> float:
        """Seconds to pause before the queue goes on."""
        engine = self._engine
        context = ConsumeContext(a.queue, auto_commit=engine.config.enable_auto_commit)
        outcome, millis = await self._listen(a, messages, context)
        result = outcome.result
        is_fine = result in (ConsumeResult.SUCCESS, ConsumeResult.COMMIT)
        if context.auto_commit and result is ConsumeResult.ROLLBACK:
            is_fine = True  # without manual commits there is nothing to roll back, as in Java
            logger.warning("ROLLBACK counts as SUCCESS while enable_auto_commit is on")
        count = len(messages)
        engine.count(outcome, millis, count if is_fine else 0, 0 if is_fine else count)
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
        engine, subject = self._engine, f"slow {a.queue}"
        seconds = engine.config.orderly_consume_timeout
        call = asyncio.ensure_future(self._runner.call(self._adapter, messages, context))
        try:
            while True:
                done, _ = await asyncio.wait({call}, timeout=seconds)
                if done:
                    return call.result()
                text = (
                    f"the listener is busy with message {messages[0].msg_id} of {a.queue} for "
                    f"more than {seconds} s; the queue waits for it"
                )
                if engine.instance.problems.set(subject, text):
                    engine.metrics.add("timed_out")
                    logger.error("%s", text)
        finally:
            call.cancel()
            engine.instance.problems.clear(subject)

    async def _commit(self, a: Assignment) -> None:
        """The offset is stored before the next message is touched."""
        a.cached.commit()
        a.note_offset()
        try:
            await asyncio.to_thread(self._engine.store.persist, a.queue)
        except OffsetStoreError as error:
            self._engine.commit_failed(error)

    async def _failed(
        self,
        a: Assignment,
        messages: list[MessageExt],
        context: ConsumeContext,
        result: ConsumeResult,
    ) -> float:
        if result is not ConsumeResult.ROLLBACK and await self._buried(a, messages):
            await self._commit(a)
            return 0.0
        for message in messages:
            message.reconsume_times += 1
        a.cached.give_back()
        wanted = context.suspend_current_queue_time_millis
        if wanted == -1:
            wanted = self._engine.config.orderly_suspend_current_queue_time_millis
        return clamp_suspension(wanted) / 1000

    async def _buried(self, a: Assignment, messages: list[MessageExt]) -> bool:
        """True when all have failed too often and are out of the way."""
        limit = self._limit
        if limit is None or any(one.reconsume_times < limit for one in messages):
            return False
        if self._engine.config.is_broadcasting:
            for message in messages:
                logger.error("message %s failed %s times; it is given up", message.msg_id, limit)
            return True
        for message in messages:
            if not await self._desk.give_back(a.queue, message, BURY):
                return False
        return True
