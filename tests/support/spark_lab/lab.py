"""A source that grows, a sink, and everything between them that can be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import pika
import pyarrow as pa

from headrace import topics
from headrace.bulk.client import BulkConnection
from headrace.client.settings import Settings
from headrace.demo.broker import lasting_ports
from headrace.topics.topic_tables import Priority, TopicTables
from headrace.wire.native.payloads import Op
from support import brokers, mariadb
from support.spark_lab.processes import java_of
from support.spark_lab.sessions import SRC, STARTUP, TESTS

LANES = ("low", "middle", "high")


def bodies_in(bulk: BulkConnection, topic: str) -> list[bytes]:
    """Of all messages, partition by partition in their order."""
    found: list[bytes] = []
    for partition, there in bulk.sources([{"topic": topic}])[0].ranges.items():
        pieces: list[bytes] = []
        for piece in bulk.fetch(
            there.first, there.end, topic=topic, partition=partition, columns=["body"]
        ):
            if piece:
                pieces.append(piece)
            elif pieces:
                table = pa.ipc.open_stream(b"".join(pieces)).read_all()
                found += table.column("body").to_pylist()
                pieces = []
    return found


class Server(Protocol):
    """What holds source and sink: a broker, or a database."""

    url: str

    def grow(self, numbers: range) -> None: ...
    def received(self) -> list[bytes]: ...
    def kill(self) -> None: ...
    def stop(self) -> None: ...
    def check_cleaned(self) -> None: ...


class BrokerServer:
    """The queue or topic ``in``, the topic ``out``.

    Segments are small and the topic keeps little, so that the log is compacted and removed behind
    the pin all the time."""

    settings = ("--segment-size", "64KiB")

    def __init__(self, directory: Path, kind: str) -> None:
        self.directory = directory
        self.kind = kind
        self.is_pinned = False  # by a query: consumers may take messages away
        self.broker = self._started(lasting_ports()["native"])
        with self.bulk() as bulk:
            bulk.call(Op.TOPIC_DECLARE, name="out", queues=2)
            if kind == "topic":
                bulk.call(Op.TOPIC_DECLARE, name="in", queues=3, retention="50KB")

    def _started(self, port: int) -> brokers.Broker:
        return brokers.start(self.directory, "--native-port", str(port), *self.settings)

    @property
    def url(self) -> str:
        return f"headrace://guest:guest@127.0.0.1:{self.broker.native_port}/"

    def bulk(self) -> BulkConnection:
        return BulkConnection(Settings(port=self.broker.native_port))

    def grow(self, numbers: range) -> None:
        if self.kind == "topic":
            rows = [{"priority": LANES[n % 3], "key": str(n), "body": b"%d" % n} for n in numbers]
            with self.bulk() as bulk:
                bulk.call(Op.APPEND, topic="in", batch=rows)
        else:
            self._publish(numbers)

    def _publish(self, numbers: range) -> None:
        connection = pika.BlockingConnection(pika.URLParameters(self.broker.url))
        channel = connection.channel()
        channel.queue_declare("in", durable=True)
        channel.confirm_delivery()
        for number in numbers:
            properties = pika.BasicProperties(delivery_mode=2, message_id=f"m{number}")
            channel.basic_publish("", "in", b"%d" % number, properties)
        # A consumer is faster than the query: its pin holds what it has not read.
        while self.is_pinned and channel.basic_get("in", auto_ack=True)[0] is not None:
            pass
        connection.close()

    def received(self) -> list[bytes]:
        with self.bulk() as bulk:
            return bodies_in(bulk, "out")

    def kill(self) -> None:
        self.broker.kill()
        self.broker = self._started(self.broker.native_port)

    def stop(self) -> None:
        self.broker.stop()

    def check_cleaned(self) -> None:
        """What was read, and not kept for anybody, is gone from the log."""
        with self.bulk() as bulk:
            found = bulk.sources([{self.kind: "in"}])[0]
        assert all(there.complete > 0 for there in found.ranges.values() if there.end), found


class DatabaseServer:
    """The topics ``in`` and ``out`` of a MariaDB."""

    is_pinned = True  # it makes no difference

    def __init__(self, directory: Path) -> None:
        self.server = mariadb.prepared(directory)
        self.server.create_database("lab")
        self.url = self.server.url("lab")
        with topics.open(self.url) as store:
            store.create("in", queues=2)
            store.create("out")

    def grow(self, numbers: range) -> None:
        new = [topics.NewMessage(b"%d" % n, priority=LANES[n % 3], ref_key=str(n)) for n in numbers]
        with topics.open(self.url) as store:
            store.producer("in", token="appid-1").append_many(new)

    def received(self) -> list[bytes]:
        found: list[bytes] = []
        with TopicTables(self.url) as tables, self.server.connect("lab") as connection:
            for priority in Priority:
                with connection.cursor() as cursor:
                    # Past the mark too: what is doubled there counts as well.
                    cursor.execute(tables.bulk.query("out", priority, 0, 1 << 62, ["body"]).rows)
                    found += [row[0] for row in cursor.fetchall()]
        return found

    def kill(self) -> None:
        self.server.kill()
        self.server.start()

    def stop(self) -> None:
        self.server.stop()

    def check_cleaned(self) -> None:
        pass


class Driver:
    """The program and its Java."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def wait_until_started(self) -> bool:
        assert self.process.stdout is not None
        return self.process.stdout.readline() == b"started\n"

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """Python and Java at once; executors of a cluster find out by themselves."""
        for pid in (*java_of(self.process.pid), self.process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> None:
        """Everything that is left."""
        self.kill()
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


class Lab:
    """Messages are the numbers from 0 on. ``route``: queue-delta, topic-topic, mysql-mysql, ..."""

    def __init__(
        self,
        directory: Path,
        *,
        route: str = "queue-topic",
        shape: str = "copy",
        master: str = "local[2,4]",
    ) -> None:
        self.directory = directory
        self.kind, self.form = route.split("-")
        self.shape = shape
        self.master = master
        is_database = self.kind == "mysql"
        self.server: Server = (
            DatabaseServer(directory) if is_database else BrokerServer(directory, self.kind)
        )
        self.sent = 0

    def grow(self, count: int) -> None:
        if isinstance(self.server, BrokerServer) and self.received():
            self.server.is_pinned = True
        self.server.grow(range(self.sent, self.sent + count))
        self.sent += count

    @contextmanager
    def driver(self, mode: str, rows_per_task: int = 300) -> Iterator[Driver]:
        told = {
            "master": self.master,
            "url": self.server.url,
            "kind": "queue" if self.kind == "queue" else "topic",
            "source": "in",
            "form": "delta" if self.form == "delta" else "topic",
            "sink": str(self.table) if self.form == "delta" else "out",
            "checkpoint": str(self.directory / "checkpoint"),
            "shape": self.shape,
            "mode": mode,
            "rows_per_task": str(rows_per_task),
        }
        command = [sys.executable, "-m", "support.spark_lab.driver", json.dumps(told)]
        log = (self.directory / "driver.log").open("ab")
        with log, subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=log,
            env=os.environ | {"PYTHONPATH": f"{SRC}:{STARTUP}:{TESTS}"},
            start_new_session=True,
        ) as process:  # fmt: skip
            driver = Driver(process)
            try:
                yield driver
            finally:
                driver.end()

    def log(self) -> str:
        return (self.directory / "driver.log").read_text(errors="replace")[-4000:]

    @property
    def table(self) -> Path:
        return self.directory / "table"

    def received(self) -> list[bytes]:
        """The bodies in the sink."""
        if self.form != "delta":
            return self.server.received()
        from deltalake import DeltaTable

        if not (self.table / "_delta_log").exists():
            return []
        return list(DeltaTable(str(self.table)).to_pyarrow_table()["body"].to_pylist())

    def check(self) -> None:
        """Every message once; or every count once, up to the right one."""
        if self.shape == "copy":
            found, wanted = Counter(self.received()), Counter(b"%d" % n for n in range(self.sent))
            assert (sorted(found - wanted), sorted(wanted - found)) == ([], [])
            return
        counts: dict[str, list[int]] = {}
        for row in map(json.loads, self.received()):
            counts.setdefault(row["digit"], []).append(row["n"])
        expected = Counter(str(n)[-1] for n in range(self.sent))
        assert {digit: max(seen) for digit, seen in counts.items()} == dict(expected)
        assert all(len(set(seen)) == len(seen) for seen in counts.values())
