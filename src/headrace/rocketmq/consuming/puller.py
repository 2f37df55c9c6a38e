"""The loop that pulls one queue: flow control, long polling, and what each answer means."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from headrace.errors import BrokerError as CodecError
from headrace.rocketmq.consuming.process_queue import Assignment
from headrace.rocketmq.errors import BrokerError, RocketMQError
from headrace.rocketmq.message import MessageExt, messages_in
from headrace.rocketmq.subscriptions.records import SubscriptionData
from headrace.wire.remoting.codes import PullFlag, ResponseCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.pull import PULL_CODES, PullMessage, PullResult
from headrace.wire.remoting.names import retry_topic

if TYPE_CHECKING:
    from headrace.rocketmq.consuming.consumer_core import ConsumerCore

logger = logging.getLogger(__name__)

_UNKNOWN_SUBSCRIPTION = frozenset(
    {
        ResponseCode.SUBSCRIPTION_NOT_EXIST,
        ResponseCode.SUBSCRIPTION_NOT_LATEST,
        ResponseCode.FILTER_DATA_NOT_EXIST,
        ResponseCode.FILTER_DATA_NOT_LATEST,
    }
)
_FULL_PAUSE, _SUSPENDED_PAUSE, _BUSY_PAUSE = 0.05, 0.5, 0.02
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 3.0
_GRACE = 15.0  # seconds above the broker's patience until a pull counts as lost


class Puller:
    """Keeps one queue filled."""

    def __init__(self, core: ConsumerCore, assignment: Assignment) -> None:
        self._core = core
        self._a = assignment
        self._pause = _FIRST_PAUSE
        self._subject = f"pull {assignment.queue}"
        self._ahead: asyncio.Task[Command] | None = None
        self._asked: SubscriptionData | None = None  # for what, the last time

    async def run(self) -> None:
        try:
            await self._run()
        finally:
            if self._ahead is not None:
                self._ahead.add_done_callback(lambda task: task.cancelled() or task.exception())
                self._ahead.cancel()

    async def _run(self) -> None:
        core, a = self._core, self._a
        while not a.dropped:
            pause = self._reason_to_wait()
            if pause:
                await asyncio.sleep(pause)
                continue
            try:
                await self._pull_once()
            except (RocketMQError, CodecError) as error:
                await self._failed(error)
            except Exception as error:
                core.instance.report(error)
                await self._failed(error)
            else:
                self._pause = _FIRST_PAUSE
                core.instance.problems.clear(self._subject)
                if core.config.pull_interval:
                    await asyncio.sleep(core.config.pull_interval / 1000)

    def _reason_to_wait(self) -> float:
        core, cached = self._core, self._a.cached
        if core.suspended:
            cached.pulled_at = time.monotonic()
            return _SUSPENDED_PAUSE
        if cached.flow_control(core.limits, orderly=core.is_orderly) is not None:
            cached.pulled_at = time.monotonic()
            core.metrics.add("flow_controlled")
            return _FULL_PAUSE
        if core.needs_locks and not cached.holds_lock(time.monotonic()):
            return _FULL_PAUSE  # the lock is being renewed, or the queue about to be dropped
        return 0.0

    async def _failed(self, error: Exception) -> None:
        core, a = self._core, self._a
        core.metrics.add("pull_failures")
        if isinstance(error, BrokerError) and error.code == ResponseCode.FLOW_CONTROL:
            await asyncio.sleep(_BUSY_PAUSE)
            return
        text = f"{a.queue} cannot be pulled: {error}"
        if core.instance.problems.set(self._subject, text):
            logger.warning("%s: %s", core.config.consumer_group, text)
        if isinstance(error, BrokerError) and error.code in _UNKNOWN_SUBSCRIPTION:
            await core.instance.beat()
        elif not isinstance(error, BrokerError):
            core.routes_needed.set()
        await asyncio.sleep(self._pause)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)

    # -- one pull ----------------------------------------------------------------------------

    async def _pull_once(self) -> None:
        core, a = self._core, self._a
        data = core.members.subscription_of(a.queue.topic)
        if data is None:
            await asyncio.sleep(_FULL_PAUSE)  # unsubscribed: the queue is dropped in a moment
            return
        start = time.monotonic()
        asked = self._ahead or self._ask(data, a.next_offset)
        self._ahead = None
        answer = await asked
        a.cached.pulled_at = now = time.monotonic()
        if answer.code not in PULL_CODES:
            raise BrokerError(answer.code, answer.remark or "", a.queue.broker_name)
        result = PullResult.take(answer.ext)
        a.broker_id, a.end_offset = result.suggest_which_broker_id, result.max_offset
        if a.dropped or not self._is_current():  # what the new selector chooses may be missing
            return
        if answer.code == ResponseCode.PULL_OFFSET_MOVED:
            await core.rebalancer.offset_moved(a, result.next_begin_offset)
            return
        found = []
        if answer.code == ResponseCode.SUCCESS:
            if not core.config.pull_interval and not self._reason_to_wait():
                # The broker looks for the next messages while we unpack these.
                self._ahead = self._ask(data, result.next_begin_offset)
            found = self._messages(answer, data)
        fresh = a.cached.put(found)
        a.next_offset = result.next_begin_offset
        millis = (now - start) * 1000
        core.metrics.pulled(millis, len(found), sum(len(one.body) for one in found))
        if fresh:
            core.service.arrived(a, fresh)

    def _is_current(self) -> bool:
        """Whether the selector is still the one that the broker was asked for."""
        now, asked = self._core.members.subscription_of(self._a.queue.topic), self._asked
        return now is not None and asked is not None and now.selector == asked.selector

    def _ask(self, data: SubscriptionData, offset: int) -> asyncio.Task[Command]:
        core, a = self._core, self._a
        self._asked = data
        address = core.instance.address_of(a.queue.broker_name, a.broker_id)
        patience = core.config.pull_suspend_timeout / 1000 + _GRACE
        request = core.instance.remoting.ask(address, self._request(data, offset), patience)
        return asyncio.ensure_future(request)

    def _request(self, data: SubscriptionData, offset: int) -> Command:
        config, a = self._core.config, self._a
        return PullMessage(
            consumer_group=config.consumer_group,
            topic=a.queue.topic,
            queue_id=a.queue.queue_id,
            queue_offset=offset,
            max_msg_nums=config.pull_batch_size,
            sys_flag=int(PullFlag.SUSPEND),
            suspend_timeout_millis=config.pull_suspend_timeout,
            sub_version=data.sub_version,
            expression_type=data.expression_type,
            broker_name=a.queue.broker_name,
        ).command()

    def _messages(self, answer: Command, data: SubscriptionData) -> list[MessageExt]:
        """Those we want: brokers compare only hashes of tags."""
        wanted, space = frozenset(data.tags_set), self._core.config.namespace
        origin = retry_topic(self._core.config.consumer_group)
        found: list[MessageExt] = []
        seen = 0
        for message in messages_in(answer.body, self._a.queue.broker_name):
            seen += 1
            if not wanted or message.tags in wanted:
                found.append(message.restore_topic(origin, space))
        if seen > len(found):
            self._core.metrics.add("messages_filtered", seen - len(found))
        return found
