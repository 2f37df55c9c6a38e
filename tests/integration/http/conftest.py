"""Fixtures of the HTTP tests: a broker, a client that is logged in, and names nobody else has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import uuid4

import httpx
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from headrace.testing import RunningBroker, run_broker
from support.http_api import Api


@pytest.fixture(scope="module")
def managed() -> Iterator[RunningBroker]:
    """One broker for all tests of a module that do not disturb each other."""
    with run_broker(sync=False) as running:
        yield running


@pytest.fixture
def api(managed: RunningBroker) -> Iterator[Api]:
    with Api(managed) as client:
        yield client


@pytest.fixture
def name() -> Callable[[str], str]:
    """Names that no other test uses."""
    return lambda kind: f"{kind}-{uuid4().hex[:10]}"


@pytest.fixture
def queue(api: Api, name: Callable[[str], str]) -> str:
    chosen = name("queue")
    api.put(f"/api/queues/%2F/{chosen}", {"durable": True}, status=201)
    return chosen


@pytest.fixture
def channel(managed: RunningBroker) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(managed.amqp_url))
    yield connection.channel()
    if connection.is_open:
        connection.close()


@pytest.fixture
def raw(managed: RunningBroker) -> Iterator[httpx.Client]:
    """A client without a login."""
    with httpx.Client(timeout=60, base_url=str(managed.http_url)) as client:
        yield client
