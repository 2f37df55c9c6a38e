"""`headrace top` and `headrace doctor` against a running broker."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from headrace.testing import wait_for
from support import brokers
from support.brokers import Broker

ODD = "[/red] \x1b[31m"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    broker = brokers.start(tmp_path_factory.mktemp("inspected"))
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare(ODD, durable=True)
    for _ in range(3):
        channel.basic_publish("", ODD, b"x", pika.BasicProperties(delivery_mode=2))
    connection.close()
    yield broker
    broker.stop()


def command(broker: Broker, *words: str) -> list[str]:
    url = f"http://127.0.0.1:{broker.ports['http']}"
    return [sys.executable, "-m", "headrace", *words, "--url", url]


def test_top_shows_names_that_look_like_markup(shop: Broker, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    running = subprocess.Popen(command(shop, "top"), stdout=theirs, stderr=theirs, stdin=theirs)
    os.close(theirs)
    seen = b""

    def shown() -> bool:
        nonlocal seen
        seen += os.read(ours, 65536)
        return b"[/red] \\x1b[31m" in seen and b"ready" in seen

    try:
        wait_for(shown)
        assert running.poll() is None
    finally:
        running.terminate()
        running.wait(20)
        os.close(ours)
    assert b"Traceback" not in seen


def test_top_prints_one_table_into_a_pipe(shop: Broker) -> None:
    done = subprocess.run(command(shop, "top", "--json"), capture_output=True, check=True)
    (queue,) = json.loads(done.stdout)
    assert (queue["name"], queue["ready"], queue["consumers"]) == (ODD, 3, 0)


def test_doctor_names_the_queue_without_consumers(shop: Broker) -> None:
    done = subprocess.run(
        command(shop, "doctor", "--seconds", "0"), capture_output=True, text=True, check=True
    )
    assert "no-consumers: queue [/red] \\x1b[31m: 3 ready messages" in done.stdout
