"""Fixtures of the chaos tests: a seed that is printed, a broker that may be hurt."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from headrace.testing.amqp_connection import RawConnection
from headrace.testing.broker_process import BrokerProcess
from support.chaos.connect import Connect
from support.chaos.failing_disk_broker import Saboteur


@pytest.fixture
def seed() -> int:
    """A new one for every test; CHAOS_SEED=... takes that of an earlier run."""
    seed = int(os.environ.get("CHAOS_SEED") or random.SystemRandom().randrange(2**32))
    sys.stdout.write(f"\nCHAOS_SEED={seed}\n")
    return seed


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker with small segments, so that every part of the storage has work; not started."""
    with BrokerProcess(tmp_path / "broker", "--segment-size", "64KiB") as node:
        yield node


@pytest.fixture
def saboteur(tmp_path: Path) -> Iterator[Saboteur]:
    """A broker whose disk can be made to fail; not started."""
    with Saboteur(tmp_path / "broker") as saboteur:
        yield saboteur


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Connections with channel 1 open; closed in the end, if need be without a word."""
    with ExitStack() as stack:

        def connect(node: BrokerProcess, *, heartbeat: int = 0) -> RawConnection:
            link = RawConnection(node.port, heartbeat=heartbeat)
            stack.callback(link.close)
            link.open_channel(1)
            return link

        yield connect
