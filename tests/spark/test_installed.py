"""As users install it: wheels into a fresh environment, a few lines of Python, Spark Connect."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.bulk.client import BulkConnection
from headrace.client.settings import Settings
from headrace.testing import RunningBroker, run_broker, wait_for
from headrace.wire.native.payloads import Op
from support.ports import free_port

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
TOP = Path(__file__).parents[2]
JOB = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.{builder}.getOrCreate()
rows = spark.read.format("headrace").options(url="{url}", queue="q").load()
print("rows", rows.count(), rows.selectExpr("sum(cast(string(body) as int))").collect()[0][0])
"""
USE = "import headrace.spark\nheadrace.spark.use(spark)\n"


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheels of `make build`. Needs a package index."""
    place = tmp_path_factory.mktemp("fresh")
    pip = [sys.executable, "-m", "pip", "--quiet"]
    for command in (
        [*pip, "wheel", "--no-deps", "--wheel-dir", "dist", "."],
        [sys.executable, "scripts/build_jar.py"],
        [sys.executable, "-m", "venv", str(place)],
        [str(place / "bin" / "pip"), "--quiet", "install", "--find-links", "dist",
         "headrace[spark]", "pyspark[connect]"],
    ):  # fmt: skip
        done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
    return place / "bin" / "python"


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with run_broker() as broker, BulkConnection(Settings(port=broker.native_port)) as bulk:
        bulk.call(Op.QUEUE_DECLARE, name="q", durable=True)
        rows = [{"exchange": "", "key": "q", "body": b"%d" % n,
                 "properties": {"delivery_mode": 2}} for n in range(100)]  # fmt: skip
        bulk.call(Op.PUBLISH, batch=rows)
        yield broker


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Not activated; `python3` of the PATH, which Spark starts, is of no use."""
    (tmp_path / "python3").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "python3").chmod(0o755)
    hidden = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH", "SPARK_HOME", "VIRTUAL_ENV")
    known = {name: one for name, one in os.environ.items() if name not in hidden}
    return known | {"PATH": f"{tmp_path}:/usr/bin:/bin", "SPARK_LOCAL_IP": "127.0.0.1"}


def run(python: Path, place: Path, environment: dict[str, str], text: str) -> str:
    job = place / "job.py"
    job.write_text(text)
    done = subprocess.run([str(python), "job.py"], cwd=place, env=environment, capture_output=True,
                          text=True, timeout=300, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


def test_a_few_lines_read_a_queue(
    fresh: Path, broker: RunningBroker, tmp_path: Path, environment: dict[str, str]
) -> None:
    job = JOB.format(builder="master('local[1]')", url=broker.native_url)
    assert run(fresh, tmp_path, environment, job) == "rows 100 4950"


@contextmanager
def connect_server(python: Path, place: Path, environment: dict[str, str]) -> Iterator[str]:
    """Of the pip package; the url for clients."""
    port, log = free_port(), place / "server.log"
    command = [str(python.parent / "spark-submit"), "--master", "local[1]",
               "--conf", f"spark.connect.grpc.binding.port={port}",
               "--conf", "spark.connect.grpc.binding.address=127.0.0.1",
               "--conf", "spark.ui.enabled=false",
               "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]  # fmt: skip
    with log.open("wb") as sink:
        process = subprocess.Popen(command, stdout=sink, stderr=sink, env=environment, cwd=place)
    try:
        wait_for(lambda: "Spark Connect server started" in log.read_text(errors="replace"), 120)
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


@pytest.mark.parametrize("in_session", [False, True])
def test_the_same_over_spark_connect(
    fresh: Path,
    broker: RunningBroker,
    tmp_path: Path,
    environment: dict[str, str],
    in_session: bool,
) -> None:
    """The server has the jar, or gets it with the session."""
    with connect_server(fresh, tmp_path, environment) as url:
        job = JOB.format(builder=f"remote('{url}')", url=broker.native_url)
        if in_session:
            job = job.replace("rows =", USE + "rows =", 1)
        assert run(fresh, tmp_path, environment, job) == "rows 100 4950"
