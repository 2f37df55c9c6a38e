"""Who is told to begin with a new checkpoint is told which directory is the old one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from headrace.spark.pipelines.run import PipelineRunner


def runner(directory: Path, checkpoint: str | None = None) -> PipelineRunner:
    pipeline: Any = SimpleNamespace(name="revenue", checkpoint=checkpoint)
    spark: Any = None
    return PipelineRunner(spark, pipeline, directory)


def test_the_directory_is_that_of_all_sinks(tmp_path: Path) -> None:
    told = runner(tmp_path)._with_place("queue 'q' was created again. Start with a new checkpoint")
    assert told.endswith(f"(remove {tmp_path}/checkpoints/revenue)")
    chosen = runner(tmp_path, "/lake/revenue")
    assert "(remove /lake/revenue)" in chosen._with_place("use a new checkpoint")
    assert chosen._checkpoint("sink") == "/lake/revenue/sink"


def test_other_reasons_are_left_as_they_are(tmp_path: Path) -> None:
    assert runner(tmp_path)._with_place("no such column") == "no such column"
