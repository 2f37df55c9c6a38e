"""A consumer as a member of its group: subscriptions, the others, and requests from brokers."""

from __future__ import annotations

import logging
import random
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.errors import BrokerError as CodecError
from headrace.rocketmq.config import ConsumerConfig
from headrace.rocketmq.consuming.listeners import ConsumeContext, ListenerResult
from headrace.rocketmq.consuming.process_queue import Assignment
from headrace.rocketmq.consuming.runners import ListenerRunner
from headrace.rocketmq.enums import ConsumeResult, MessageModel, SelectorType
from headrace.rocketmq.errors import (
    BrokerError,
    InvalidSelectorError,
    RocketMQError,
    TopicNotFoundError,
)
from headrace.rocketmq.message import message_in
from headrace.rocketmq.net.client_instance import ClientInstance
from headrace.rocketmq.net.connection import Connection
from headrace.rocketmq.selector import MessageSelector
from headrace.rocketmq.subscriptions.manager import SubscriptionManager
from headrace.rocketmq.subscriptions.records import SubscriptionData
from headrace.wire.remoting.codes import VERSION, RequestCode, ResponseCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.groups import (
    ClientCheck,
    ConsumeDirectly,
    ConsumeFrom,
    ConsumeModel,
    ConsumerGroup,
    GetConsumerList,
    Heartbeat,
    Subscription,
)
from headrace.wire.remoting.headers.offsets import GetConsumerStatus, ResetOffset
from headrace.wire.remoting.headers.statistics import (
    ConsumeDirectlyResult,
    ConsumeResultCode,
    ProcessQueueInfo,
    running_info_body,
)
from headrace.wire.remoting.message_queue import (
    MessageQueue,
    offsets_body,
    take_members,
    take_offsets,
)
from headrace.wire.remoting.names import (
    CLIENT_INNER_PRODUCER,
    in_namespace,
    retry_topic,
    without_namespace,
)

if TYPE_CHECKING:
    from headrace.rocketmq.consuming.consumer_core import ConsumerCore

logger = logging.getLogger(__name__)


class Membership:
    """Subscriptions of the consumer, and members of its group."""

    def __init__(
        self, instance: ClientInstance, config: ConsumerConfig, subscriptions: SubscriptionManager
    ) -> None:
        self._instance = instance
        self._config = config
        self._subscriptions = subscriptions
        self._retry = SubscriptionData.from_selector(
            retry_topic(config.consumer_group),
            MessageSelector.by_tag("*"),
            time.time_ns() // 1_000_000,
        )

    # -- own subscriptions -------------------------------------------------------------------

    def subscription_data(self) -> list[SubscriptionData]:
        """The active subscriptions, and that of the retry topic."""
        entries = self._subscriptions.get_active_subscriptions()
        data = [one.subscription_data for one in entries]
        if space := self._config.namespace:
            data = [replace(one, topic=in_namespace(space, one.topic)) for one in data]
        return data if self._config.is_broadcasting else [*data, self._retry]

    def topics(self) -> list[str]:
        return [one.topic for one in self.subscription_data()]

    def subscription_of(self, topic: str) -> SubscriptionData | None:
        if topic == self._retry.topic:
            return self._retry
        topic = without_namespace(self._config.namespace, topic)
        entry = self._subscriptions.get_subscription(topic)
        return entry.subscription_data if entry is not None and entry.is_active else None

    def heartbeat(self) -> Heartbeat:
        config = self._config
        is_shared = config.message_model is MessageModel.CLUSTERING
        group = ConsumerGroup(
            name=config.consumer_group,
            subscriptions=tuple(wire_subscription(one) for one in self.subscription_data()),
            model=ConsumeModel.CLUSTERING if is_shared else ConsumeModel.BROADCASTING,
            start_from=ConsumeFrom[str(config.consume_from_where)],
        )
        return Heartbeat(self._instance.client_id, (CLIENT_INNER_PRODUCER,), (group,))

    async def check_selectors(self) -> None:
        """Ask a broker whether it can use our SQL92; better now than never a message."""
        for data in self.subscription_data():
            if data.expression_type != SelectorType.SQL92:
                continue
            known = self._instance.routes.get(data.topic)
            brokers = known.route.brokers if known is not None else ()
            address = self._instance.routes.address(brokers[0].broker_name) if brokers else None
            if address is not None:
                await self._check_at(address, data)

    async def _check_at(self, address: str, data: SubscriptionData) -> None:
        client, group = self._instance.client_id, self._config.consumer_group
        body = ClientCheck(client, group, wire_subscription(data)).encode()
        try:
            await self._instance.ask(address, Command(RequestCode.CHECK_CLIENT_CONFIG, body=body))
        except BrokerError as error:
            if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                return
            raise InvalidSelectorError(
                f"the broker does not take the SQL92 expression {data.sub_string!r} for topic "
                f"{data.topic!r}: {error.text} (brokers need enablePropertyFilter=true)"
            ) from error

    # -- routes ------------------------------------------------------------------------------

    def missing_routes(self) -> list[str]:
        return [one for one in self.topics() if self._instance.routes.get(one) is None]

    async def find_routes(self, *, strict: bool = False) -> bool:
        """Fetch the routes of all topics; True when one has changed.

        ``strict``: fail when no name server answers.
        """
        changed = False
        for topic in self.topics():
            subject = f"route {topic}"
            try:
                changed |= await self._instance.refresh(topic)
            except TopicNotFoundError as error:
                if topic != self._retry.topic and self._instance.problems.set(subject, str(error)):
                    logger.warning("%s: %s", self._config.consumer_group, error)
            except (RocketMQError, CodecError) as error:
                if strict:
                    raise
                self._instance.problems.set(subject, str(error))
            else:
                self._instance.problems.clear(subject)
        return changed

    # -- the others --------------------------------------------------------------------------

    async def of_topic(self, topic: str) -> list[str] | None:
        """Ids of all members; None when no broker of the topic knows them."""
        known = self._instance.routes.get(topic)
        names = [one.broker_name for one in known.route.brokers] if known is not None else []
        random.shuffle(names)
        header = GetConsumerList(self._config.consumer_group)
        for name in names:
            address = self._instance.routes.address(name)
            if address is None:
                continue
            try:
                answer = await self._instance.ask(address, header.command())
                return take_members(answer.body)
            except (RocketMQError, CodecError) as error:
                logger.warning("members of %s: %s", self._config.consumer_group, error)
        return None


def wire_subscription(data: SubscriptionData) -> Subscription:
    return Subscription(
        topic=data.topic,
        expression=data.sub_string,
        tags=data.tags_set,
        codes=data.code_set,
        version=data.sub_version,
        kind=data.expression_type,
    )


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

    def _offsets(self) -> dict[MessageQueue, int]:
        self._core.update_offsets()
        return {entry.queue: entry.offset for entry in self._core.store.entries()}

    async def _status(self, _: Connection, command: Command) -> Command:
        topic = GetConsumerStatus.take(command.ext).topic
        offsets = {queue: at for queue, at in self._offsets().items() if queue.topic == topic}
        return command.answer(ResponseCode.SUCCESS, body=offsets_body("messageQueueTable", offsets))

    async def _running_info(self, _: Connection, command: Command) -> Command:
        core = self._core
        offsets = self._offsets()
        body = running_info_body(
            {
                "PROP_NAMESERVER_ADDR": core.config.namesrv_addr,
                "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
                "PROP_CLIENT_VERSION": str(VERSION),
                "PROP_THREADPOOL_CORE_SIZE": str(core.config.consume_thread_min),
                "PROP_CONSUMEORDERLY": "true" if core.is_orderly else "false",
                "PROP_CONSUMER_START_TIMESTAMP": str(int(core.metrics.started_at * 1000)),
            },
            [wire_subscription(one) for one in core.members.subscription_data()],
            {a.queue: _state(a, offsets) for a in core.owned()},
        )
        return command.answer(ResponseCode.SUCCESS, body=body)

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
