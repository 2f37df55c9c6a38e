"""A standalone cluster from the pip package: a master and two workers on loopback."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from headrace.testing import wait_for
from support.spark_lab.processes import executors_of
from support.spark_lab.sessions import SRC, STARTUP, TESTS

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
WORKERS = 2
START_SECONDS = 400.0  # three Java processes, on a machine that others use as well


@dataclass(frozen=True)
class Cluster:
    """``url`` is the master's."""

    url: str
    workers: tuple[int, ...]  # their process ids

    def executors(self) -> list[int]:
        return [one for worker in self.workers for one in executors_of(worker)]


def environment() -> dict[str, str]:
    return {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": f"{SRC}:{STARTUP}:{TESTS}",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
    }


@contextmanager
def started(place: Path) -> Iterator[Cluster]:
    """Files and logs are in ``place``."""
    with ExitStack() as stack:
        log = place / "master.log"
        _start(stack, log, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1",
               "--port", "0", "--webui-port", "0")  # fmt: skip
        found: list[str] = []

        def is_up() -> bool:
            match = re.search(r"spark://127\.0\.0\.1:[1-9]\d*", log.read_text(errors="replace"))
            found[:] = [match[0]] if match else []
            return bool(found)

        wait_for(is_up, timeout=START_SECONDS)
        workers = [
            _start(stack, place / f"worker{number}.log",
                   "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1",
                   "--cores", "1", "--memory", "700m", "--webui-port", "0",
                   "--work-dir", str(place / f"work{number}"), found[0])
            for number in range(WORKERS)
        ]  # fmt: skip
        wait_for(
            lambda: log.read_text(errors="replace").count("Registering worker") == WORKERS,
            timeout=START_SECONDS,
        )
        yield Cluster(found[0], tuple(one.pid for one in workers))


def _start(stack: ExitStack, log: Path, *arguments: str) -> subprocess.Popen[bytes]:
    sink = stack.enter_context(log.open("wb"))
    command = [str(SPARK_CLASS), *arguments]
    process = subprocess.Popen(command, stdout=sink, stderr=sink, env=environment())

    def end() -> None:
        process.terminate()
        process.wait(30)

    stack.callback(end)
    return process
