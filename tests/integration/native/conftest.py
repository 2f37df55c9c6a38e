"""Fixtures of the native protocol's tests: raw connections, names, and a broker to judge."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from uuid import uuid4

import pytest

from support.brokers import Broker
from support.native_types import Connect, Namer
from support.raw_native import EXCHANGE_DELETE, LIST, QUEUE_DELETE, Native, Refused


@pytest.fixture(autouse=True)
def _judged(broker: Broker) -> None:
    if broker.is_reference:
        pytest.skip("the native protocol is Headrace's own")


@pytest.fixture
def dial(broker: Broker) -> Iterator[Connect]:
    """Connections that have not said anything yet."""
    with ExitStack() as stack:

        def dial(to: Broker = broker, *, receive_buffer: int | None = None) -> Native:
            client = Native((to.host, to.native_port), receive_buffer=receive_buffer)
            stack.callback(client.close)
            return client

        yield dial


@pytest.fixture
def connect(dial: Connect) -> Connect:
    """Connections with channel 1 open."""
    return lambda *args, **kwargs: dial(*args, **kwargs).open()


@pytest.fixture
def client(connect: Connect) -> Native:
    return connect()


@pytest.fixture
def name(dial: Connect) -> Iterator[Namer]:
    """Names nobody else has; queues and exchanges called so are removed in the end."""
    prefix = f"native-{uuid4().hex[:12]}-"
    count = iter(range(1_000_000))
    yield lambda: f"{prefix}{next(count)}"
    janitor = dial().open()
    for kind, delete in (("queues", QUEUE_DELETE), ("exchanges", EXCHANGE_DELETE)):
        for row in janitor.call(LIST, kind=kind)["rows"]:
            if row["name"].startswith(prefix):
                try:
                    janitor.call(delete, name=row["name"])
                except Refused:
                    pass  # exclusive, or gone with its connection


@pytest.fixture
def queue(client: Native, name: Namer) -> str:
    return client.queue(name())


@pytest.fixture
def alive(connect: Connect) -> Iterator[None]:
    """In the end the broker serves newcomers as ever."""
    yield
    healthy = connect()
    own = healthy.queue(exclusive=True)
    healthy.publish("", own, b"still there")
    assert healthy.bodies(own) == [b"still there"]
