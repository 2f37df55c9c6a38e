"""A disk that is really full, of nothing but the broker's own messages."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from headrace.testing import wait_for
from headrace.testing.amqp_connection import RawConnection
from headrace.testing.broker_process import BrokerProcess
from headrace.wire.amqp import methods as m
from headrace.wire.amqp.properties import Properties
from support.chaos.connect import Connect


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


class Flood:
    """Publishes until it is blocked."""

    def __init__(self, link: RawConnection) -> None:
        self.link = link
        self.sent = self.confirmed = 0
        link.call(1, m.QueueDeclare(queue="q", durable=True), m.QueueDeclareOk)
        link.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)

    def publish_until_blocked(self) -> None:
        while not self.link.blocked:
            if self.sent - self.confirmed < 50:
                self.sent += 1
                body = b"%d " % self.sent + bytes(10_000)
                self.link.publish(1, "", "q", body, Properties(delivery_mode=2))
            self.read(0.001)

    def read(self, seconds: float = 0.01) -> None:
        for event in self.link.poll(seconds):
            if isinstance(event.method, m.BasicAck):
                self.confirmed = event.method.delivery_tag


def consume(link: RawConnection, seen: set[int]) -> None:
    for event in link.poll(0.01):
        if isinstance(event.method, m.BasicDeliver):
            seen.add(int(event.body.partition(b" ")[0]))
            link.send(1, m.BasicAck(delivery_tag=event.method.delivery_tag))


@pytest.mark.chaos
def test_consumers_make_room_and_publishers_go_on(small_disk: Path, connect: Connect) -> None:
    flags = ("--segment-size", "1MiB", "--disk-free-limit", "0")
    with BrokerProcess(small_disk / "broker", *flags) as node:
        flood = Flood(connect(node.start()))
        flood.publish_until_blocked()
        consumer = connect(node)
        consumer.call(1, m.BasicConsume(queue="q"), m.BasicConsumeOk)
        seen: set[int] = set()

        def is_over() -> bool:
            consume(consumer, seen)
            flood.read()
            return not flood.link.blocked and flood.confirmed == flood.sent == len(seen)

        wait_for(is_over, 20)
        assert node.stop() == 0


@pytest.mark.chaos
def test_a_broker_that_crashed_on_a_full_disk_recovers_there(
    small_disk: Path, connect: Connect
) -> None:
    flags = ("--segment-size", "1MiB", "--disk-free-limit", "0")
    with BrokerProcess(small_disk / "broker", *flags) as node:
        flood = Flood(connect(node.start()))
        flood.publish_until_blocked()
        node.kill()

        consumer = connect(node.start())
        consumer.call(1, m.BasicConsume(queue="q"), m.BasicConsumeOk)
        seen: set[int] = set()
        wait_for(lambda: consume(consumer, seen) or len(seen) >= flood.confirmed, 20)

        assert seen >= set(range(1, flood.confirmed + 1))
        wait_for(lambda: consume(consumer, seen) or "is writable again" in node.log(), 20)
        again = Flood(connect(node))
        again.link.publish(1, "", "q", b"1 ", Properties(delivery_mode=2))
        again.sent = 1
        wait_for(lambda: again.read() is None and again.confirmed == 1)
        assert node.stop() == 0


class Crowd:
    """A file that takes all the room there is, until it is removed."""

    def __init__(self, disk: Path) -> None:
        self._file = disk / "crowd"

    def fill(self) -> None:
        with self._file.open("ab") as file:
            for size in (1 << 20, 1 << 12, 1):
                with suppress(OSError):
                    while True:
                        os.write(file.fileno(), bytes(size))

    def leave(self) -> None:
        self._file.unlink()


@pytest.mark.chaos
def test_declarations_on_a_full_disk_are_answered_when_there_is_room(
    small_disk: Path, connect: Connect
) -> None:
    flags = ("--segment-size", "1MiB", "--disk-free-limit", "0")
    with BrokerProcess(small_disk / "broker", *flags) as node:
        crowd, bystander = Crowd(small_disk), Flood(connect(node.start()))
        link = connect(node)
        crowd.fill()
        count = 0
        while "changes wait" not in node.log():  # the reserve takes some
            count += 1
            huge = {"x-note": "n" * 30_000}
            link.send(1, m.QueueDeclare(queue=f"{count}", durable=True, arguments=huge))
            crowd.fill()
        bystander.publish_until_blocked()
        link.send(1, m.QueueDelete(queue="1"))

        crowd.leave()
        link.wait_for(m.QueueDeleteOk, 1)
        wait_for(lambda: bystander.read() is None and not bystander.link.blocked, 20)
        wait_for(lambda: bystander.read() is None and bystander.confirmed == bystander.sent)
        node.kill()

        again = connect(node.start())
        for number in range(2, count + 1):
            again.call(1, m.QueueDeclare(queue=f"{number}", passive=True), m.QueueDeclareOk)
        assert "Traceback" not in node.log()
        assert node.stop() == 0


@pytest.mark.chaos
def test_small_changes_of_metadata_use_the_reserve_of_a_full_disk(
    small_disk: Path, connect: Connect
) -> None:
    flags = ("--segment-size", "1MiB", "--disk-free-limit", "0")
    with BrokerProcess(small_disk / "broker", *flags) as node:
        link = connect(node.start())
        link.call(1, m.QueueDeclare(queue="q", durable=True), m.QueueDeclareOk)
        crowd = Crowd(small_disk)
        crowd.fill()

        for _ in range(700):  # several times as many pages as the reserve has
            link.call(
                1, m.QueueBind(queue="q", exchange="amq.topic", routing_key="k"), m.QueueBindOk
            )
            unbind = m.QueueUnbind(queue="q", exchange="amq.topic", routing_key="k")
            link.call(1, unbind, m.QueueUnbindOk)
        link.call(1, m.QueueDelete(queue="q"), m.QueueDeleteOk)

        assert "changes wait" not in node.log()
        crowd.leave()
        assert node.stop() == 0
