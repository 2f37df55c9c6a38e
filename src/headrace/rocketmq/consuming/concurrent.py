"""Concurrent consumption: messages in any order, failed ones to the retry topic."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from headrace.rocketmq.consuming.listeners import ConsumeContext, ListenerResult
from headrace.rocketmq.consuming.process_queue import Assignment
from headrace.rocketmq.consuming.runners import ListenerRunner, until
from headrace.rocketmq.consuming.service import ConsumeService, batches
from headrace.rocketmq.enums import ConsumeResult
from headrace.rocketmq.message import MessageExt

if TYPE_CHECKING:
    from headrace.rocketmq.consuming.consumer_core import ConsumerCore

logger = logging.getLogger(__name__)

_LOCAL_RETRY = 5.0
_LATE_LEVEL = 3
_SWEEP = 60.0


class ConcurrentService(ConsumeService):
    """Feeds listeners and settles what they have done."""

    is_orderly = False
    results = (ConsumeResult.SUCCESS, ConsumeResult.RECONSUME_LATER)

    def __init__(self, core: ConsumerCore, runner: ListenerRunner) -> None:
        super().__init__(core, runner, core.config.max_reconsume_times)
        self._sending_back: set[int] = set()

    def start(self) -> None:
        limit = self._core.config.consume_timeout * 60.0
        sweep = self._core.instance.every(
            min(_SWEEP, limit / 2) * 1000, lambda: self.sweep_once(time.monotonic(), limit)
        )
        self._core.instance.spawn(sweep)

    def arrived(self, a: Assignment, messages: list[MessageExt]) -> None:
        for batch in batches(messages, self._core.config.consume_message_batch_max_size):
            self._submit(a, batch)

    async def stop(self, seconds: float) -> bool:
        """Failed messages under way to their brokers may arrive, so that offsets can pass them."""
        deadline = time.monotonic() + seconds
        ended = await self._runner.stop(seconds)
        await until(lambda: not self._sending_back, max(0.1, deadline - time.monotonic()))
        return ended

    # -- listeners ---------------------------------------------------------------------------

    def _submit(self, a: Assignment, messages: list[MessageExt]) -> None:
        context = ConsumeContext(a.queue)

        def begin() -> bool:
            if a.dropped:
                return False
            a.cached.begin(messages, time.monotonic())
            if self._core.trace is not None:
                self._core.trace.consuming(messages)
            return True

        def done(outcome: ListenerResult, millis: float) -> None:
            self._settle(a, messages, context, outcome, millis)

        self._runner.submit(messages, context, begin, done)

    def _settle(
        self,
        a: Assignment,
        messages: list[MessageExt],
        context: ConsumeContext,
        outcome: ListenerResult,
        millis: float,
    ) -> None:
        """In the listener's thread: a success costs no change of threads."""
        fine = messages
        if outcome.result is not ConsumeResult.SUCCESS:
            fine = []
        elif context.ack_index < len(messages) - 1:
            fine = messages[: max(context.ack_index + 1, 0)]
        failed = messages[len(fine) :]
        self._core.count(messages, outcome, millis, len(fine))
        if a.dropped:
            return  # the next owner gets them again
        if failed and self._core.config.is_broadcasting:
            for message in failed:
                logger.error(
                    "message %s failed; broadcasting consumers try only once", message.msg_id
                )
            fine, failed = messages, []
        if fine:
            a.cached.remove(fine)
        if failed:
            level = context.delay_level_when_next_consume
            self._sending_back.add(id(failed))
            self._core.spawn_from_anywhere(self._send_back(a, failed, level))

    async def _send_back(self, a: Assignment, messages: list[MessageExt], level: int) -> None:
        try:
            for message in messages:
                if a.dropped or not a.cached.holds(message):
                    continue
                if await self.send_back(a.queue, message, level):
                    a.cached.remove([message])
                else:
                    self._core.instance.spawn(self._retry_locally(a, message))
        finally:
            self._sending_back.discard(id(messages))

    async def _retry_locally(self, a: Assignment, message: MessageExt) -> None:
        """No broker took it back: it stays ours, and is tried here."""
        await asyncio.sleep(_LOCAL_RETRY)
        if not a.dropped:
            message.reconsume_times += 1
            self._submit(a, [message])

    async def sweep_once(self, now: float, limit: float) -> None:
        """Messages that listeners do not finish are sent back to the broker."""
        for a in self._core.owned():
            for message in a.cached.expired(now, limit):
                logger.error(
                    "message %s is being consumed for more than %g s; it is sent back, "
                    "and what its listener returns does not count any more",
                    message.msg_id,
                    limit,
                )
                if self._core.config.is_broadcasting or await self.send_back(
                    a.queue, message, _LATE_LEVEL
                ):
                    self._core.metrics.add("timed_out")
                    a.cached.remove([message])
