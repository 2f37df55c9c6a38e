"""A shared broker on Galera beside RabbitMQ's quorum queues, three nodes each, in turns.

    python tests/bench/shared_vs_rabbitmq.py [ROUNDS] [SECONDS]

Publish, confirm, consume and acknowledge 256 bytes with 1 and with 4 pairs, and the time to a
confirm at 200 messages per second. All six nodes and the load are on this machine.
"""

from __future__ import annotations

import os
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import pika

from headrace.bench.brokers import find_rabbitmq
from headrace.bench.cases import PREFETCH, WINDOW, Case
from headrace.bench.load.amqp_connection import AmqpConnection
from headrace.bench.load.measures import measure_flow
from headrace.bench.target import AmqpAddress, Timing
from headrace.testing import wait_for
from headrace.wire.amqp import methods as m
from support.galera import run_galera
from support.nodes import nodes
from support.ports import free_port

QUORUM = {"x-queue-type": "quorum"}
FLOWS = [
    Case(name=f"{pairs} pair(s)", about="", body=256, pairs=pairs, durable=True, window=WINDOW,
         consumers=1, manual_ack=True, prefetch=PREFETCH)
    for pairs in (1, 4)
]  # fmt: skip


def declare_quorum(self: AmqpConnection, name: str, *, durable: bool = False) -> None:
    self._call(m.QueueDeclare(queue=name, durable=True, arguments=QUORUM), m.QueueDeclareOk)


@dataclass
class Peer:
    """A broker to measure; nothing is asked of its processes."""

    name: str
    port: int
    restartable = False
    generator_cores: tuple[int, ...] = ()
    pids: tuple[int, ...] = ()

    @property
    def address(self) -> AmqpAddress:
        return AmqpAddress("127.0.0.1", self.port)


def confirm_latencies(port: int, seconds: float) -> list[float]:
    """Milliseconds to each confirm, at 200 messages per second."""
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
    channel = connection.channel()
    channel.queue_declare("latency", durable=True, arguments=QUORUM)
    channel.confirm_delivery()
    properties = pika.BasicProperties(delivery_mode=2)
    found = []
    due = time.monotonic()
    end = due + seconds
    while due < end:
        connection.sleep(max(0, due - time.monotonic()))
        began = time.monotonic()
        channel.basic_publish("", "latency", bytes(256), properties)
        found.append((time.monotonic() - began) * 1000)
        due += 1 / 200
    channel.queue_delete("latency")
    connection.close()
    return found


@contextmanager
def rabbitmq(home: Path) -> Iterator[Peer]:
    """Three nodes, joined."""
    program = find_rabbitmq()
    assert program is not None, "rabbitmq-server is not installed"
    (home / ".erlang.cookie").write_text(secrets.token_hex(16))
    (home / ".erlang.cookie").chmod(0o400)
    shutil.chown(home, "root")
    mapper = str(free_port())
    names = [f"hr{os.getpid()}-{number}@localhost" for number in range(3)]
    started: list[subprocess.Popen[bytes]] = []
    epmd = subprocess.Popen(["epmd", "-address", "127.0.0.1", "-port", mapper])
    ports = []
    try:
        for name in names:
            ports.append(free_port())
            place = home / name.partition("@")[0]
            place.mkdir()
            (place / "rabbitmq.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{ports[-1]}\n")
            (place / "plugins").write_text("[].\n")
            env = {
                **os.environ, "HOME": str(home), "ERL_EPMD_PORT": mapper,
                "ERL_EPMD_ADDRESS": "127.0.0.1", "RABBITMQ_NODENAME": name,
                "RABBITMQ_MNESIA_BASE": str(place / "mnesia"),
                "RABBITMQ_LOG_BASE": str(place / "log"),
                "RABBITMQ_CONFIG_FILE": str(place / "rabbitmq.conf"),
                "RABBITMQ_ENABLED_PLUGINS_FILE": str(place / "plugins"),
                "RABBITMQ_PID_FILE": str(place / "pid"),
                "RABBITMQ_DIST_PORT": str(free_port()),
            }  # fmt: skip
            with (place / "output").open("wb") as sink:
                started.append(subprocess.Popen([program], env=env, stdout=sink, stderr=sink))

            def ctl(*args: str, name: str = name, env: dict[str, str] = env) -> bool:
                command = [program.replace("rabbitmq-server", "rabbitmqctl"), "-n", name, *args]
                return subprocess.run(command, env=env, capture_output=True).returncode == 0

            wait_for(lambda ctl=ctl: ctl("await_startup"), timeout=120)  # type: ignore[misc]
            if name != names[0]:
                for step in (("stop_app",), ("join_cluster", names[0]), ("start_app",)):
                    assert ctl(*step), step
        yield Peer("RabbitMQ quorum x3", ports[0])
    finally:
        for one in started:
            one.terminate()
        for one in started:
            with suppress(subprocess.TimeoutExpired):
                one.wait(30)
        epmd.kill()
        epmd.wait()


def main(rounds: int, seconds: float) -> None:
    AmqpConnection.declare_queue = declare_quorum  # type: ignore[method-assign]
    figures: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as place, run_galera() as galera:
        with galera.nodes[0].connect(None) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE beside")
        (Path(place) / "rabbitmq").mkdir()
        with (
            nodes(Path(place), galera.url("beside"), "abc", lease=5) as shared,
            rabbitmq(Path(place) / "rabbitmq") as other,
        ):
            for node in shared.all:
                node.start()
            ours = Peer("Headrace shared, Galera x3", shared.active().amqp)
            for _ in range(rounds):
                for peer in (other, ours):
                    for case in FLOWS:
                        flow = measure_flow(peer, case, Timing(1.0, seconds))
                        figures.setdefault((case.name, peer.name), []).append(flow.value)
                    found = sorted(confirm_latencies(peer.port, seconds))
                    for what, at in (("p50", 0.5), ("p99", 0.99)):
                        key = (f"confirm at 200/s {what}, ms", peer.name)
                        figures.setdefault(key, []).append(found[int(len(found) * at)])
            for (what, name), values in figures.items():
                sys.stdout.write(
                    f"{what:28} {name:28} median {statistics.median(values):10.2f}  {values}\n"
                )


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 3, float(sys.argv[2]) if sys.argv[2:] else 4.0)
