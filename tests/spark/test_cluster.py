"""The same stream on a standalone cluster: a master and two workers from the pip package."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from headrace.bulk.client import BulkConnection
from headrace.client.settings import Settings
from headrace.testing import run_broker
from headrace.wire.native.payloads import Op
from support.spark_lab import cluster
from support.spark_lab.lab import bodies_in

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.mark.parametrize("way", ["files", "network"])
def test_executors_read_and_write_in_parallel(tmp_path: Path, way: str) -> None:
    """By `network` executors share no file with the broker or with each other."""
    with (
        cluster.started(tmp_path) as here,
        run_broker() as broker,
        BulkConnection(Settings(port=broker.native_port)) as bulk,
    ):
        for name in ("source", "sink"):
            bulk.call(Op.TOPIC_DECLARE, name=name, queues=2)
        rows = [{"priority": "middle", "key": str(n), "body": b"%d" % n} for n in range(4000)]
        bulk.call(Op.APPEND, topic="source", batch=rows)
        url = f"headrace://guest:guest@127.0.0.1:{broker.native_port}/"
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "support.spark_lab.cluster_program",
                here.url,
                url,
                str(tmp_path / "checkpoint"),
                way,
            ],
            env=cluster.environment(),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        executors = done.stdout.splitlines()[-1].split()
        assert len(set(executors)) == 2, done.stdout
        assert Counter(bodies_in(bulk, "sink")) == Counter(b"%d" % n for n in range(4000))
