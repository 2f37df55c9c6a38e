"""More clients than files may be open: they are turned away, and the log goes on."""

from __future__ import annotations

import json
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pika
import pytest
from pika.exceptions import AMQPError

from headrace.bulk.client import BulkConnection
from headrace.client.settings import Settings
from headrace.testing import wait_for
from headrace.wire.native.payloads import Op
from support import brokers
from support.brokers import Broker

ALLOWED = 100


@contextmanager
def cramped_broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker with few descriptors and small segments."""
    ready, output = tmp_path / "ready.json", tmp_path / "output.txt"
    ports = [f"--{one}-port=0" for one in ("amqp", "native", "http", "namesrv", "remoting")]
    serve = [sys.executable, "-m", "headrace", "serve", *ports, "--segment-size", "64KiB"]
    serve += ["--data-dir", str(tmp_path / "data"), "--ready-file", str(ready)]
    serve += ["--max-unauthenticated-per-address", "1000"]
    limited = ["bash", "-c", f'ulimit -Sn 60 && ulimit -Hn {ALLOWED} && exec "$@"', "-", *serve]
    with output.open("wb") as sink:
        process = subprocess.Popen(limited, stdout=sink, stderr=sink, env=brokers._environment({}))
    wait_for(lambda: ready.exists() or process.poll() is not None, timeout=60)
    assert process.returncode is None, output.read_text()
    found = json.loads(ready.read_text())
    yield Broker(found["amqp"], ports=found, process=process, pid=process.pid, output=output)
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0, output.read_text()
    ready.unlink()


@pytest.fixture
def cramped(tmp_path: Path) -> Iterator[Broker]:
    with cramped_broker(tmp_path) as broker:
        yield broker


def test_many_connections_leave_descriptors_for_the_commit_log(cramped: Broker) -> None:
    with ExitStack() as crowd, pika.BlockingConnection(pika.URLParameters(cramped.url)) as known:
        channel = known.channel()
        channel.queue_declare("q", durable=True)
        channel.confirm_delivery()
        for port in (cramped.ports["amqp"], cramped.ports["native"], cramped.ports["namesrv"]):
            for _ in range(ALLOWED):
                crowd.enter_context(socket.create_connection((cramped.host, port)))
        wait_for(lambda: f"refused: {ALLOWED} open files are allowed" in cramped.log())

        for _ in range(20):  # several segments
            properties = pika.BasicProperties(delivery_mode=2)
            channel.basic_publish("", "q", b"x" * 20_000, properties)

        page = f"http://{cramped.host}:{cramped.ports['http']}/healthz"
        assert httpx.get(page).json() == {"status": "ok", "alarm": None}
    for line in ("Traceback", "storage has failed", "cannot look"):
        assert line not in cramped.log()

    def is_welcome() -> bool:
        try:
            pika.BlockingConnection(pika.URLParameters(cramped.url)).close()
        except AMQPError:
            return False
        return True

    assert wait_for(is_welcome)


def test_without_descriptors_publishers_wait(cramped: Broker) -> None:
    assert cramped.pid is not None
    assert httpx.get(f"http://{cramped.host}:{cramped.ports['http']}/healthz").is_success
    allowed = resource.prlimit(cramped.pid, resource.RLIMIT_NOFILE)
    parameters = pika.URLParameters(cramped.url)
    with pika.BlockingConnection(parameters) as one, pika.BlockingConnection(parameters) as other:
        reasons: list[str] = []
        one.add_on_connection_blocked_callback(lambda _, frame: reasons.append(frame.method.reason))
        one.add_on_connection_unblocked_callback(lambda _, frame: reasons.append("unblocked"))
        channel = one.channel()
        channel.queue_declare("q", durable=True)
        channel.basic_publish("", "q", b"first")
        assert channel.queue_declare("q", passive=True).method.message_count == 1

        resource.prlimit(cramped.pid, resource.RLIMIT_NOFILE, (10, allowed[1]))
        assert wait_for(lambda: one.process_data_events(0) or reasons) == [
            "low on file descriptors"
        ]
        assert other.channel().basic_get("q", auto_ack=True)[2] == b"first"  # others go on
        resource.prlimit(cramped.pid, resource.RLIMIT_NOFILE, allowed)
        wait_for(lambda: one.process_data_events(0) or reasons[1:])
        assert reasons[1:] == ["unblocked"]

        channel.confirm_delivery()
        channel.basic_publish("", "q", b"second")
    assert "alarm: low on file descriptors; publishers are blocked" in cramped.log()
    assert "storage has failed" not in cramped.log()


def test_the_journal_may_have_more_files_than_a_process_may_open(tmp_path: Path) -> None:
    count = ALLOWED + 20
    with cramped_broker(tmp_path) as broker:
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            channel.queue_declare("q", durable=True)
            channel.confirm_delivery()
            for number in range(count):
                properties = pika.BasicProperties(delivery_mode=2)
                channel.basic_publish("", "q", b"%3d," % number * 12_000, properties)
        assert len(list((tmp_path / "data" / "journal").glob("*.log"))) > ALLOWED
        broker.kill()

    with cramped_broker(tmp_path) as broker:
        with BulkConnection(Settings(port=broker.native_port)) as bulk:
            pieces = list(bulk.fetch(0, count, queue="q", columns=["offset", "body"]))
            located = bulk.call(Op.LOCATE, start=0, end=count, queue="q", seeds=True)
        assert sum(map(len, pieces)) > count * 48_000
        assert all(Path(one[0]).exists() for one in located["files"])
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            for number in range(count):
                _, _, body = channel.basic_get("q", auto_ack=True)
                assert body is not None and body.startswith(b"%3d," % number)
        assert "Traceback" not in broker.log()
