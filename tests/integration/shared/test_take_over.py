"""A shard moves from node to node: nothing confirmed is lost, whichever way its owner ends."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from headrace.testing import wait_for
from support.brokers import Broker
from support.mariadb import MariaDb
from support.nodes import Nodes, nodes
from support.tcp_proxy import TcpProxy

DURABLE = pika.BasicProperties(delivery_mode=2)


@pytest.fixture
def shared(tmp_path: Path, mariadb_server: MariaDb) -> Iterator[Nodes]:
    database = f"shard_{uuid4().hex[:8]}"
    mariadb_server.create_database(database)
    with nodes(tmp_path, mariadb_server.url(database)) as made:
        yield made


def publish(shared: Nodes, first: int, count: int) -> None:
    with shared.channel() as channel:
        channel.queue_declare("orders", durable=True)
        for number in range(first, first + count):
            channel.basic_publish("", "orders", str(number).encode(), DURABLE)


def consume_all(shared: Nodes) -> list[int]:
    found = []
    with shared.channel() as channel:
        while True:
            method, _, body = channel.basic_get("orders", auto_ack=True)
            if method is None:
                return found
            found.append(int(body or b""))


def test_a_standby_takes_over_a_killed_node(shared: Nodes) -> None:
    first, second = shared.all
    first.start()
    assert shared.active() is first
    second.start()
    publish(shared, 0, 50)
    wait_for(lambda: "standing by" in second.log())
    first.kill()
    assert shared.active() is second
    publish(shared, 50, 10)
    assert consume_all(shared) == list(range(60))


def test_an_orderly_stop_hands_over_and_the_node_comes_back_as_standby(shared: Nodes) -> None:
    first, second = shared.all
    first.start()
    shared.active()
    second.start()
    wait_for(lambda: "standing by" in second.log())
    publish(shared, 0, 20)
    assert first.stop() == 0
    assert shared.active() is second
    first.start()
    wait_for(lambda: "node 'b' has the shard" in first.log())
    answer = httpx.get(f"http://127.0.0.1:{first.http}/healthz")
    assert answer.json() == {"status": "standby", "active": "b"}
    checks = [
        httpx.get(f"http://127.0.0.1:{one.http}/api/health/checks/active")
        for one in (first, second)
    ]
    assert [one.status_code for one in checks] == [503, 200]
    assert second.stop() == 0
    assert shared.active() is first
    assert consume_all(shared) == list(range(20))


def test_a_hung_owner_is_replaced_and_ends_when_it_wakes_up(shared: Nodes) -> None:
    first, second = shared.all
    first.start()
    shared.active()
    second.start()
    wait_for(lambda: "standing by" in second.log())
    publish(shared, 0, 20)
    first.send(signal.SIGSTOP)
    wait_for(lambda: second.is_active, timeout=60)
    first.send(signal.SIGCONT)
    assert first.wait() == 1
    assert "another node has taken the shard over" in first.log()
    publish(shared, 20, 5)
    assert consume_all(shared) == list(range(25))


def test_a_restarted_node_reads_the_shard_from_the_database(shared: Nodes) -> None:
    first, _ = shared.all
    first.start()
    shared.active()
    publish(shared, 0, 20)
    first.kill()
    first.start()
    wait_for(lambda: "ready after" in first.log().split("taking over the shard")[-1], timeout=60)
    shared.active()
    assert consume_all(shared) == list(range(20))


def test_an_owner_stopped_inside_a_commit_does_not_keep_the_shard(shared: Nodes) -> None:
    """Its session holds the row; the node that takes over ends the session."""
    first, second = shared.all
    first.start(HEADRACE_FAILPOINT="shared.commit:40:STOP")
    shared.active()
    second.start()
    wait_for(lambda: "standing by" in second.log())
    sent = 0
    try:
        with shared.channel() as channel:
            channel.queue_declare("orders", durable=True)
            channel.connection.call_later(15, channel.connection.close)
            while sent < 1000:
                channel.basic_publish("", "orders", str(sent).encode(), DURABLE)
                sent += 1
    except pika.exceptions.AMQPError:
        pass
    assert 0 < sent < 1000
    wait_for(lambda: second.is_active, timeout=60)
    first.send(signal.SIGCONT)
    assert first.wait() == 1
    found = consume_all(shared)
    assert found[:sent] == list(range(sent))
    assert len(found) <= sent + 1  # one was not confirmed


def test_an_owner_without_its_database_serves_nobody_and_can_be_stopped(
    tmp_path: Path, mariadb_server: MariaDb
) -> None:
    database = f"shard_{uuid4().hex[:8]}"
    mariadb_server.create_database(database)
    proxy = TcpProxy("127.0.0.1", mariadb_server.port).start()
    url = mariadb_server.url(database).replace(f":{mariadb_server.port}/", f":{proxy.port}/")
    try:
        with nodes(tmp_path, url, "a", lease=1, more=("--shutdown-timeout", "1")) as shared:
            [node] = shared.all
            node.start()
            shared.active()
            publish(shared, 0, 3)
            api = f"http://guest:guest@127.0.0.1:{node.http}/api"
            get = {"count": 1, "encoding": "auto", "ackmode": "ack_requeue_true"}
            assert httpx.post(f"{api}/queues/%2F/orders/get", json=get).status_code == 200
            proxy.refuse()
            proxy.cut()
            wait_for(lambda: "deliveries wait" in node.log())
            answer = httpx.post(f"{api}/queues/%2F/orders/get", json=get)
            assert (answer.status_code, answer.json()["error"]) == (503, "lease")
            assert httpx.get(f"{api}/health/checks/active").status_code == 503
            assert httpx.get(f"{api}/overview").status_code == 200
            with socket.create_connection(("127.0.0.1", node.amqp)) as refused:
                refused.sendall(b"AMQP\0\0\x09\x01")
                with suppress(ConnectionResetError):
                    assert refused.recv(100) == b""
            assert node.stop() == 1
            assert "cannot commit to the database" in node.log()
    finally:
        proxy.stop()


def test_operators_see_nodes_commits_and_alarms(shared: Nodes) -> None:
    first, second = shared.all
    first.start()
    shared.active()
    api = f"http://guest:guest@127.0.0.1:{first.http}"

    def share() -> dict[str, Any]:
        found: dict[str, Any] = httpx.get(f"{api}/api/overview?columns=share").json()["share"]
        return found

    wait_for(lambda: "no_standby" in share()["alarms"], timeout=20)
    assert "alarm: no node stands by" in first.log()
    second.start()
    wait_for(lambda: not share()["alarms"], timeout=20)
    assert "alarm ended: no node stands by" in first.log()
    shown = share()
    assert (shown["shard"], shown["node"], shown["epoch"], shown["has_lease"]) == (
        "main",
        "a",
        1,
        True,
    )
    assert [(one["node"], one["state"]) for one in shown["nodes"]] == [
        ("a", "active"),
        ("b", "standby"),
    ]
    assert shown["last_takeover"]["reason"] == "released"
    metrics = httpx.get(f"{api}/metrics").text
    assert "headrace_share_standbys 1.0" in metrics
    assert 'headrace_share_alarm{kind="no_standby"} 0.0' in metrics
    assert 'headrace_share_commits_behind{node="b"}' in metrics
    second.send(signal.SIGKILL)
    listed = run_headrace("node", "list", shared.url)
    assert [line.split()[:2] for line in listed.splitlines() if line.startswith(("a", "b"))] == [
        ["a", "active"], ["b", "gone"],
    ]  # fmt: skip
    assert "in the last 1.5 s" in listed


def test_two_processes_cannot_be_one_node(shared: Nodes) -> None:
    first, second = shared.all
    first.start()
    shared.active()
    second.start()
    wait_for(lambda: "standing by" in second.log())
    for node in (first, second):
        intruder = node.twin()
        intruder.start()
        assert intruder.wait() == 2
        assert f"another process is node '{node.name}'" in intruder.log()


def test_a_data_directory_becomes_a_shard_and_a_shard_a_data_directory(
    tmp_path: Path, mariadb_server: MariaDb, start_broker: Callable[..., Broker]
) -> None:
    database = f"adopted_{uuid4().hex[:8]}"
    mariadb_server.create_database(database)
    url = mariadb_server.url(database)
    home, out = tmp_path / "home", tmp_path / "out"
    broker = start_broker("--data-dir", str(home))
    with local_channel(broker) as channel:
        channel.queue_declare("orders", durable=True)
        for number in range(20):
            channel.basic_publish("", "orders", str(number).encode(), DURABLE)
    assert "is in use" in run_headrace("share", "adopt", str(home), url)
    broker.stop()
    assert "copied" in run_headrace("share", "adopt", str(home), url)
    assert "exists already" in run_headrace("share", "adopt", str(home), url)
    with nodes(tmp_path, url, "a") as shared:
        shared.all[0].start()
        shared.active()
        publish(shared, 20, 5)
        listed = run_headrace("node", "list", url)
        assert "active" in listed
        assert "epoch 2: a, " in listed
        assert "is in" in run_headrace("share", "export", str(out), url)
    exported = start_broker("--data-dir", str(out))
    with local_channel(exported) as channel:
        bodies = [channel.basic_get("orders", auto_ack=True)[2] for _ in range(26)]
    assert bodies == [str(number).encode() for number in range(25)] + [None]


@contextmanager
def local_channel(broker: Broker) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.confirm_delivery()
    yield channel
    connection.close()


def run_headrace(*args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "headrace", *args], capture_output=True, text=True, timeout=60
    )
    return done.stdout + done.stderr
