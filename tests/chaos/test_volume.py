"""Large numbers: a million messages over a crash, and gigabytes through a small directory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from headrace.bench.cases import Case
from headrace.bench.load.amqp_connection import AmqpConnection
from headrace.bench.load_plan import LoadPlan
from headrace.bench.processes import memory
from headrace.bench.target import AmqpAddress
from headrace.testing import wait_for
from headrace.testing.broker_process import BrokerProcess

MIB = 1 << 20

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(400)]


@pytest.fixture
def big(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker as users have it, started."""
    with BrokerProcess(tmp_path / "broker") as node:
        node.start()
        yield node


def link_to(node: BrokerProcess) -> AmqpConnection:
    return AmqpConnection(AmqpAddress("127.0.0.1", node.port))


def megabytes(node: BrokerProcess) -> float:
    """Memory of the broker that is not backed by files."""
    assert node.process is not None
    return memory([node.process.pid]).anonymous


def durable(standing: int) -> Case:
    return Case(name="", about="", body=1000, durable=True, consumers=0, standing=standing)


def drain(
    node: BrokerProcess, plan: LoadPlan, count: int, *, auto_ack: bool = True
) -> AmqpConnection:
    """Receive ``count`` deliveries; the link stays open."""
    link = link_to(node)
    link.consume(plan.queues[0], plan.tags[0], auto_ack=auto_ack)
    left = count * plan.delivery_size
    while left > 0:
        left -= len(link.sock.recv(min(left, MIB)))
    return link


def wait_until_all_is_on_disk(node: BrokerProcess) -> None:
    """There is one log: what is confirmed last was written last."""
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", node.port)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("last", durable=True)
        channel.basic_publish("", "last", b"x", pika.BasicProperties(delivery_mode=2))


def test_a_million_stored_messages_cost_little_memory_and_no_time_at_start(
    big: BrokerProcess,
) -> None:
    million = 1_000_000
    plan = LoadPlan(durable(million), "volume")
    with link_to(big) as link:
        plan.set_up(link)
        waiting = link.count(plan.queues[0])
    assert megabytes(big) < 200
    wait_until_all_is_on_disk(big)

    big.kill()
    begun = time.monotonic()
    big.start()
    assert time.monotonic() - begun < 10
    with link_to(big) as link:
        assert link.count(plan.queues[0]) == waiting

    held = drain(big, plan, million, auto_ack=False)
    assert megabytes(big) < 400
    held.sock.close()
    with link_to(big) as link:
        wait_for(lambda: link.count(plan.queues[0]) == waiting, timeout=30)
    drain(big, plan, waiting).sock.close()
    with link_to(big) as link:
        assert link.count(plan.queues[0]) == 0


def test_one_live_message_in_every_segment_does_not_keep_gigabytes(big: BrokerProcess) -> None:
    per_segment = 30_000  # messages of 1000 bytes: a little less than 32 MiB
    kept = LoadPlan(durable(0), "kept")
    flow = LoadPlan(durable(per_segment), "flow")
    journal = big.data / "journal"
    rounds = 165  # 5 GB
    with link_to(big) as link:
        kept.set_up(link)
        one = next(iter(kept.blocks(0)))
        for _ in range(rounds):
            link.sock.sendall(one.data[: one.size])
            flow.set_up(link)
            drain(big, flow, link.count(flow.queues[0])).sock.close()

        def used() -> int:
            return sum(file.stat().st_blocks * 512 for file in journal.iterdir())

        wait_for(lambda: used() < 300 * MIB, timeout=60, interval=0.5)
        assert link.count(kept.queues[0]) == rounds
        drain(big, kept, rounds).sock.close()
        wait_for(lambda: len(list(journal.glob("*.log"))) <= 2, timeout=60, interval=0.5)
