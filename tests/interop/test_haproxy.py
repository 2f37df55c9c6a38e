"""deploy/haproxy.cfg in front of a shared broker: clients know one address only."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from support.mariadb import MariaDb
from support.nodes import Nodes, nodes
from support.ports import free_port
from support.toolchain import unavailable

pytestmark = pytest.mark.interop
EXAMPLE = Path(__file__).parents[2] / "deploy" / "haproxy.cfg"


@contextmanager
def haproxy(directory: Path, shared: Nodes) -> Iterator[int]:
    """Runs the example with other addresses; gives its port."""
    program = shutil.which("haproxy") or "/usr/sbin/haproxy"
    if not Path(program).exists():
        unavailable("haproxy is not installed: apt-get install haproxy")
    port = free_port()
    text = EXAMPLE.read_text().replace("bind :5672", f"bind 127.0.0.1:{port}")
    for node in shared.all:
        there = f"server {node.name} 127.0.0.1:{node.amqp} port {node.http}"
        text, count = re.subn(rf"server {node.name} \S+", there, text)
        assert count == 1
    text = re.sub(r"(?m)^ *server \w 10\..*\n", "", text)
    config = directory / "haproxy.cfg"
    config.write_text(text)
    with subprocess.Popen([program, "-f", str(config)]) as process:
        try:
            yield port
        finally:
            process.terminate()


def connected(port: int) -> BlockingChannel:
    """Until it succeeds: HAProxy looks once a second which node is active."""
    deadline = time.monotonic() + 20
    while True:
        with suppress(pika.exceptions.AMQPError):
            connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare("orders", durable=True)
            return channel
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize("is_orderly", [False, True])
def test_one_address_leads_to_the_active_node(
    tmp_path: Path, mariadb_server: MariaDb, *, is_orderly: bool
) -> None:
    database = f"haproxy_{uuid4().hex[:8]}"
    mariadb_server.create_database(database)
    with nodes(tmp_path, mariadb_server.url(database), "ab") as shared:
        for node in shared.all:
            node.start()
        first = shared.active()
        with haproxy(tmp_path, shared) as port:
            channel = connected(port)
            channel.basic_publish("", "orders", b"1", pika.BasicProperties(delivery_mode=2))
            began = time.monotonic()
            first.stop() if is_orderly else first.kill()
            with pytest.raises(pika.exceptions.AMQPError):
                channel.basic_publish("", "orders", b"lost")
                channel.connection.process_data_events(5)
            channel = connected(port)
            seconds = time.monotonic() - began
            channel.basic_publish("", "orders", b"2", pika.BasicProperties(delivery_mode=2))
            assert channel.basic_get("orders", auto_ack=True)[2] == b"1"
            channel.connection.close()
    print(f"another node behind the same address after {seconds:.1f} s")  # noqa: T201
