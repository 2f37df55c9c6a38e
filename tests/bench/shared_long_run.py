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
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from headrace.client import ConnectionFactory, HeadraceError
from headrace.testing.mariadb import MariaDb, prepare
from support.nodes import Node, Nodes, nodes

SIZE = 256
TURN_S = 0.05


class Load:
    """One publisher at a rate, and one consumer."""

    def __init__(self, shared: Nodes, rate: float) -> None:
        hosts = ",".join(f"127.0.0.1:{one.native}" for one in shared.all)
        self._factory = ConnectionFactory(host=hosts, request_timeout=30)
        self._rate = rate
        self.confirmed = self.consumed = 0
        self.slowest_s = 0.0
        self.stopping = threading.Event()
        with self._factory.new_connection() as connection:
            connection.create_channel().queue_declare("long", durable=True)
        self._threads = [threading.Thread(target=one) for one in (self._publish, self._consume)]
        for one in self._threads:
            one.start()

    def _publish(self) -> None:
        began, sent = time.monotonic(), 0
        with self._factory.new_connection() as connection:
            channel = connection.create_channel()
            while not self.stopping.wait(TURN_S):
                due = int((time.monotonic() - began) * self._rate) - sent
                sent += due
                started = time.monotonic()
                with suppress(HeadraceError):
                    channel.publish_batch(
                        ("", "long", {"delivery_mode": 2}, bytes(SIZE)) for _ in range(due)
                    )
                    self.confirmed += due
                self.slowest_s = max(self.slowest_s, time.monotonic() - started)

    def _consume(self) -> None:
        with self._factory.new_connection() as connection:
            channel = connection.create_channel()
            while not self.stopping.is_set():
                with suppress(HeadraceError):
                    for delivery in channel.deliveries("long", idle_timeout=1):
                        delivery.ack()
                        self.consumed += 1

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
                load = Load(shared, rate)
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
