"""Fixtures for all tests: a broker to share, brokers of one's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Protocol

import pytest
from hypothesis import HealthCheck, settings

import brokers
from brokers import Broker

# How fast the machine is must not decide whether a property holds.
settings.register_profile("headrace", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("headrace")


class StartBroker(Protocol):
    def __call__(self, *args: str, env: dict[str, str] | None = None) -> Broker: ...


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker for the whole run: use names of your own, and leave nothing behind.

    With AMQP_TEST_PORT set it is whatever listens there (say, RabbitMQ on this machine).
    """
    if reference := os.environ.get("AMQP_TEST_PORT"):
        yield Broker(amqp_port=int(reference), is_reference=True)
        return
    running = brokers.start(tmp_path_factory.mktemp("broker"))
    yield running
    running.stop()


@pytest.fixture
def start_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartBroker]:
    """Start brokers for one test: `start_broker("--heartbeat", "1", env={...})`."""
    with ExitStack() as running:  # stops all of them, also when one does not stop cleanly

        def start(*args: str, env: dict[str, str] | None = None) -> Broker:
            started = brokers.start(tmp_path_factory.mktemp("broker"), *args, env=env)
            running.callback(started.stop)
            return started

        yield start
