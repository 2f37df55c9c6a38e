"""`headrace archive`, killed in the middle of its work: every message is in the table once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from headrace.client import ConnectionFactory
from headrace.testing import RunningBroker, run_broker, wait_for

SECONDS = 240.0


class Feeder(threading.Thread):
    """Publishes and consumes at once: what is archived was acknowledged long before."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port
        self.count = 0
        self.enough = threading.Event()

    def run(self) -> None:
        with ConnectionFactory("127.0.0.1", self._port).new_connection() as connection:
            channel = connection.create_channel()
            channel.basic_consume("fed", True, lambda *_: None)
            while not self.enough.wait(0.05):
                bodies = range(self.count, self.count + 20)
                channel.publish_batch(("", "fed", {"delivery_mode": 2}, b"%d" % n) for n in bodies)
                self.count += 20


def archive(broker: RunningBroker, place: Path, *more: str) -> subprocess.Popen[bytes]:
    source = str(Path(__file__).parents[2] / "src")
    env = os.environ | {"PYTHONPATH": source, "HEADRACE_STATE_DIR": str(place / "state")}
    url = f"headrace://guest:guest@127.0.0.1:{broker.native_port}/"
    command = [sys.executable, "-m", "headrace", "archive", "--lake", str(place / "lake"),
               "--url", url, "--master", "local[2]", "--every", "0.1",
               "--conf", "spark.driver.memory=1g", *more]  # fmt: skip
    return subprocess.Popen(command, env=env, start_new_session=True)


def archived(place: Path) -> list[int]:
    from deltalake import DeltaTable

    try:
        table = DeltaTable(str(place / "lake" / "messages"))
    except Exception:
        return []  # not made yet
    return [int(body) for body in table.to_pyarrow_table()["body"].to_pylist()]


@pytest.mark.chaos
def test_a_killed_archiver_loses_and_doubles_nothing(tmp_path: Path) -> None:
    chance = random.Random(5)
    with run_broker() as broker:
        assert broker.native_port is not None
        with ConnectionFactory("127.0.0.1", broker.native_port).new_connection() as connection:
            connection.create_channel().queue_declare("fed", durable=True)
        first = archive(broker, tmp_path, "--once")  # from now on the broker holds
        assert first.wait(SECONDS) == 0
        feeder = Feeder(broker.native_port)
        feeder.start()
        try:
            for _ in range(2):
                before = len(archived(tmp_path))
                process = archive(broker, tmp_path)
                wait_for(
                    lambda before=before: len(archived(tmp_path)) > before,  # type: ignore[misc]
                    timeout=SECONDS,
                )
                feeder.enough.wait(chance.random())  # into the middle of a later round
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        finally:
            feeder.enough.set()
            feeder.join()
        last = archive(broker, tmp_path, "--once")
        assert last.wait(SECONDS) == 0
    assert sorted(archived(tmp_path)) == list(range(feeder.count))
