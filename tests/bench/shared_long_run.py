"""Hours of a shared broker at a steady rate: what grows? One line of figures per minute.

    python tests/bench/shared_long_run.py MINUTES RATE FILE

RATE is in messages of 256 bytes per second, published, confirmed, consumed and acknowledged. One
MariaDB server with a binary log, an active node and a standby run on this machine.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from headrace.bench.load import frames
from headrace.bench.load.amqp_connection import AmqpAddress, AmqpConnection
from headrace.bench.load.contents import plain
from headrace.bench.load.frames import AckBlock, ConfirmCounter
from headrace.testing.mariadb import MariaDb, prepare
from support.nodes import Node, nodes

SIZE = 256
CONTENT = plain(SIZE, persistent=True)
TURN_S = 0.02
MOST = 20_000  # messages in a write, when it is behind


class Load:
    """One publisher at a rate and one consumer, with frames that are encoded beforehand."""

    def __init__(self, port: int, rate: float) -> None:
        self._rate = rate
        self.confirmed = self.consumed = 0
        self.slowest_s = 0.0  # the longest time from a write to its last confirm
        self.stopping = threading.Event()
        self._publisher, self._consumer = (
            AmqpConnection(AmqpAddress("127.0.0.1", port)) for _ in range(2)
        )
        self._publisher.declare_queue("long", durable=True)
        self._publisher.select_confirms()
        self._consumer.prefetch(2000)
        self._consumer.consume("long", "c", auto_ack=False)
        self._threads = [threading.Thread(target=one) for one in (self._publish, self._consume)]
        for one in self._threads:
            one.start()

    def _publish(self) -> None:
        sock, confirms = self._publisher.sock, ConfirmCounter()
        self._publisher.set_timeout(60)
        one = frames.publish("", "long", CONTENT.properties, CONTENT.body)
        block = memoryview(one * MOST)
        began, sent = time.monotonic(), 0
        while not self.stopping.wait(TURN_S):
            due = min(int((time.monotonic() - began) * self._rate) - sent, MOST)
            sent += due
            started = time.monotonic()
            sock.sendall(block[: due * len(one)])
            while confirms.count < sent:
                confirms.feed(sock.recv(1 << 16))
            self.confirmed = sent
            self.slowest_s = max(self.slowest_s, time.monotonic() - started)
        self._publisher.finish()

    def _consume(self) -> None:
        sock, acks = self._consumer.sock, AckBlock(1)
        self._consumer.set_timeout(1)
        size = len(frames.delivery("c", 1, "", "long", CONTENT.properties, CONTENT.body))
        received = 0
        while not self.stopping.is_set():
            try:
                data = sock.recv(1 << 19)
            except BlockingIOError:
                continue
            if not data:
                raise EOFError("the broker closed the consumer's connection")
            first, received = received // size, received + len(data)
            for piece in acks.cut(first + 1, received // size):
                sock.sendall(piece)
            self.consumed = received // size
        sock.close()

    def stop(self) -> None:
        self.stopping.set()
        for one in self._threads:
            one.join()


def process_figures(node: Node) -> dict[str, float]:
    assert node.process is not None
    place = Path(f"/proc/{node.process.pid}")
    found = re.search(r"VmRSS:\s+(\d+)", (place / "status").read_text())
    assert found is not None
    return {"rss_mib": round(int(found[1]) / 1024, 1), "files": len(os.listdir(place / "fd"))}


def database_figures(server: MariaDb, name: str) -> dict[str, float]:
    with server.connect(name) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT SUM(file_size) FROM information_schema.innodb_sys_tablespaces"
            " WHERE name LIKE %s",
            (f"{name}/%",),
        )
        [(size,)] = cursor.fetchall()
        cursor.execute("SELECT COUNT(*), SUM(LENGTH(data)) FROM hr_block")
        [(blocks, content)] = cursor.fetchall()
        cursor.execute("SHOW ENGINE INNODB STATUS")
        history = re.search(r"History list length (\d+)", cursor.fetchall()[0][2])
        cursor.execute("SHOW GLOBAL STATUS LIKE 'Binlog_bytes_written'")
        [(_, written)] = cursor.fetchall()
        cursor.execute("PURGE BINARY LOGS BEFORE NOW()")  # hours of it would fill the disk
    return {
        "tables_mib": round(int(size or 0) / (1 << 20), 1),
        "blocks": int(blocks),
        "content_mib": round(int(content or 0) / (1 << 20), 1),
        "purge_history": int(history[1]) if history else -1,
        "binlog_mib": round(int(written) / (1 << 20), 1),
    }


def main(minutes: float, rate: float, file: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="headrace-long-") as place:
        server = prepare(Path(place), "--log-bin", "--binlog-format=ROW", "--server-id=1",
                         "--max-binlog-size=64M")  # fmt: skip
        try:
            server.create_database("long_run")
            with nodes(Path(place), server.url("long_run"), "ab", lease=5) as shared:
                for node in shared.all:
                    node.start()
                active = shared.active()
                [standby] = [node for node in shared.all if node is not active]
                load = Load(active.amqp, rate)
                end = time.monotonic() + minutes * 60
                while time.monotonic() < end:
                    time.sleep(min(60, max(0.1, end - time.monotonic())))
                    figures = database_figures(server, "long_run")
                    line = {
                        "minutes": round(minutes - (end - time.monotonic()) / 60, 1),
                        "confirmed": load.confirmed, "consumed": load.consumed,
                        "slowest_s": round(load.slowest_s, 2),
                        "active": process_figures(active), "standby": process_figures(standby),
                        **figures,
                        "binlog_per_byte": round(
                            figures["binlog_mib"] * (1 << 20) / max(1, load.confirmed * SIZE), 2
                        ),
                    }  # fmt: skip
                    with file.open("a", encoding="utf-8") as sink:
                        sink.write(json.dumps(line) + "\n")
                load.stop()
        finally:
            server.stop()


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(float(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3]))
