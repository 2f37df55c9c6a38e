"""A consumer as a member of its group: what it subscribes to, and who the others are."""

from __future__ import annotations

import logging
import random
import time
from dataclasses import replace

from headrace.errors import BrokerError as CodecError
from headrace.rocketmq.config import ConsumerConfig
from headrace.rocketmq.enums import MessageModel, SelectorType
from headrace.rocketmq.errors import (
    BrokerError,
    InvalidSelectorError,
    RocketMQError,
    TopicNotFoundError,
)
from headrace.rocketmq.net.client_instance import ClientInstance
from headrace.rocketmq.selector import MessageSelector
from headrace.rocketmq.subscriptions import SubscriptionData, SubscriptionManager
from headrace.wire.remoting.codes import RequestCode, ResponseCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.groups import (
    ClientCheck,
    ConsumeFrom,
    ConsumeModel,
    ConsumerGroup,
    GetConsumerList,
    Heartbeat,
    Subscription,
)
from headrace.wire.remoting.message_queue import take_members
from headrace.wire.remoting.names import (
    CLIENT_INNER_PRODUCER,
    in_namespace,
    retry_topic,
    without_namespace,
)

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
            check = ClientCheck(
                self._instance.client_id, self._config.consumer_group, wire_subscription(data)
            )
            command = Command(RequestCode.CHECK_CLIENT_CONFIG, body=check.encode())
            for broker in brokers[:1]:
                address = self._instance.routes.address(broker.broker_name)
                if address is not None:
                    await self._check_at(address, command, data)

    async def _check_at(self, address: str, command: Command, data: SubscriptionData) -> None:
        try:
            await self._instance.ask(address, command)
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
                answer = await self._instance.ask(address, Command(header.CODE, header.ext()))
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
