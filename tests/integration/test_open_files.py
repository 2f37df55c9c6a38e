"""More clients than files may be open: they are turned away, and the journal goes on."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pika
import pytest
from pika.exceptions import AMQPError

import brokers
from brokers import Broker
from waiting import wait_for

ALLOWED = 100


@pytest.fixture
def cramped(tmp_path: Path) -> Iterator[Broker]:
    """A broker with few descriptors and small segments."""
    ready, output = tmp_path / "ready.json", tmp_path / "output.txt"
    ports = [f"--{one}-port=0" for one in ("amqp", "native", "http", "namesrv", "remoting")]
    serve = [sys.executable, "-m", "headrace", "serve", *ports, "--segment-size", "1MiB"]
    serve += ["--data-dir", str(tmp_path / "data"), "--ready-file", str(ready)]
    serve += ["--max-unauthenticated-per-address", "1000"]
    limited = ["bash", "-c", f'ulimit -Sn 60 && ulimit -Hn {ALLOWED} && exec "$@"', "-", *serve]
    with output.open("wb") as sink:
        process = subprocess.Popen(limited, stdout=sink, stderr=sink, env=brokers._environment({}))
    wait_for(lambda: ready.exists() or process.poll() is not None, timeout=60)
    found = json.loads(ready.read_text())
    yield Broker(found["amqp"], ports=found, process=process, pid=process.pid, output=output)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0, output.read_text()


def test_a_crowd_of_clients_leaves_the_journal_its_files(cramped: Broker) -> None:
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
            channel.basic_publish("", "q", b"x" * 200_000, properties)

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
