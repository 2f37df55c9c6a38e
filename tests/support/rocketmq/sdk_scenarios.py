"""What the scenarios of the SDK need: topics, producers, consumers, and who got what.

Everything is reached through a name server's address, so that any RocketMQ can be the stage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from threading import Lock
from typing import TypeVar
from uuid import uuid4

from headrace.rocketmq import (
    AsyncProducer,
    ConsumeContext,
    ConsumerConfig,
    ConsumeResult,
    Message,
    MessageExt,
    MessageModel,
    Producer,
    ProducerConfig,
    TransactionListener,
    TransactionProducer,
)
from headrace.rocketmq.consumers import ConcurrentConsumer
from headrace.rocketmq.consuming.listeners import Listener
from headrace.testing import wait_for
from headrace.wire.remoting.codes import ResponseCode
from headrace.wire.remoting.headers.admin import CreateTopic
from headrace.wire.remoting.headers.route import GetRouteInfo, TopicRoute
from headrace.wire.remoting.names import TEMPLATE_TOPIC
from support.raw_remoting import Link

Consumer = TypeVar("Consumer", bound=ConcurrentConsumer)
QUICK = {
    "rebalance_interval": 1000,
    "persist_interval": 200,
    "heartbeat_interval": 1000,
    "poll_route_interval": 1000,
    "lock_interval": 1000,
    "pull_suspend_timeout": 2000,
    "consume_from_where": "CONSUME_FROM_FIRST_OFFSET",
}


class Collector:
    """A listener that remembers; `judge` decides what it returns."""

    def __init__(
        self, judge: Callable[[MessageExt, ConsumeContext], ConsumeResult] | None = None
    ) -> None:
        self._lock = Lock()
        self._judge = judge
        self.messages: list[MessageExt] = []

    def __call__(self, messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        with self._lock:
            self.messages += messages
        if self._judge is None:
            return ConsumeResult.SUCCESS
        return self._judge(messages[0], context)

    def bodies(self) -> list[str]:
        with self._lock:
            return [one.body.decode() for one in self.messages]

    def wait(self, count: int, limit: float = 30) -> list[str]:
        """Bodies once there are so many different ones."""
        wait_for(lambda: len(set(self.bodies())) >= count, limit, 0.02)
        return self.bodies()

    def times(self) -> Counter[str]:
        return Counter(self.bodies())


class Scene:
    """One test against the RocketMQ behind a name server; everything it starts is stopped."""

    def __init__(self, namesrv: str, stack: ExitStack) -> None:
        self.namesrv = namesrv
        self._stack = stack
        self.group = f"G{uuid4().hex[:12]}"

    def topic(self, queues: int = 4) -> str:
        """A new topic, known to the name server."""
        name = f"T{uuid4().hex[:12]}"
        with Link(self.namesrv) as names:
            route = TopicRoute.take(names.ask(GetRouteInfo(TEMPLATE_TOPIC)).body)
            for broker in route.brokers:
                assert broker.master is not None
                with Link(broker.master) as link:
                    answer = link.ask(CreateTopic(name, queues, queues))
                    assert answer.code == ResponseCode.SUCCESS, answer.remark
            wait_for(lambda: names.ask(GetRouteInfo(name)).code == 0, 20, 0.05)
        return name

    def producer(self, **settings: object) -> Producer:
        made = Producer(self._producer_config(settings))
        return self._stack.enter_context(made)

    def transaction_producer(self, listener: TransactionListener) -> TransactionProducer:
        made = TransactionProducer(self._producer_config({}), listener)
        return self._stack.enter_context(made)

    def async_producer(self) -> AsyncProducer:
        return AsyncProducer(self._producer_config({}))

    def _producer_config(self, settings: dict[str, object]) -> ProducerConfig:
        values = {"heartbeat_interval": 1000, "send_timeout": 10_000, **settings}
        return ProducerConfig(
            producer_group=f"P{self.group}",
            namesrv_addr=self.namesrv,
            **values,  # type: ignore[arg-type]
        )

    def config(self, **settings: object) -> ConsumerConfig:
        values = {"consumer_group": self.group, **QUICK, **settings}
        return ConsumerConfig(namesrv_addr=self.namesrv, **values)  # type: ignore[arg-type]

    def consumer(
        self,
        kind: type[Consumer],
        topic: str,
        listener: Listener,
        selector: object = None,
        **settings: object,
    ) -> Consumer:
        """Started, and stopped at the end of the test."""
        made = kind(self.config(**settings))
        made.subscribe(topic, selector)  # type: ignore[arg-type]
        made.register_message_listener(listener)
        made.start()
        self._stack.callback(made.shutdown)
        return made


def numbered(topic: str, count: int, **values: object) -> list[Message]:
    return [
        Message(topic, f"m{number}".encode(), **values)  # type: ignore[arg-type]
        for number in range(count)
    ]


BROADCASTING = MessageModel.BROADCASTING
