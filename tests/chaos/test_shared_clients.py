"""RocketMQ clients of a shared broker find the node that took over."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest

from headrace.rocketmq import (
    ConcurrentConsumer,
    ConsumeFromWhere,
    ConsumerConfig,
    ConsumeResult,
    Message,
    MessageExt,
    Producer,
    ProducerConfig,
    RocketMQError,
)
from headrace.testing import wait_for
from support.mariadb import MariaDb
from support.nodes import nodes

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]


def test_rocketmq_clients_find_the_next_node(tmp_path: Path, mariadb_server: MariaDb) -> None:
    """With the name servers of all nodes: those of standbys do not answer."""
    database = f"clients_{uuid4().hex[:8]}"
    mariadb_server.create_database(database)
    with nodes(tmp_path, mariadb_server.url(database), remoting=True) as shared:
        for node in shared.all:
            node.start()
        first = shared.active()
        servers = ";".join(f"127.0.0.1:{node.namesrv}" for node in shared.all)
        seen: set[str] = set()

        def listen(messages: list[MessageExt]) -> ConsumeResult:
            seen.update(one.body.decode() for one in messages)
            return ConsumeResult.SUCCESS

        consumer = ConcurrentConsumer(
            ConsumerConfig(
                consumer_group="mail", namesrv_addr=servers,
                consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            )
        )  # fmt: skip
        consumer.subscribe("orders")
        consumer.register_message_listener(listen)
        config = ProducerConfig(producer_group="shop", namesrv_addr=servers)
        with Producer(config) as producer, consumer:
            sent = send(producer, 0, 50)
            first.kill()
            began = time.monotonic()
            sent += send(producer, 50, 1)
            gap = time.monotonic() - began
            sent += send(producer, 51, 50)
            wait_for(lambda: set(sent) <= seen, timeout=90)
    print(f"sends go on after {gap:.1f} s, all {len(sent)} consumed")  # noqa: T201


def send(producer: Producer, first: int, count: int) -> list[str]:
    """Each until it is stored."""
    sent = []
    for number in range(first, first + count):
        deadline = time.monotonic() + 60
        while True:
            with suppress(RocketMQError):
                producer.send(Message("orders", str(number).encode()))
                sent.append(str(number))
                break
            assert time.monotonic() < deadline
            time.sleep(0.1)
    return sent
