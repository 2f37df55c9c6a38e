"""Fixtures for all tests: a broker to share, brokers of one's own."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Protocol

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer

# Brokers of this process import it in a thread, where pytest rewrites it: Python 3.11 cannot parse
# in two threads at once ("AST constructor recursion depth mismatch").
import headrace.server.http.uvicorn_protocol  # noqa: F401
from headrace.testing import wait_for
from support import brokers, mariadb, schedule
from support.brokers import Broker
from support.mariadb import MariaDb

# The programs that tests start must find compiled modules, also where the environment forbids to
# write them: compiling the package takes a broker longer than everything else it does at a start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Spark in tests lives for seconds: optimizing its code costs more than the code saves.
for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
    os.environ.setdefault(name, "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# How fast the machine is must not decide whether a property holds.
# Without chance, a failure is a failure on every machine; `make fuzz` is for finding new ones.
settings.register_profile(
    "headrace",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "fuzz",
    settings.get_profile("headrace"),
    derandomize=False,
    database=None,  # else the examples of earlier runs come first, and a seed does not repeat a run
    max_examples=1000,
    print_blob=True,
)
settings.load_profile("headrace")

# Programs inherit what is ignored here, as Ctrl-C is in the background of a shell and a hang-up
# with nohup; and tests send them these. A handler is not inherited.
for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda _number, _frame: None)


@pytest.fixture(scope="module", autouse=True)
def no_thread_left() -> Iterator[None]:
    """A module ends the threads of the brokers and clients it had in this process."""

    def ours() -> list[str]:
        return [one.name for one in threading.enumerate() if one.name.startswith("headrace-")]

    assert ours() == []
    yield
    wait_for(lambda: not ours())


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


@pytest.fixture(scope="session")
def mariadb_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    """One MariaDB for the whole run: use databases of your own. It may be killed and started."""
    running = mariadb.prepared(tmp_path_factory.mktemp("mariadb"))
    yield running
    running.stop()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--record-durations",
        action="store_true",
        help="write tests/durations.txt, by which `make test` starts the longest files first",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--record-durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(schedule.DurationRecorder())


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of Spark come last: the threads and sockets that it leaves in this process would
    disturb tests that count theirs."""
    items.sort(key=lambda item: schedule.is_spark(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> schedule.FileScheduling:
    return schedule.FileScheduling(config, log)
