"""Writers of the data source: tasks stage their rows, the driver publishes all of them at once.

Staged rows are not visible. Publishing is one atomic step, done once per (query, batch): a
batch that is repeated after a crash changes nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from headrace.spark.errors import BadOption
from headrace.spark.options import WriteOptions
from headrace.spark.row_mapping import check_schema
from headrace.spark.sink import StagedSink, sink_of

QUERY_PROPERTY = "sql.streaming.queryId"
BATCH_PROPERTY = "streaming.sql.batchId"


@dataclass
class StagedTask(WriterCommitMessage):
    """What one task has staged."""

    query: str
    attempt: str
    rows: int


class BatchWriter(DataSourceArrowWriter):
    """df.write: appends. With an idempotency key, once, however often it is repeated."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        super().__init__()
        if overwrite:
            raise BadOption("messages can only be appended: use .mode('append')")
        check_schema(schema, options)
        self.options = options
        self.query = options.idempotency_key or f"once-{uuid.uuid4().hex}"

    @property
    def sink(self) -> StagedSink:
        return sink_of(self.options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _stage(self.sink, f"batch:{self.query}", 0, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _publish(self.sink, f"batch:{self.query}", 0, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self.sink.discard(f"batch:{self.query}", 0)


class StreamWriter(DataSourceStreamArrowWriter):
    """df.writeStream: every batch once, also when Spark repeats it."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        super().__init__()
        check_schema(schema, options)
        self.options = options

    @property
    def sink(self) -> StagedSink:
        return sink_of(self.options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = _context()
        query = f"stream:{context.getLocalProperty(QUERY_PROPERTY)}"
        batch = int(context.getLocalProperty(BATCH_PROPERTY) or 0)
        return _stage(self.sink, query, batch, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        staged = [one for one in messages if isinstance(one, StagedTask)]
        if staged:
            _publish(self.sink, staged[0].query, batchId, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        staged = [one for one in messages if isinstance(one, StagedTask)]
        if staged:
            self.sink.discard(staged[0].query, batchId)


def _stage(
    sink: StagedSink, query: str, batch: int, batches: Iterator[pa.RecordBatch]
) -> WriterCommitMessage:
    """One attempt of one task: only those that the driver names are published."""
    attempt = f"{_context().partitionId()}-{uuid.uuid4().hex[:12]}"
    return StagedTask(query, attempt, sink.stage(query, batch, attempt, batches))


def _publish(
    sink: StagedSink, query: str, batch: int, messages: Sequence[WriterCommitMessage | None]
) -> None:
    staged = [one for one in messages if isinstance(one, StagedTask)]
    sink.publish(query, batch, [one.attempt for one in staged if one.rows])


def _context() -> Any:  # noqa: ANN401 - pyspark's own
    context = TaskContext.get()
    assert context is not None, "rows are staged by tasks"
    return context
