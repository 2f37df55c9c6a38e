"""Large commits and publications: seen as a whole by others, and after kill -9 in the middle."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from headrace.bulk.client import BulkConnection
from headrace.client.errors import HeadraceError
from headrace.client.settings import Settings
from headrace.testing import wait_for
from headrace.testing.amqp_connection import ConnectionLost, RawConnection
from headrace.wire.amqp import methods as m
from headrace.wire.amqp.content import make_content
from headrace.wire.amqp.method_codec import method_frame
from headrace.wire.amqp.properties import Properties
from headrace.wire.native.payloads import Op
from support import brokers

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]
QUEUES = ("q0", "q1", "q2")
EACH = 20_000
ROUNDS = 4
Prepare = Callable[[brokers.Broker, ExitStack], Callable[[], None]]


def connected(broker: brokers.Broker, stack: ExitStack) -> RawConnection:
    link = RawConnection(broker.amqp_port)
    stack.callback(link.close)
    link.open_channel(1)
    return link


def transaction(broker: brokers.Broker, stack: ExitStack) -> Callable[[], None]:
    """Publishes to all queues; what is returned commits them."""
    link = connected(broker, stack)
    link.call(1, m.TxSelect(), m.TxSelectOk)
    content = make_content(Properties(delivery_mode=2), bytes(100), 1)
    publishes = [method_frame(1, m.BasicPublish(routing_key=name)) + content for name in QUEUES]
    for _ in range(0, EACH, 1000):
        link.send_bytes(b"".join(publishes) * 1000)
    link.call(1, m.BasicQos(), m.BasicQosOk)  # all of it was taken

    def commit() -> None:
        link.send(1, m.TxCommit())
        link.wait_for(m.TxCommitOk, 1, 60)

    return commit


def staged(broker: brokers.Broker, stack: ExitStack) -> Callable[[], None]:
    """Stages messages for all queues; what is returned publishes them."""
    bulk = stack.enter_context(BulkConnection(Settings(port=broker.native_port)))
    one = {"exchange": "", "body": bytes(100), "properties": {"delivery_mode": 2}}
    for _ in range(0, EACH, 1000):
        bulk.stage("sink", 0, "a", [{**one, "key": name} for name in QUEUES] * 1000)
    return lambda: assert_published(bulk)


def assert_published(bulk: BulkConnection) -> None:
    assert bulk.publish_staged("sink", 0, ["a"])


def depth(link: RawConnection, name: str) -> int:
    link.send(1, m.QueueDeclare(queue=name, passive=True))
    return link.wait_for(m.QueueDeclareOk, 1, 60).message_count


class Observer(threading.Thread):
    """Looks at the queues, one after the other, until the broker is gone."""

    def __init__(self, link: RawConnection) -> None:
        super().__init__(daemon=True)
        self._link = link
        self.seen: list[list[int]] = []

    def run(self) -> None:
        with suppress(ConnectionLost, OSError):
            while True:
                self.seen.append([depth(self._link, name) for name in QUEUES])

    def check(self) -> None:
        for depths in self.seen:
            assert set(depths) <= {0, EACH}, depths
            assert depths == sorted(depths), f"{depths}: a queue that was looked at later has less"


def started(directory: Path, stack: ExitStack) -> brokers.Broker:
    broker = brokers.start(directory)
    stack.callback(broker.kill)
    link = connected(broker, stack)
    for name in QUEUES:
        link.call(1, m.QueueDeclare(queue=name, durable=True), m.QueueDeclareOk)
    return broker


@pytest.mark.parametrize("prepare", [transaction, staged])
def test_an_observer_sees_all_or_nothing(tmp_path: Path, prepare: Prepare) -> None:
    with ExitStack() as stack:
        broker = started(tmp_path, stack)
        apply = prepare(broker, stack)
        observer = Observer(connected(broker, stack))
        observer.start()
        wait_for(lambda: bool(observer.seen))
        apply()
        wait_for(lambda: observer.seen[-1] == [EACH] * len(QUEUES))
        broker.kill()
        observer.join(60)
        observer.check()


@pytest.mark.parametrize("prepare", [transaction, staged])
def test_after_a_kill_there_is_all_or_nothing(tmp_path: Path, seed: int, prepare: Prepare) -> None:
    pauses = random.Random(seed)
    for number in range(ROUNDS):
        directory = tmp_path / str(number)
        directory.mkdir()
        with ExitStack() as stack:
            is_answered = killed(started(directory, stack), stack, prepare, pauses.uniform(0, 0.4))
            broker = brokers.start(directory)
            stack.callback(broker.kill)
            link = connected(broker, stack)
            depths = {depth(link, name) for name in QUEUES}
            assert depths in ({0}, {EACH}), f"round {number}: {depths}"
            assert not is_answered or depths == {EACH}
            if prepare is staged:
                assert is_published(broker, stack) is (depths == {EACH})


def killed(broker: brokers.Broker, stack: ExitStack, prepare: Prepare, pause: float) -> bool:
    """Kill the broker while it applies what was prepared; whether it answered before that."""
    apply = prepare(broker, stack)
    killer = threading.Timer(pause, broker.kill)
    killer.start()
    try:
        apply()
    except (ConnectionLost, OSError, HeadraceError):
        return False
    else:
        return True
    finally:
        killer.join(60)


def is_published(broker: brokers.Broker, stack: ExitStack) -> bool:
    bulk = stack.enter_context(BulkConnection(Settings(port=broker.native_port)))
    answer = bulk.call(Op.PUBLISH_STAGED, query="sink", batch=0, attempts=[], discard=True)
    return bool(answer["already"])
