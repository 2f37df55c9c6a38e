"""A broker of one's own for tests of topics, seen from several protocols."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from uuid import uuid4

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from headrace.store.topics.types import TopicSpec
from headrace.testing import RunningBroker, run_broker
from support.native_topics import NativeEngine


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with run_broker(sync=False) as broker:
        yield broker


@pytest.fixture
def engine(running: RunningBroker) -> Iterator[NativeEngine]:
    assert running.native_port is not None
    made = NativeEngine((running.host, running.native_port))
    yield made
    made.close()


@pytest.fixture
def memory_engine(running: RunningBroker) -> Iterator[NativeEngine]:
    assert running.native_port is not None
    made = NativeEngine((running.host, running.native_port), "memory")
    yield made
    made.close()


@pytest.fixture
def topic(engine: NativeEngine) -> str:
    name = f"t_{uuid4().hex[:12]}"
    engine.create(TopicSpec(name))
    return name


@pytest.fixture
def channel_of(running: RunningBroker) -> Iterator[Callable[[], BlockingChannel]]:
    with ExitStack() as stack:

        def channel_of() -> BlockingChannel:
            connection = pika.BlockingConnection(pika.URLParameters(running.amqp_url))
            stack.callback(lambda: connection.close() if connection.is_open else None)
            return connection.channel()

        yield channel_of


@pytest.fixture
def channel(channel_of: Callable[[], BlockingChannel]) -> BlockingChannel:
    """With confirms: a publish returns when it is safe."""
    made = channel_of()
    made.confirm_delivery()
    return made
