"""Requests from brokers to a consumer: rebalance, reset offsets, report its state."""

from __future__ import annotations

import logging
import time

from headrace.rocketmq.consuming.consumer_core import ConsumerCore
from headrace.rocketmq.consuming.listeners import ConsumeContext, ListenerResult
from headrace.rocketmq.consuming.membership import wire_subscription
from headrace.rocketmq.consuming.process_queue import Assignment
from headrace.rocketmq.consuming.runners import ListenerRunner
from headrace.rocketmq.enums import ConsumeResult
from headrace.rocketmq.message import message_in
from headrace.rocketmq.net.connection import Connection
from headrace.wire.remoting.codes import VERSION, RequestCode, ResponseCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.groups import ConsumeDirectly
from headrace.wire.remoting.headers.offsets import GetConsumerStatus, ResetOffset
from headrace.wire.remoting.headers.statistics import (
    ConsumeDirectlyResult,
    ConsumeResultCode,
    ProcessQueueInfo,
    RunningInfo,
)
from headrace.wire.remoting.message_queue import MessageQueue, offsets_body, take_offsets
from headrace.wire.remoting.names import retry_topic

logger = logging.getLogger(__name__)

_RESULTS = {
    ConsumeResult.SUCCESS: ConsumeResultCode.CR_SUCCESS,
    ConsumeResult.COMMIT: ConsumeResultCode.CR_COMMIT,
    ConsumeResult.ROLLBACK: ConsumeResultCode.CR_ROLLBACK,
}


class ConsumerRequests:
    """Answers for one consumer."""

    def __init__(self, core: ConsumerCore, runner: ListenerRunner) -> None:
        self._core = core
        self._runner = runner
        core.instance.handlers |= {
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self._members_changed,
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self._reset,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self._status,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self._consume_directly,
        }

    async def _members_changed(self, _: Connection, command: Command) -> None:
        """Another member may take our queues: it is to begin where we are."""
        await self._core.persist()
        self._core.rebalance_soon()

    async def _reset(self, _: Connection, command: Command) -> None:
        """An operator has moved the group's offsets."""
        header = ResetOffset.take(command.ext)
        offsets = take_offsets("offsetTable", command.body)
        logger.warning("offsets of %s were reset by an operator: %s", header.topic, offsets)
        for queue, offset in offsets.items():
            a = next((one for one in self._core.owned() if one.queue == queue), None)
            if a is not None:
                await self._core.rebalancer.reset(a, offset)

    async def _status(self, _: Connection, command: Command) -> Command:
        topic = GetConsumerStatus.take(command.ext).topic
        self._core.update_offsets()
        offsets = {
            entry.queue: entry.offset
            for entry in self._core.store.entries()
            if entry.queue.topic == topic
        }
        return command.answer(ResponseCode.SUCCESS, body=offsets_body("messageQueueTable", offsets))

    async def _running_info(self, _: Connection, command: Command) -> Command:
        core = self._core
        core.update_offsets()
        offsets = {entry.queue: entry.offset for entry in core.store.entries()}
        info = RunningInfo(
            properties={
                "PROP_NAMESERVER_ADDR": core.config.namesrv_addr,
                "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
                "PROP_CLIENT_VERSION": str(VERSION),
                "PROP_THREADPOOL_CORE_SIZE": str(core.config.consume_thread_min),
                "PROP_CONSUMEORDERLY": "true" if core.is_orderly else "false",
                "PROP_CONSUMER_START_TIMESTAMP": str(int(core.metrics.started_at * 1000)),
            },
            subscriptions=tuple(wire_subscription(one) for one in core.members.subscription_data()),
            queues={a.queue: _state(a, offsets) for a in core.owned()},
        )
        return command.answer(ResponseCode.SUCCESS, body=info.encode())

    async def _consume_directly(self, _: Connection, command: Command) -> Command:
        """An operator wants one message consumed here and now."""
        header = ConsumeDirectly.take(command.ext)
        message = message_in(command.body, header.broker_name or "")
        config = self._core.config
        message.restore_topic(retry_topic(config.consumer_group), config.namespace)
        outcome, millis = await self._runner.call([message], ConsumeContext(message.queue))
        body = ConsumeDirectlyResult(
            _direct_result(outcome),
            order=self._core.is_orderly,
            remark=str(outcome.error) if outcome.error is not None else None,
            spent_millis=int(millis),
        )
        return command.answer(ResponseCode.SUCCESS, body=body.encode())


def _direct_result(outcome: ListenerResult) -> ConsumeResultCode:
    if outcome.is_wrong:
        return ConsumeResultCode.CR_RETURN_NULL
    if outcome.error is not None:
        return ConsumeResultCode.CR_THROW_EXCEPTION
    return _RESULTS.get(outcome.result, ConsumeResultCode.CR_LATER)


def _state(a: Assignment, offsets: dict[MessageQueue, int]) -> ProcessQueueInfo:
    cached = a.cached
    low, high = cached.bounds()
    wall = time.time() - time.monotonic()
    return ProcessQueueInfo(
        commit_offset=offsets.get(a.queue, 0),
        cached_min_offset=max(low, 0),
        cached_max_offset=max(high, 0),
        cached_count=cached.count,
        cached_mib=cached.size >> 20,
        locked=cached.locked,
        last_lock_at=int((wall + cached.locked_at) * 1000) if cached.locked else 0,
        dropped=cached.dropped,
        last_pull_at=int((wall + cached.pulled_at) * 1000),
        last_consume_at=int((wall + cached.consumed_at) * 1000),
    )
