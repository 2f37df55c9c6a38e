"""Flower's page of queues, and kombu's management client; each in a Python of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pika
import pytest

from headrace.testing import RunningBroker, run_broker, wait_for
from support.ports import free_port
from support.toolchain import cache_for, fetch

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

HERE = Path(__file__).parent / "celery"
PACKAGES = ("celery==5.7.0", "flower==2.2.0", "pyrabbit==1.1.0", "setuptools<81")


@pytest.fixture(scope="session")
def python() -> Path:
    """A Python that has these tools, made once."""
    target = cache_for("celery", *(package.encode() for package in PACKAGES))
    program = target / "bin" / "python"
    if not (target / "complete").exists():
        fetch([sys.executable, "-m", "venv", str(target)], HERE)
        fetch([str(program), "-m", "pip", "install", "--quiet", *PACKAGES], HERE)
        (target / "complete").touch()
    return program


@pytest.fixture
def managed() -> Iterator[RunningBroker]:
    with run_broker(sync=False) as running:
        yield running


def clean_environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return kept | more


def test_kombus_manager_works(python: Path, managed: RunningBroker) -> None:
    command = [str(python), str(HERE / "manager.py"), str(managed.amqp_port)]
    done = subprocess.run(
        [*command, str(managed.http_port)],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.stdout.endswith("done\n"), done.stderr  # pyrabbit prints every address it asks


@contextmanager
def flower(python: Path, broker: RunningBroker, log: Path) -> Iterator[str]:
    port = free_port()
    url = f"amqp://guest:guest@127.0.0.1:{broker.amqp_port}//"
    api = f"http://guest:guest@127.0.0.1:{broker.http_port}/api/"
    command = [str(python), "-m", "celery", "-A", "tasks", "flower", "--address=127.0.0.1",
               f"--port={port}", f"--broker-api={api}"]  # fmt: skip
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=HERE,
            env=clean_environment(BROKER_URL=url, PYTHONDONTWRITEBYTECODE="1"),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(30)


def page(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return str(answer.read().decode())
    except OSError as error:
        return str(error)


def cells(html: str) -> list[str]:
    """What stands in the cells of the table."""
    return [one.strip() for one in re.findall(r"<td[^>]*>(.*?)</td>", html, re.DOTALL)]


def test_flower_shows_the_queues(python: Path, managed: RunningBroker, tmp_path: Path) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(managed.amqp_url))
    channel = connection.channel()
    channel.queue_declare("celery", durable=True)  # where Celery's tasks wait
    for _ in range(3):
        channel.basic_publish("", "celery", json.dumps([[], {}, {}]).encode())
    try:
        with flower(python, managed, tmp_path / "flower.log") as url:
            wait_for(lambda: "Flower" in page(f"{url}/"), timeout=60)
            wait_for(lambda: cells(page(f"{url}/broker"))[:5] == ["celery", "3", "0", "3", "0"],
                     timeout=30)  # fmt: skip
    finally:
        connection.close()
