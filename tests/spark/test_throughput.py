"""What reading costs, as ratios within one run: programs of tests/bench, with limits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]
BENCH = Path(__file__).parents[1] / "bench"


def figures_of(program: str, place: Path, *arguments: str) -> Any:  # noqa: ANN401 - JSON
    file = place / "figures.json"
    done = subprocess.run(
        [sys.executable, str(BENCH / program), *arguments, str(file)],
        capture_output=True,
        text=True,
        timeout=1700,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    sys.stdout.write(done.stdout)  # shown when a limit is missed
    return json.loads(file.read_text())


def test_spark_reads_faster_than_from_parquet(tmp_path: Path) -> None:
    """By processor time per row, which a busy machine changes least."""
    figures = figures_of("spark_vs_parquet.py", tmp_path, "4000000", "3")
    ratios = {
        int(size): {name: cheaper for name, (_, _, _, cheaper) in cases.items()}
        for size, cases in figures.items()
    }
    for kind in ("topic", "queue with distinct ids"):
        assert ratios[100][f"{kind}, files"] >= 1.6
        assert ratios[100][f"{kind}, network"] >= 1.3
        assert ratios[1000][f"{kind}, files"] >= 1.2
        assert ratios[1000][f"{kind}, network"] >= 1.0
    assert ratios[100]["topic, three columns, files"] >= 1.5


def test_messages_go_on_beside_a_full_read(tmp_path: Path) -> None:
    found = figures_of("read_under_load.py", tmp_path, "2", "3", "6")
    assert found["share"] >= 0.5
    assert found["p99_beside_ms"] < 20
    assert found["anonymous_mb"] < 250
