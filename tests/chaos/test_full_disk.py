"""A disk that is really full, of nothing but the broker's own messages."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from connecting import Connect

from headrace.verify.link import Link
from headrace.verify.node import Node
from headrace.wire.amqp import methods as m
from headrace.wire.amqp.properties import Properties
from waiting import wait_for


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

    def __init__(self, link: Link) -> None:
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


def consume(link: Link, seen: set[int]) -> None:
    for event in link.poll(0.01):
        if isinstance(event.method, m.BasicDeliver):
            seen.add(int(event.body.partition(b" ")[0]))
            link.send(1, m.BasicAck(delivery_tag=event.method.delivery_tag))


@pytest.mark.chaos
def test_consumers_make_room_and_publishers_go_on(small_disk: Path, connect: Connect) -> None:
    flags = ("--segment-size", "1MiB", "--disk-free-limit", "0")
    with Node(small_disk / "broker", *flags) as node:
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
    with Node(small_disk / "broker", *flags) as node:
        flood = Flood(connect(node.start()))
        flood.publish_until_blocked()
        node.kill()

        consumer = connect(node.start())
        consumer.call(1, m.BasicConsume(queue="q"), m.BasicConsumeOk)
        seen: set[int] = set()
        wait_for(lambda: consume(consumer, seen) or len(seen) >= flood.confirmed, 20)

        assert seen >= set(range(1, flood.confirmed + 1))
        wait_for(lambda: consume(consumer, seen) or "can be written again" in node.log(), 20)
        again = Flood(connect(node))
        again.link.publish(1, "", "q", b"1 ", Properties(delivery_mode=2))
        again.sent = 1
        wait_for(lambda: again.read() is None and again.confirmed == 1)
        assert node.stop() == 0
