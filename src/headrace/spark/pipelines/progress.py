"""Figures of running queries from Spark's progress, and the line that shows them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, TextIO

from headrace.spark.offsets import StreamOffset


@dataclass(slots=True)
class QueryFigures:
    """One query. Counts are those of this run."""

    sink: str
    batch: int = -1
    rows: int = 0
    input_rows_per_second: float = 0.0
    rows_per_second: float = 0.0
    batch_ms: int = 0
    lag: int = 0
    late_rows: int = 0

    def take(self, progress: Mapping[str, Any]) -> bool:
        """Add a progress report of Spark; True when it has a new batch with rows."""
        batch = int(progress.get("batchId", -1))
        self.lag = lag_of(progress)
        if batch <= self.batch:
            return False
        self.batch = batch
        rows = int(progress.get("numInputRows") or 0)
        self.rows += rows
        self.input_rows_per_second = round(float(progress.get("inputRowsPerSecond") or 0.0), 1)
        self.rows_per_second = round(float(progress.get("processedRowsPerSecond") or 0.0), 1)
        self.batch_ms = int((progress.get("durationMs") or {}).get("triggerExecution") or 0)
        for one in progress.get("stateOperators") or ():
            self.late_rows += int(one.get("numRowsDroppedByWatermark") or 0)
        return rows > 0


def lag_of(progress: Mapping[str, Any]) -> int:
    """Messages that are there and not read, over all sources."""
    return sum(_behind(one) for one in progress.get("sources") or ())


def _behind(source: Mapping[str, Any]) -> int:
    try:
        read = StreamOffset.from_json(source["endOffset"])
        there = StreamOffset.from_json(source["latestOffset"])
    except Exception:
        return 0  # missing, or of another source
    return sum(
        max(0, end - read.sources[name].next.get(part, 0))
        for name, one in there.sources.items()
        if name in read.sources
        for part, end in one.next.items()
    )


class ProgressLine:
    """A line that is written over on a terminal; JSON lines, one per batch, otherwise."""

    def __init__(self, pipeline: str, stream: TextIO | None = None) -> None:
        self._pipeline = pipeline
        self._stream = stream if stream is not None else sys.stderr
        self._live = self._stream.isatty()
        self._width = 0

    def batch(self, figures: QueryFigures) -> None:
        if not self._live:
            record = {"pipeline": self._pipeline, **asdict(figures)}
            self._stream.write(json.dumps(record) + "\n")
            self._stream.flush()

    def line(self, queries: list[QueryFigures], bad: int) -> None:
        if not self._live:
            return
        main = max(queries, key=lambda one: one.rows)
        text = (
            f"{self._pipeline}: {main.rows:,} rows, {main.rows_per_second:,.0f}/s, "
            f"lag {max(one.lag for one in queries):,}, batch {main.batch} ({main.batch_ms} ms)"
        )
        text += f", {bad:,} bad records" if bad else ""
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)

    def end(self) -> None:
        if self._live and self._width:
            self._stream.write("\n")
            self._stream.flush()
