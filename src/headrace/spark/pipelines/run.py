"""`headrace pipeline run`: the queries of a pipeline, and their pins at the end."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headrace.spark import spark_session
from headrace.spark.backends.base import backend_of
from headrace.spark.errors import (
    BadOption,
    PipelineFailed,
    SinkRefused,
    SourceChanged,
    SparkError,
    reason_in,
    reason_of,
)
from headrace.spark.foreach_batch import into
from headrace.spark.lake.delta import count_rows, last_rows
from headrace.spark.offsets import StreamOffset
from headrace.spark.options import ReadOptions, read_options
from headrace.spark.pipelines.model import BAD_RECORDS, Pipeline
from headrace.spark.pipelines.progress import ProgressLine, QueryFigures
from headrace.spark.pipelines.sinks import DeltaSink, attached
from headrace.spark.pipelines.status import Reporter, State, write_state
from headrace.spark.pipelines.steps import Views, build, group_of, stream_of

ENDED = ("finished", "stopped", "failed")
POLL_SECONDS = 0.5
SHOWN_BAD, SHOWN_BYTES = 5, 300  # bad records in the status, and how much of each
BATCH_SECONDS = 60.0  # how long a batch may still take when it is time to stop


@dataclass(slots=True)
class _Query:
    """A running query and what is known of it."""

    query: StreamingQuery
    figures: QueryFigures

    def update(self) -> bool:
        """Add new progress reports; True when there was a batch."""
        last = self.query.lastProgress
        if last is None:
            return False
        if last.batchId <= self.figures.batch + 1:
            return self.figures.take(json.loads(last.json))
        recent = [json.loads(one.json) for one in self.query.recentProgress]
        return any([self.figures.take(one) for one in recent])


@dataclass(slots=True)
class PipelineRunner:
    """Runs one pipeline. ``stop`` may be set at any time, by a signal for example."""

    spark: SparkSession
    pipeline: Pipeline
    directory: Path  # of states, checkpoints and bad records
    once: bool = False
    stop: threading.Event = field(default_factory=threading.Event)
    shown: ProgressLine | None = None
    _queries: list[_Query] = field(default_factory=list)
    _since: str = ""
    _master: str | None = None
    _bad: int = 0
    _last_bad: list[dict[str, object]] = field(default_factory=list)

    @property
    def bad_records(self) -> str:
        """Where bad records are kept."""
        chosen = self.pipeline.bad_records
        return chosen or str(self.directory / BAD_RECORDS / self.pipeline.name)

    def run(self) -> State:
        """Run until ``stop`` is set, or with ``once`` until everything is read.

        PipelineFailed when a query fails; what was committed stays, a restart continues from there.
        """
        self._since = _now()
        self._master = self.spark.sparkContext.master
        self._count_bad()
        reporter = Reporter(self.pipeline)

        def report(name: str, error: str | None = None) -> State:
            state = self._state(name, error)
            write_state(self.directory, self.pipeline.name, state)
            reporter.report(state, now=name != "running")
            return state

        report("starting")
        try:
            self._start()
            self._follow(lambda: report("running"))
            self._finish()
            return report("stopped" if self.stop.is_set() else "finished")
        except (SparkError, PySparkException) as error:
            self._halt()
            reason = reason_of(error)
            report("failed", reason)
            if isinstance(error, SparkError):
                raise
            raise PipelineFailed(f"pipeline {self.pipeline.name}: {reason}") from error
        except (Py4JError, ConnectionError, EOFError):
            reason = spark_session.java_exit_reason(spark_session.JAVA_EXIT_SECONDS)
            if not reason:
                raise
            report("failed", reason)
            self._queries.clear()  # they ended with Java
            raise PipelineFailed(f"pipeline {self.pipeline.name}: {reason}") from None
        finally:
            self._halt()
            reporter.close()
            if self.shown is not None:
                self.shown.end()

    # -- start ----------------------------------------------------------------------------------

    def _start(self) -> None:
        for sink in self.pipeline.sinks:
            frame = self._views(sink.name).frames[sink.view]
            try:
                self._queries.append(self._begin(attached(frame, sink), sink.name))
            except (BadOption, SinkRefused, PySparkException) as error:
                text = f"sink '{sink.name}': {reason_of(error)}"
                raise self.pipeline.error(sink.line, text) from error
        if self.pipeline.can_fail:
            bad = _together(self._views(BAD_RECORDS))
            writer = bad.writeStream.foreachBatch(into(DeltaSink(self.bad_records)))
            self._queries.append(self._begin(writer, BAD_RECORDS))

    def _views(self, sink: str) -> Views:
        return build(self.spark, self.pipeline, stream_of(self.spark, self.pipeline, sink))

    def _with_place(self, reason: str) -> str:
        """A reason to start with a new checkpoint names the directory to remove: that of all sinks,
        as they have the same sources."""
        if "new checkpoint" not in reason:
            return reason
        return f"{reason} (remove {self._checkpoints})"

    @property
    def _checkpoints(self) -> str:
        pipeline = self.pipeline
        return pipeline.checkpoint or str(self.directory / "checkpoints" / pipeline.name)

    def _checkpoint(self, name: str) -> str:
        base = self._checkpoints
        return f"{base.rstrip('/')}/{name}"

    def _begin(self, writer: DataStreamWriter, name: str) -> _Query:
        pipeline = self.pipeline
        writer = writer.option("checkpointLocation", self._checkpoint(name))
        if self.once:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=pipeline.every)
        query = writer.queryName(f"{pipeline.name}.{name}").start()
        return _Query(query, QueryFigures(name))

    # -- while it runs --------------------------------------------------------------------------

    def _follow(self, report: Callable[[], State]) -> None:
        while not self.stop.wait(POLL_SECONDS):
            self._update()
            report()
            if not any(one.query.isActive for one in self._queries):
                return

    def _update(self) -> None:
        for one in self._queries:
            if one.update():  # a batch is done
                if one.figures.sink == BAD_RECORDS:
                    self._count_bad()
                if self.shown is not None:
                    self.shown.batch(one.figures)
            failed = None if one.query.isActive else one.query.exception()
            if failed is not None:
                raise PipelineFailed(
                    f"pipeline {self.pipeline.name}, {one.figures.sink}: "
                    f"{self._with_place(reason_in(str(failed)))}"
                )
        if self.shown is not None:
            queries = [one.figures for one in self._queries if one.figures.sink != BAD_RECORDS]
            self.shown.line(queries, self._bad)

    def _count_bad(self) -> None:
        """Those of earlier runs too."""
        self._bad = count_rows(self.bad_records)
        self._last_bad = [_shown(row) for row in last_rows(self.bad_records, SHOWN_BAD)]

    def _finish(self) -> None:
        """The batches under way end; no new ones are waited for."""
        begun = {one.figures.sink: one.figures.batch for one in self._queries}
        waiting = threading.Event()
        for _ in range(int(BATCH_SECONDS / POLL_SECONDS)):
            self._update()
            if all(self._is_idle(one, begun[one.figures.sink]) for one in self._queries):
                break
            waiting.wait(POLL_SECONDS)
        self._halt()
        self._update()
        for one in self._queries:
            release(self.spark, self.pipeline, one.figures.sink, self._checkpoint(one.figures.sink))

    @staticmethod
    def _is_idle(one: _Query, begun: int) -> bool:
        if not one.query.isActive or one.figures.batch > begun:
            return True
        return not one.query.status["isTriggerActive"]

    def _halt(self) -> None:
        for one in self._queries:
            if one.query.isActive:
                one.query.stop()

    # -- what is known --------------------------------------------------------------------------

    def _state(self, state: str, error: str | None) -> State:
        if state in ENDED:
            for one in self._queries:
                one.figures.rows_per_second = one.figures.input_rows_per_second = 0.0
        return {
            "name": self.pipeline.name,
            "file": str(self.pipeline.file.resolve()),
            "state": state,
            "error": error,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "master": self._master,
            "started_at": self._since,
            "updated_at": _now(),
            "bad_records": self._bad,
            "last_bad": self._last_bad,
            "queries": [asdict(one.figures) for one in self._queries],
        }


def _together(views: Views) -> DataFrame:
    """The bad records of all sources."""
    frames = [
        frame.withColumn("view", F.lit(name)).withColumn("found_at", F.current_timestamp())
        for name, frame in views.bad.items()
    ]
    return reduce(DataFrame.unionByName, frames)


def _shown(row: Mapping[str, Any]) -> dict[str, object]:
    """A bad record as the page shows it."""
    body = bytes(row["body"] or b"")[:SHOWN_BYTES].decode("utf-8", "replace")
    found = {name: row[name] for name in ("source", "partition", "offset", "reason")}
    return {**found, "reason": str(found["reason"])[:SHOWN_BYTES], "body": body,
            "found_at": row["found_at"].isoformat(timespec="seconds")}  # fmt: skip


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def release(spark: SparkSession, pipeline: Pipeline, sink: str, checkpoint: str) -> None:
    """Move the pins of a query that has ended behind its last batch in the commit log.

    A broker that does not answer, or a checkpoint that cannot be read any more, leaves the batch
    held until the next run: no harm is done.
    """
    try:
        found = committed(spark, checkpoint)
    except (Py4JJavaError, PySparkException):
        return
    readers = [*_readers(pipeline, sink)]
    times = Counter((one.group, one.kind, one.names) for one in readers)
    for one in readers:
        fitting = [at for at in found if at.query == one.group and _names(at, one) == {*one.names}]
        # A source that is read twice has one pin for both readers: which is behind is unknown here.
        if len(fitting) == 1 and times[one.group, one.kind, one.names] == 1:
            with suppress(SparkError, OSError):
                backend_of(one).pin(fitting[0])


def _names(at: StreamOffset, options: ReadOptions) -> set[str]:
    """Of RocketMQ, each source is a topic at a broker."""
    known = {*options.names}
    return {name if name in known else name.rpartition("@")[0] for name in at.sources}


def _readers(pipeline: Pipeline, sink: str) -> Iterator[ReadOptions]:
    for source in pipeline.sources:
        yield read_options({**source.options, "group": group_of(pipeline, source, sink)})


def committed(spark: SparkSession, checkpoint: str) -> list[StreamOffset]:
    """Where the last batch that the commit log has ends; nothing without a batch."""
    jvm, java = spark._jvm, spark.sparkContext._jsc
    assert jvm is not None
    path = jvm.org.apache.hadoop.fs.Path(checkpoint, "commits")
    files = path.getFileSystem(java.hadoopConfiguration())
    if not files.exists(path):
        return []
    names = [one.getPath().getName() for one in files.listStatus(path)]
    batches = [int(name) for name in names if name.isdigit()]
    if not batches:
        return []
    stream = files.open(jvm.org.apache.hadoop.fs.Path(checkpoint, f"offsets/{max(batches)}"))
    try:
        text = jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
    finally:
        stream.close()
    return [*_offsets(text)]


def _offsets(text: str) -> Iterator[StreamOffset]:
    """A version, a line about the batch, then a line for each source; others than ours may be."""
    for line in text.splitlines()[2:]:
        with suppress(SourceChanged):
            yield StreamOffset.from_json(line)
