"""The disk fails: syncs that fail end the broker, a full disk makes publishers wait, a slow one
disturbs nobody."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from headrace.testing import wait_for
from headrace.testing.amqp_connection import ConnectionLost, RawConnection, ReceivedMethod
from headrace.testing.broker_process import SERVE, BrokerProcess
from headrace.wire.amqp import methods as m
from headrace.wire.amqp.properties import Properties
from support.chaos.connect import Connect
from support.chaos.failing_disk_broker import (
    FINE,
    FULL,
    NO_NOTES,
    SLOW,
    SLOW_SECONDS,
    SYNC_FAILS,
    Saboteur,
)

PERSISTENT = Properties(delivery_mode=2)


class Desk:
    """A connection that publishes numbered bodies to a durable queue, and counts the confirms."""

    def __init__(self, link: RawConnection, queue: str = "q") -> None:
        self.link = link
        self.queue = queue
        self.sent = 0
        self.confirmed = 0
        self.refused = 0
        self.link.call(1, m.QueueDeclare(queue=queue, durable=True), m.QueueDeclareOk)
        self.link.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)

    def publish(self, count: int, size: int = 100) -> None:
        for _ in range(count):
            self.sent += 1
            body = b"%d " % self.sent + b"x" * size
            self.link.publish(1, "", self.queue, body, PERSISTENT)

    def read(self, seconds: float = 0.01) -> list[ReceivedMethod]:
        events = self.link.poll(seconds)
        for event in events:
            if isinstance(event.method, m.BasicAck):
                self.confirmed = event.method.delivery_tag
            elif isinstance(event.method, m.BasicNack):
                self.refused += 1
        return events

    def wait_for_confirms(self, timeout: float = 10) -> None:
        wait_for(lambda: self.read() is not None and self.confirmed == self.sent, timeout)

    def bodies(self) -> list[int]:
        """Numbers of the messages in the queue; takes them all."""
        found = []
        while True:
            self.link.send(1, m.BasicGet(queue=self.queue, no_ack=True))
            event = wait_for(lambda: self.link.poll(0.01))[0]
            if not isinstance(event.method, m.BasicGetOk):
                return found
            found.append(int(event.body.partition(b" ")[0]))

    def wait_for_end(self) -> ConnectionLost:
        """Read until the broker closes the connection."""
        with pytest.raises(ConnectionLost) as lost:
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline:
                self.read()
        return lost.value


def check_that_it_ended_in_order(node: BrokerProcess, desk: Desk, before: int) -> None:
    lost = desk.wait_for_end()
    assert lost.code in (320, 541), lost
    assert desk.confirmed == before, "something was confirmed that is not on the disk"
    assert node.wait(10) == 1
    assert "Traceback" not in node.log()


def check_that_all_is_there(node: BrokerProcess, connect: Connect, before: int) -> None:
    desk = Desk(connect(node))
    assert desk.bodies()[:before] == list(range(1, before + 1))
    desk.link.close()  # a stop waits for those who do not answer
    assert node.stop() == 0


def test_a_failed_sync_ends_the_broker_and_nothing_of_it_is_confirmed(
    saboteur: Saboteur, connect: Connect
) -> None:
    desk = Desk(connect(saboteur.start()))
    desk.publish(50)
    desk.wait_for_confirms()

    saboteur.order(SYNC_FAILS)
    desk.publish(50)

    check_that_it_ended_in_order(saboteur, desk, before=50)
    saboteur.order(FINE)
    check_that_all_is_there(saboteur.start(), connect, before=50)


def test_a_failed_sync_leaves_no_transaction_answered(saboteur: Saboteur, connect: Connect) -> None:
    desk = Desk(connect(saboteur.start()))
    link = connect(saboteur)
    link.call(1, m.TxSelect(), m.TxSelectOk)

    saboteur.order(SYNC_FAILS)
    link.publish(1, "", desk.queue, b"1 ", PERSISTENT)
    link.send(1, m.TxCommit())

    with pytest.raises(ConnectionLost) as lost:
        link.wait_for(m.TxCommitOk, 1)
    assert lost.value.code == 320
    assert saboteur.wait(10) == 1


def test_a_sync_that_fails_while_the_broker_stops_is_not_a_clean_end(
    saboteur: Saboteur, connect: Connect
) -> None:
    desk = Desk(connect(saboteur.start()))
    desk.publish(50)
    desk.wait_for_confirms()

    desk.link.close()
    saboteur.order(SYNC_FAILS)
    code = saboteur.stop()

    assert code == 1
    assert "Traceback" not in saboteur.log()
    saboteur.order(FINE)
    check_that_all_is_there(saboteur.start(), connect, before=50)


@pytest.mark.chaos
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_a_sync_that_the_kernel_fails_ends_the_broker(tmp_path: Path, connect: Connect) -> None:
    # -D: the broker is our child and strace a stranger, so that signals reach the broker.
    strace = ("strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync", "-e")
    failing = "inject=fdatasync:error=EIO:when=40+"  # of each thread; a start has some
    with BrokerProcess(tmp_path / "b", command=(*strace, failing, *SERVE)) as node:
        desk = Desk(connect(node.start()))
        before = 0
        with pytest.raises(ConnectionLost) as lost:
            while before < 1000:
                desk.publish(1)
                desk.wait_for_confirms()
                before = desk.confirmed
        assert lost.value.code in (320, 541)
        assert desk.confirmed == before > 0
        assert node.wait(10) == 1
    with BrokerProcess(tmp_path / "b") as node:
        check_that_all_is_there(node.start(), connect, before)


def test_a_full_disk_blocks_publishers_until_there_is_room(
    saboteur: Saboteur, connect: Connect
) -> None:
    desk = Desk(connect(saboteur.start()))
    desk.publish(20)
    desk.wait_for_confirms()
    consumer = connect(saboteur)

    saboteur.order(FULL)
    desk.publish(20)
    wait_for(lambda: desk.read() is not None and desk.link.blocked)

    assert desk.confirmed == 20
    consumer.call(1, m.BasicConsume(queue="q"), m.BasicConsumeOk)
    taken: list[ReceivedMethod] = []
    wait_for(lambda: taken.extend(consumer.poll(0.01)) or len(taken) >= 20)
    first = taken[0].method
    assert isinstance(first, m.BasicDeliver)
    consumer.send(1, m.BasicAck(delivery_tag=1))

    saboteur.order(FINE)
    wait_for(lambda: desk.read() is not None and not desk.link.blocked)
    desk.publish(20)
    desk.wait_for_confirms()
    assert desk.refused == 0
    saboteur.kill()
    found = Desk(connect(saboteur.start())).bodies()
    assert found == list(range(2, 61))


def test_a_disk_without_room_for_a_checkpoint_does_not_end_the_broker(
    saboteur: Saboteur, connect: Connect
) -> None:
    desk = Desk(connect(saboteur.start()))
    desk.publish(50)
    desk.wait_for_confirms()

    saboteur.order(NO_NOTES)
    desk.publish(500, size=1000)  # several segments; each is a reason for a checkpoint
    wait_for(lambda: desk.read() is not None and (desk.link.blocked or desk.confirmed == desk.sent))

    saboteur.order(FINE)
    desk.wait_for_confirms()
    saboteur.kill()
    assert Desk(connect(saboteur.start())).bodies() == list(range(1, 551))


def test_a_broker_that_is_stopped_on_a_full_disk_keeps_what_it_confirmed(
    saboteur: Saboteur, connect: Connect
) -> None:
    desk = Desk(connect(saboteur.start()))
    desk.publish(20)
    desk.wait_for_confirms()
    saboteur.order(FULL)
    desk.publish(20)
    wait_for(lambda: desk.read() is not None and desk.link.blocked)
    desk.link.close()

    code = saboteur.stop()

    assert code == 1, "not everything could be written"
    assert "Traceback" not in saboteur.log()
    saboteur.order(FINE)
    check_that_all_is_there(saboteur.start(), connect, before=20)


def test_a_slow_disk_does_not_stop_heartbeats_or_others(
    saboteur: Saboteur, connect: Connect
) -> None:
    desk = Desk(connect(saboteur.start(), heartbeat=1))
    other = connect(saboteur)
    other.call(1, m.QueueDeclare(queue="t"), m.QueueDeclareOk)

    saboteur.order(SLOW)
    deadline = time.monotonic() + 2
    slowest = 0.0
    while time.monotonic() < deadline:
        desk.publish(1)
        desk.link.beat()
        desk.read()
        began = time.monotonic()
        other.publish(1, "", "t", b"x", Properties())
        other.call(1, m.BasicGet(queue="t", no_ack=True), m.BasicGetOk)
        slowest = max(slowest, time.monotonic() - began)

    assert slowest < SLOW_SECONDS, "another connection waited for the disk"
    assert desk.link.heartbeats >= 1 or desk.confirmed > 0
    desk.wait_for_confirms()
    saboteur.order(FINE)
    for link in (desk.link, other):
        link.close()
    assert saboteur.stop() == 0
