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
    query: str
    attempt: str
    rows: int


class _Writer:
    """What both kinds of writer share. It travels to executors: options only, no connections."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        super().__init__()
        check_schema(schema, options)
        self.options = options

    @property
    def sink(self) -> StagedSink:
        return sink_of(self.options)

    def stage(self, query: str, batch: int, batches: Iterator[pa.RecordBatch]) -> StagedTask:
        """One attempt of one task: only those that the driver names are published."""
        attempt = f"{_context().partitionId()}-{uuid.uuid4().hex[:12]}"
        return StagedTask(query, attempt, self.sink.stage(query, batch, attempt, batches))


class BatchWriter(_Writer, DataSourceArrowWriter):
    """df.write: appends. With an idempotency key, once, however often it is repeated."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise BadOption("messages can only be appended: use .mode('append')")
        super().__init__(options, schema)
        self.query = f"batch:{options.idempotency_key or f'once-{uuid.uuid4().hex}'}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self.stage(self.query, 0, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self.sink.publish(self.query, 0, _attempts(_staged(messages)))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self.sink.discard(self.query, 0)


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """df.writeStream: every batch once, also when Spark repeats it."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = _context()
        query = f"stream:{context.getLocalProperty(QUERY_PROPERTY)}"
        return self.stage(query, int(context.getLocalProperty(BATCH_PROPERTY) or 0), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        if staged := _staged(messages):
            self.sink.publish(staged[0].query, batchId, _attempts(staged))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        if staged := _staged(messages):
            self.sink.discard(staged[0].query, batchId)


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[StagedTask]:
    return [one for one in messages if isinstance(one, StagedTask)]


def _attempts(staged: list[StagedTask]) -> list[str]:
    return [one.attempt for one in staged if one.rows]


def _context() -> Any:  # noqa: ANN401 - pyspark's own
    context = TaskContext.get()
    assert context is not None, "rows are staged by tasks"
    return context
