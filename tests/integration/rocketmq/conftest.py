"""A fake RocketMQ, and clients of it that are always shut down."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from headrace.rocketmq import ConsumerConfig, Producer, ProducerConfig
from headrace.rocketmq.consumers import ConcurrentConsumer
from headrace.rocketmq.consuming.listeners import Listener
from support.rocketmq.fake_server import Fake

QUICK: dict[str, object] = {
    "consumer_group": "g",
    "rebalance_interval": 300,
    "persist_interval": 50,
    "heartbeat_interval": 300,
    "poll_route_interval": 300,
    "lock_interval": 100,
    "pull_suspend_timeout": 500,
    "request_timeout": 1000,
    "shutdown_timeout": 2000,
    "consume_from_where": "CONSUME_FROM_FIRST_OFFSET",
}


@pytest.fixture
def fake() -> Iterator[Fake]:
    with Fake({"T": 2, "TBW102": 8}) as made:
        yield made


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


@pytest.fixture
def produce(fake: Fake, stack: ExitStack) -> Callable[..., Producer]:
    def make(**settings: object) -> Producer:
        values = {"namesrv_addr": fake.address, "send_timeout": 2000, **settings}
        config = ProducerConfig(producer_group="pg", **values)  # type: ignore[arg-type]
        return stack.enter_context(Producer(config))

    return make


@pytest.fixture
def consume(fake: Fake, stack: ExitStack) -> Callable[..., ConcurrentConsumer]:
    def make(
        kind: type[ConcurrentConsumer], listener: Listener, selector: str = "*", **settings: object
    ) -> ConcurrentConsumer:
        values = {"namesrv_addr": fake.address, **QUICK, **settings}
        made = kind(ConsumerConfig(**values))  # type: ignore[arg-type]
        made.subscribe("T", selector)
        made.register_message_listener(listener)
        made.start()
        stack.callback(made.shutdown)
        return made

    return make
