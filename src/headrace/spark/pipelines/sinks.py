"""Where the batches of a query go: each batch once, however often Spark repeats it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headrace.spark.foreach_batch import BatchSink, MessageSink, into, need
from headrace.spark.lake.delta import (
    WRITTEN_DDL,
    WrittenFile,
    commit,
    is_committed,
    merge,
    open_table,
    write_files,
)
from headrace.spark.pipelines.model import SinkSpec
from headrace.spark.pipelines.mysql_sink import MySqlTableSink
from headrace.spark.row_output import show_rows

SHOWN_ROWS = 20


@dataclass(frozen=True, slots=True)
class DeltaSink:
    """A Delta table: rows are appended, or replaced by their keys."""

    path: str
    partition_by: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    def check(self, frame: DataFrame) -> None:
        need(frame, (*self.keys, *self.partition_by), "delta")

    def write(self, frame: DataFrame, query: str, batch: int) -> None:
        schema = to_arrow_schema(frame.schema, timezone="UTC")
        table = open_table(self.path, pa.schema([one.with_nullable(True) for one in schema]),
                           self.partition_by)  # fmt: skip
        if is_committed(table, query, batch):
            return
        if self.keys:
            merge(table, frame.toArrow(), self.keys, query, batch)
            return
        write = partial(write_files, root=self.path, partition_by=self.partition_by)
        rows = frame.mapInArrow(write, WRITTEN_DDL).collect()
        commit(table, [WrittenFile(**row.asDict()) for row in rows], {query: batch})


@dataclass(frozen=True, slots=True)
class ConsoleSink:
    """The first rows of every batch, for people."""

    name: str

    def check(self, frame: DataFrame) -> None:
        pass

    def write(self, frame: DataFrame, query: str, batch: int) -> None:
        rows = frame.limit(SHOWN_ROWS + 1).collect()
        if rows:
            show_rows(frame.columns, rows[:SHOWN_ROWS], title=f"{self.name}, batch {batch}",
                      more=len(rows) > SHOWN_ROWS)  # fmt: skip


def sink_for(spec: SinkSpec) -> BatchSink | None:
    """None for parquet, which Spark writes itself."""
    settings = dict(spec.settings)
    if spec.type == "delta":
        return DeltaSink(settings["path"], spec.partition_by, spec.keys)
    if spec.type == "mysql":
        return MySqlTableSink(settings["url"], settings["table"], spec.keys)
    if spec.type in ("exchange", "topic"):
        return MessageSink(settings)
    return ConsoleSink(spec.name) if spec.type == "console" else None


def attached(frame: DataFrame, spec: SinkSpec) -> DataStreamWriter:
    """A writer for the stream that puts its batches into the sink."""
    sink = sink_for(spec)
    if sink is None:
        writer = frame.writeStream.format("parquet").option("path", spec.settings["path"])
        return writer.partitionBy(*spec.partition_by) if spec.partition_by else writer
    sink.check(frame)
    return frame.writeStream.outputMode(spec.mode).foreachBatch(into(sink))


def check_sink(frame: DataFrame, spec: SinkSpec) -> None:
    """Without writing anything or connecting to a server."""
    sink = sink_for(spec)
    if sink is not None:
        sink.check(frame)
    else:
        need(frame, spec.partition_by, spec.type)
