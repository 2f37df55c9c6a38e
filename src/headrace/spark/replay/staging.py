"""What tasks do for a replay: blocks of messages are put aside, for the driver to publish."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa

from headrace.spark.backends.broker import connect, told
from headrace.spark.replay.request import BLOCK, ReplayRequest, replayed
from headrace.spark.row_mapping import rows_of
from headrace.spark.sink import portions

# Neighbouring offsets, sent in one step. Equal for the same messages whenever they are replayed.
PLACE = ("source_uuid", "partition", "number")
NEEDED = (*PLACE, "offset", "source", "routing_key", "key", "tags", "message_id", "priority",
          "properties", "body")  # fmt: skip
STAGED_DDL = "source_uuid string, partition int, number bigint, attempt string, rows bigint"
NUMBER_SQL = f"offset div {BLOCK}"


@dataclass(frozen=True, slots=True)
class StagedBlock:
    """A block that waits for its publication."""

    source_uuid: str
    partition: int
    number: int
    attempt: str
    rows: int

    def query(self, key: str) -> str:
        return query_of(key, self.source_uuid, self.partition)


def query_of(key: str, source_uuid: object, partition: object) -> str:
    return f"replay-{key}-{source_uuid}-{partition}"


@dataclass(frozen=True, slots=True)
class StagingTask:
    """Takes rows in the order of their places. It travels to executors."""

    url: str
    request: ReplayRequest
    key: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # The broker still has what a killed task has staged: under its name it would be sent too.
        attempt = uuid.uuid4().hex
        rows = (row for batch in batches for row in rows_of(batch))
        with connect(self.url) as connection, told():
            for place, block in groupby(rows, lambda row: tuple(row[name] for name in PLACE)):
                source_uuid, partition, number = place
                query, count = query_of(self.key, source_uuid, partition), 0
                for messages in portions(replayed(row, self.request) for row in block):
                    connection.stage(query, number, attempt, messages)
                    count += len(messages)
                yield _described(place, attempt, count)


def _described(place: tuple[object, ...], attempt: str, count: int) -> pa.RecordBatch:
    row: Mapping[str, object] = dict(zip(PLACE, place, strict=True))
    schema = pa.schema([("source_uuid", pa.string()), ("partition", pa.int32()),
                        ("number", pa.int64()), ("attempt", pa.string()),
                        ("rows", pa.int64())])  # fmt: skip
    return pa.RecordBatch.from_pylist([{**row, "attempt": attempt, "rows": count}], schema)
