"""How `make test` spreads the tests over worker processes (pytest-xdist)."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

RECORDED = Path(__file__).parents[1] / "durations.txt"
"""Seconds that files of tests take, written by `pytest --record-durations`."""

COUNTING = (
    "tests/integration/client/test_aio.py",
    "tests/integration/client/test_connection_lifecycle.py",
    "tests/integration/native/test_locate.py",
    "tests/integration/native/test_staging.py",
    "tests/integration/testing/",
    "tests/unit/",
)
"""Tests that count threads, descriptors or memory: not in a process in which Spark has run."""


def is_spark(file: str) -> bool:
    return file.startswith("tests/spark/")


class FileScheduling(LoadFileScheduling):
    """One worker runs all tests of a file; the files that take longest are started first.

    Half of the workers begin with the tests of Spark, with one session each: a JVM in every worker
    would need more memory than a laptop has. Afterwards they run what does not count the threads
    and descriptors of its process, because Spark leaves some.
    """

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        self._seconds = recorded()
        self._spark_nodes: set[WorkerController] = set()

    def _assign_work_unit(self, node: WorkerController) -> None:
        file = self._next_file(node)
        if file is None:
            node.shutdown()  # as soon as it has run what it has
            return
        if is_spark(file):
            self._spark_nodes.add(node)
        self.workqueue.move_to_end(file, last=False)
        super()._assign_work_unit(node)

    def _next_file(self, node: WorkerController) -> str | None:
        spark = [file for file in self.workqueue if is_spark(file)]
        others = [file for file in self.workqueue if not is_spark(file)]
        alone = len(self.nodes) == 1
        is_free = len(self._spark_nodes & set(self.nodes)) < self.numnodes // 2
        if node in self._spark_nodes and not alone:
            files = spark or [file for file in others if not file.startswith(COUNTING)]
        elif alone:
            files = others or spark
        else:
            files = spark if spark and is_free else others
        return max(files, key=self._expected, default=None)

    def _expected(self, file: str) -> tuple[float, int]:
        return self._seconds.get(file, 0.0), len(self.workqueue[file])

    def _reschedule(self, node: WorkerController) -> None:
        work = self.assigned_work[node]
        for file in [file for file, tests in work.items() if all(tests.values())]:
            del work[file]  # else every test that ends is a walk over all tests that have ended
        super()._reschedule(node)


def recorded() -> dict[str, float]:
    lines = RECORDED.read_text().splitlines() if RECORDED.exists() else []
    return {file: float(seconds) for seconds, file in (line.split() for line in lines)}


class DurationRecorder:
    """Writes the files that took longest to `durations.txt` when the tests have run."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid.split("::")[0]] += report.duration

    def pytest_sessionfinish(self) -> None:
        longest = sorted(self._seconds.items(), key=lambda item: -item[1])
        lines = [f"{seconds:.0f} {file}\n" for file, seconds in longest if seconds >= 2]
        RECORDED.write_text("".join(lines))
