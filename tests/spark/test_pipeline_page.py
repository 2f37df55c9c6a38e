"""The commands of the page about pipelines, as they are printed."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing import RunningBroker, run_broker
from support.spark_lab.examples import EXAMPLES, load_example

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]
ROOT = EXAMPLES.parent
SRC = ROOT / "src"
PROGRAMS = {"headrace": ["-m", "headrace"], "python": []}


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    with run_broker() as broker:
        yield broker


def commands(page: str, heading: str) -> list[list[str]]:
    """Of the first block below a heading."""
    chapter = (ROOT / page).read_text("utf-8").partition(heading)[2]
    block = re.search(r"```(?:sh|text)\n(.*?)```", chapter, re.S)
    assert block is not None
    return [shlex.split(line.removeprefix(".venv/bin/")) for line in block[1].splitlines()]


def test_pipelines_run_as_the_page_prints_them(broker: RunningBroker, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("out"))
    env = {
        **os.environ,
        "PYTHONPATH": str(SRC),
        "HEADRACE_URL": f"headrace://guest:guest@127.0.0.1:{broker.native_port}/",
        "HEADRACE_STATE_DIR": str(tmp_path / "state"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    output = {}
    for program, *arguments in commands("docs/spark-pipelines.md", "## Examples"):
        done = subprocess.run(
            [sys.executable, *PROGRAMS[program], *arguments],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, (arguments, done.stdout, done.stderr[-2000:])
        assert "Traceback" not in done.stderr
        output[" ".join(arguments[:2])] = done.stdout
    revenue = [json.loads(line) for line in output["topic read"].splitlines()]
    assert len(revenue) == 5
    assert set(revenue[0]) == {"minute", "country", "orders", "revenue"}
    letters = sum(
        job.fate != "done" for job in load_example("pipelines/make_failures.py").jobs(500)
    )
    sql = next(text for name, text in output.items() if name.startswith("sql"))
    counted = {row["source"]: row["messages"] for row in map(json.loads, sql.splitlines())}
    assert (counted["orders"], counted["clicks"]) == (2050, 2000)
    assert counted["jobs.dead"] == letters
    assert counted["revenue"] > 5
