"""Timed RocketMQ messages when the broker is killed, and what many of them cost.

`QUIET=1 pytest -m chaos -s tests/chaos/test_rocketmq_timers.py` also checks the lateness, on a
machine that does nothing else; it takes about two minutes.
"""

from __future__ import annotations

import os
import random
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing import wait_for
from headrace.wire.remoting.codes import PullFlag, RequestCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.frames import Reader, command_bytes
from headrace.wire.remoting.headers.admin import CreateTopic
from headrace.wire.remoting.headers.offsets import GetMaxOffset, OffsetResult
from headrace.wire.remoting.headers.pull import PullMessage
from headrace.wire.remoting.headers.send import SendMessage
from headrace.wire.remoting.properties import properties_text
from support import brokers
from support.brokers import Broker
from support.raw_remoting import Link
from support.remoting_bodies import RemotingMessage, take_messages

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

TOPIC, QUEUES = "T-timers", 4
TIMERS, WITHIN_MS = 10_000, 60_000
LEAD_MS = 15_000  # to send them
WINDOW = 500  # requests on the way
P99_MS = 200  # on a quiet machine
WAITING, WAITING_BYTES = 100_000, 50 << 20


def address(broker: Broker) -> str:
    return f"127.0.0.1:{broker.ports['remoting']}"


def send_all(broker: Broker, timers: dict[str, int]) -> None:
    """Send a message for each due time; all are confirmed on return."""
    host, _, port = address(broker).rpartition(":")
    todo = list(timers.items())
    with socket.create_connection((host, int(port)), 60) as peer:
        reader = Reader()
        for start in range(0, len(todo), WINDOW):
            window = todo[start : start + WINDOW]
            frames = [_frame(at, *one) for at, one in enumerate(window, start)]
            peer.sendall(b"".join(frames))
            codes: list[int] = []
            while len(codes) < len(window):
                codes += [one.code for one in reader.feed(peer.recv(1 << 16))]
            assert set(codes) == {0}


def _frame(at: int, key: str, due: int) -> bytes:
    text = properties_text({"UNIQ_KEY": key, "TIMER_DELIVER_MS": str(due)})
    header = SendMessage("PG", TOPIC, at % QUEUES, 0, 1, properties=text)
    return command_bytes(Command(RequestCode.SEND_MESSAGE_V2, header.ext_v2(), b"x", opaque=at))


def delivered(broker: Broker) -> int:
    with Link(address(broker)) as link:
        found = [link.ask(GetMaxOffset(TOPIC, at)) for at in range(QUEUES)]
    return sum(OffsetResult.take(one.ext).offset for one in found)


def read_all(broker: Broker) -> Iterator[RemotingMessage]:
    with Link(address(broker)) as link:
        for queue_id in range(QUEUES):
            at, code = 0, 0
            while code == 0:
                flags = int(PullFlag.SUBSCRIPTION)
                answer = link.ask(PullMessage("CG", TOPIC, queue_id, at, 32, flags))
                code, found = answer.code, list(take_messages(answer.body))
                at += len(found)
                yield from found


def create_topic(broker: Broker) -> None:
    with Link(address(broker)) as link:
        assert link.ask(CreateTopic(TOPIC, QUEUES, QUEUES)).code == 0


def test_timers_are_delivered_once_and_never_early_over_two_kills(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    broker = brokers.start(tmp_path)
    try:
        create_topic(broker)
        start = int(time.time() * 1000) + LEAD_MS
        due = {f"U-{at}": start + chance.randrange(WITHIN_MS) for at in range(TIMERS)}
        send_all(broker, due)
        away: list[tuple[int, int]] = []  # when the broker was killed, and back
        for after_ms in (WITHIN_MS // 3, WITHIN_MS * 2 // 3):
            time.sleep(max(0.0, (start + after_ms) / 1000 - time.time()))
            killed = int(time.time() * 1000)
            broker.kill()
            broker = brokers.start(tmp_path)
            delivered(broker)
            away.append((killed, int(time.time() * 1000) + 1000))
        left = (start + WITHIN_MS) / 1000 - time.time()
        wait_for(lambda: delivered(broker) >= TIMERS, max(left, 0) + 60, 0.2)
        found = list(read_all(broker))
    finally:
        broker.stop()

    assert sorted(one.msg_id for one in found) == sorted(due)
    late = {one.msg_id: one.store_timestamp - due[one.msg_id] for one in found}
    assert min(late.values()) >= 0
    while_up = sorted(
        ms for key, ms in late.items() if not any(low <= due[key] <= high for low, high in away)
    )
    p99 = while_up[len(while_up) * 99 // 100]
    sys.stdout.write(
        f"{len(while_up)} of {TIMERS} due while the broker was up: lateness p50 "
        f"{while_up[len(while_up) // 2]} ms, p99 {p99} ms, largest {while_up[-1]} ms\n"
    )
    assert p99 < P99_MS or not os.environ.get("QUIET")


def test_many_waiting_timers_cost_little_memory(tmp_path: Path) -> None:
    broker = brokers.start(tmp_path)
    try:
        create_topic(broker)
        later = int(time.time() * 1000) + 24 * 3600 * 1000
        send_all(broker, {f"W-{at}": later + at for at in range(2_000)})  # warm
        before = resident(broker)
        send_all(broker, {f"U-{at}": later + at for at in range(WAITING)})
        after = resident(broker)
        assert delivered(broker) == 0
    finally:
        broker.stop()

    sys.stdout.write(f"{WAITING} waiting timers: {(after - before) / (1 << 20):.1f} MiB\n")
    assert after - before < WAITING_BYTES


def resident(broker: Broker) -> int:
    """Bytes of memory that only this process has."""
    pages = [int(one) for one in Path(f"/proc/{broker.pid}/statm").read_text().split()]
    return (pages[1] - pages[2]) * os.sysconf("SC_PAGE_SIZE")
