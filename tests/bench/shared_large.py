"""A shared broker with much in it: confirms beside a large batch, and the take-over of a backlog.

    python tests/bench/shared_large.py [MIB] [ROUNDS]

One MariaDB server, an active node and a standby on this machine. A publisher of 200 persistent
messages of 256 bytes per second, alone and while a staged batch of 240 MB is published; then MIB
(1,024) of messages of 1 KB are published, the active node is killed, and the time to the next
confirm is taken, ROUNDS (3) times.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pika.exceptions import AMQPError

from headrace.bulk.client import BulkConnection
from headrace.client import ConnectionFactory
from headrace.client.settings import Settings
from headrace.testing import wait_for
from headrace.testing.mariadb import MariaDb, prepare
from headrace.wire.native.payloads import Op
from support.nodes import Node, Nodes, nodes

DATABASE = "large"
PERSISTENT = {"delivery_mode": 2}


def show(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def confirms(node: Node, is_over: threading.Event) -> list[float]:
    """Milliseconds to each confirm, in order of their size."""
    factory = ConnectionFactory(host="127.0.0.1", port=node.native, request_timeout=60)
    found = []
    with factory.new_connection() as connection:
        channel = connection.create_channel()
        channel.queue_declare("small", durable=True)
        while not is_over.wait(1 / 200):
            began = time.monotonic()
            channel.publish_batch([("", "small", PERSISTENT, bytes(256))])
            found.append((time.monotonic() - began) * 1000)
    return sorted(found)


def summary(name: str, found: list[float]) -> None:
    p50, p99 = found[len(found) // 2], found[int(len(found) * 0.99)]
    show(f"{name}: {len(found)} confirms, p50 {p50:.1f} p99 {p99:.1f} max {found[-1]:.1f} ms")


def confirms_beside_batch(node: Node) -> None:
    alone = threading.Event()
    threading.Timer(10, alone.set).start()
    summary("alone", confirms(node, alone))
    with BulkConnection(Settings(port=node.native)) as bulk:
        bulk.call(Op.QUEUE_DECLARE, name="large", durable=True)
        one = {"exchange": "", "key": "large", "properties": PERSISTENT, "body": bytes(1000)}
        for _ in range(96):
            bulk.stage("query", 0, "a", [one] * 2500)
        is_over = threading.Event()

        def publish() -> None:
            time.sleep(1)
            began = time.monotonic()
            assert bulk.publish_staged("query", 0, ["a"])
            show(f"staged batch of 240 MB published in {time.monotonic() - began:.1f} s")
            is_over.set()

        thread = threading.Thread(target=publish)
        thread.start()
        summary("beside a staged batch of 240 MB", confirms(node, is_over))
        thread.join()


def fill(node: Node, mib: int) -> None:
    factory = ConnectionFactory(host="127.0.0.1", port=node.native, request_timeout=60)
    with factory.new_connection() as connection:
        channel = connection.create_channel()
        channel.queue_declare("backlog", durable=True)
        began = time.monotonic()
        for _ in range(mib):
            channel.publish_batch(("", "backlog", PERSISTENT, bytes(1000)) for _ in range(1024))
    show(f"{mib} MiB published in {time.monotonic() - began:.0f} s")


def take_over(shared: Nodes, server: MariaDb) -> None:
    active = shared.active()
    [standby] = [node for node in shared.all if node is not active]
    copied(server, standby)
    began = time.monotonic()
    active.kill()
    while True:
        try:
            with shared.channel() as channel:
                channel.basic_publish("", "backlog", bytes(1000))
                break
        except AMQPError:
            time.sleep(0.05)
    show(f"a confirm {time.monotonic() - began:.2f} s after the kill")
    began = time.monotonic()
    active.start()
    copied(server, active)
    show(f"all files copied again in {time.monotonic() - began:.1f} s")


def copied(server: MariaDb, node: Node) -> None:
    """Wait until a standby beats and its copy has every commit."""
    first = beats(server, node)[0]

    def is_done() -> bool:
        nonlocal first
        count, behind = beats(server, node)
        first = min(first, count)  # a restarted node counts from the beginning
        return count > first + 1 and behind < 5

    wait_for(is_done, timeout=300)


def beats(server: MariaDb, node: Node) -> tuple[int, int]:
    """Beats of a standby, and how many commits its copy is behind."""
    with server.connect(DATABASE) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT beats, seq - cached FROM hr_shard JOIN hr_node USING (shard)"
            " WHERE hr_node.node = %s",
            (node.name,),
        )
        rows = cursor.fetchall()
    return (int(rows[0][0]), int(rows[0][1])) if rows else (0, sys.maxsize)


def main(mib: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory(prefix="headrace-large-") as place:
        server = prepare(Path(place), "--log-bin", "--server-id=1", "--max-binlog-size=64M")
        try:
            server.create_database(DATABASE)
            with nodes(Path(place), server.url(DATABASE), "ab", lease=5) as shared:
                for node in shared.all:
                    node.start()
                confirms_beside_batch(shared.active())
                fill(shared.active(), mib)
                for _ in range(rounds):
                    take_over(shared, server)
        finally:
            server.stop()


if __name__ == "__main__":
    main(*(int(one) for one in (sys.argv[1:] + ["1024", "3"][len(sys.argv) - 1 :])))
