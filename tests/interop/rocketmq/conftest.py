"""A real Apache RocketMQ, one for all tests that only want to talk to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing import run_broker, wait_for
from headrace.wire.remoting.codes import RequestCode
from support.raw_remoting import Link
from support.remoting_bodies import ClusterInfo
from support.remoting_broker import Ours
from support.rocketmq.apache import BROKER, OLD_VERSION, VERSION, Apache


def _started(directory: Path, version: str) -> Iterator[Apache]:
    server = Apache(directory, version).start()
    try:
        wait_for(lambda: _is_registered(server), 30, 0.05)
        yield server
    finally:
        server.stop()


def _is_registered(server: Apache) -> bool:
    with Link(server.name_address) as link:
        answer = link.call(RequestCode.GET_BROKER_CLUSTER_INFO)
    return BROKER in ClusterInfo.take(answer.body).brokers


@pytest.fixture(scope="session")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apache]:
    """A name server and a broker of the newest version; do not stop it, others use it too."""
    yield from _started(tmp_path_factory.mktemp("rocketmq"), VERSION)


@pytest.fixture(scope="session")
def old_apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apache]:
    """The same of the 4.9 line, which is still widely used."""
    yield from _started(tmp_path_factory.mktemp("rocketmq-old"), OLD_VERSION)


@pytest.fixture
def own_apache(tmp_path: Path) -> Iterator[Apache]:
    """One for a test that kills and restarts it."""
    yield from _started(tmp_path, VERSION)


@pytest.fixture(scope="module")
def ours() -> Iterator[Ours]:
    """Our broker, to be judged by clients of others; one per module, see no_thread_left."""
    with run_broker(sync=False) as broker:
        yield Ours(broker)
