"""Our SDK when a real RocketMQ dies, comes back, and members come and go."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Event, Thread

import pytest

import headrace
from headrace.rocketmq import (
    ConcurrentConsumer,
    ConsumeResult,
    Message,
    MessageExt,
    OrderlyConsumer,
    Producer,
    RocketMQError,
)
from headrace.testing import wait_for
from headrace.wire.remoting.headers.offsets import GetMaxOffset, OffsetResult, QueryConsumerOffset
from support.raw_remoting import Link
from support.rocketmq.apache import Apache
from support.rocketmq.sdk_scenarios import Collector, Scene

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def scene(own_apache: Apache) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(own_apache.name_address, stack)


class Ledger:
    """A thread that sends until it is stopped; remembers what was confirmed."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self.confirmed: list[str] = []
        self._producer = producer
        self._topic = topic
        self._stop = Event()
        self._thread = Thread(target=self._run)

    def __enter__(self) -> Ledger:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            with suppress(RocketMQError):
                self._producer.send(Message(self._topic, f"m{number}".encode()), timeout=3)
                self.confirmed.append(f"m{number}")
            self._stop.wait(0.005)

    def grows(self) -> None:
        count = len(self.confirmed)
        wait_for(lambda: len(self.confirmed) > count + 20, 60, 0.05)


def lag(apache: Apache, group: str, topic: str, queues: int) -> int:
    """Messages behind; a queue without an offset has everything behind."""
    behind = 0
    with Link(apache.broker_address) as link:
        for number in range(queues):
            end = OffsetResult.take(link.ask(GetMaxOffset(topic, number)).ext).offset
            answer = link.ask(QueryConsumerOffset(group, topic, number))
            done = OffsetResult.take(answer.ext).offset if answer.code == 0 else 0
            behind += end - done
    return behind


def test_the_broker_and_the_name_server_die_and_come_back(own_apache: Apache, scene: Scene) -> None:
    topic = scene.topic(4)
    got = Collector()
    consumer = scene.consumer(ConcurrentConsumer, topic, got)
    with Ledger(scene.producer(retry_times_when_send_failed=5), topic) as ledger:
        ledger.grows()
        own_apache.kill("namesrv")
        ledger.grows()
        own_apache.start_name_server()
        wait_for(lambda: consumer.health().ok, 90, 0.1)
        own_apache.kill("broker")
        wait_for(lambda: not consumer.health().ok, 30, 0.05)
        own_apache.start_broker()
        ledger.grows()
    wait_for(lambda: set(ledger.confirmed) <= set(got.bodies()), 60, 0.1)
    wait_for(lambda: consumer.health().ok, 60, 0.1)
    wait_for(lambda: lag(own_apache, scene.group, topic, 4) == 0, 30, 0.1)


MEMBER = """
import os, sys, time
from headrace.rocketmq import *
namesrv, group, topic = sys.argv[1:]
def listen(messages):
    for one in messages:
        line = f"{time.monotonic_ns()} {one.keys[0]} {one.body.decode()}\\n"
        os.write(1, line.encode())
    return ConsumeResult.SUCCESS
config = ConsumerConfig(consumer_group=group, namesrv_addr=namesrv, rebalance_interval=1000,
    consume_from_where="CONSUME_FROM_FIRST_OFFSET", lock_interval=1000)
consumer = OrderlyConsumer(config)
consumer.subscribe(topic)
consumer.register_message_listener(listen)
consumer.start()
print("started", flush=True)
time.sleep(600)
"""


def member(scene: Scene, topic: str, output: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(Path(headrace.__file__).parent.parent)}
    command = [sys.executable, "-c", MEMBER, scene.namesrv, scene.group, topic]
    with output.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, env=environment)
    wait_for(lambda: "started" in output.read_text(), 30, 0.02)
    return process


Seen = tuple[int, str, int]  # when, key, number


def received(output: Path) -> list[Seen]:
    """What a member has told in whole lines."""
    lines = [line.split() for line in output.read_text().split("\n")[:-1] if line != "started"]
    return [(int(line[0]), line[1], int(line[2])) for line in lines]


def first_times(seen: list[Seen]) -> dict[str, list[int]]:
    """The numbers of each key in the order in which anybody got them for the first time."""
    found: dict[str, list[int]] = defaultdict(list)
    for _, key, number in sorted(seen):
        if number not in found[key]:
            found[key].append(number)
    return found


def test_order_survives_a_killed_member_and_a_new_one(scene: Scene, tmp_path: Path) -> None:
    topic, keys, each = scene.topic(8), 20, 150
    mine: list[Seen] = []

    def listen(messages: list[MessageExt]) -> ConsumeResult:
        mine.extend((time.monotonic_ns(), one.keys[0], int(one.body)) for one in messages)
        return ConsumeResult.SUCCESS

    scene.consumer(OrderlyConsumer, topic, listen)
    producer = scene.producer()

    def send() -> None:
        for number in range(each):
            for key in range(keys):
                message = Message(topic, str(number).encode(), keys=f"k{key}")
                producer.send_by_key(message, f"k{key}")

    sender = Thread(target=send)
    sender.start()
    first = member(scene, topic, tmp_path / "first")
    second = None
    try:
        wait_for(lambda: len(received(tmp_path / "first")) > 50, 60, 0.05)
        first.send_signal(signal.SIGKILL)
        first.wait()
        second = member(scene, topic, tmp_path / "second")
        sender.join(60)

        def everything() -> list[Seen]:
            return [*mine, *received(tmp_path / "first"), *received(tmp_path / "second")]

        wait_for(lambda: len({one[1:] for one in everything()}) == keys * each, 120, 0.2)
    finally:
        for process in (first, second):
            if process is not None:
                process.kill()
                process.wait()
        sender.join(60)
    assert first_times(everything()) == {f"k{key}": list(range(each)) for key in range(keys)}
