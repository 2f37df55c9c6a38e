"""Rows as record batches of a bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from headrace.bulk.decode.gather import Places, is_constant, pick_text
from headrace.bulk.decode.records import MessageRows
from headrace.bulk.decode.schema import COLUMNS, schema_of

BATCH_BYTES = 4 << 20
BATCH_ROWS = 65_536


class ColumnSource(Protocol):
    """What a kind of destination knows about its own contents."""

    def make(self, name: str) -> pa.Array: ...


class ColumnDecoder(Protocol):
    def __call__(self, rows: MessageRows) -> ColumnSource: ...


def cut(
    rows: MessageRows, source: str, partition: int, columns: Sequence[str], decode: ColumnDecoder
) -> Iterator[pa.RecordBatch]:
    """In order; about BATCH_BYTES each, and at least one row."""
    schema = schema_of(columns)
    ends = np.cumsum(rows.lengths)
    low = 0
    while low < len(rows):
        before = int(ends[low - 1]) if low else 0
        high = int(np.searchsorted(ends, before + BATCH_BYTES, side="right"))
        high = min(max(high, low + 1), low + BATCH_ROWS, len(rows))
        part = rows.part(low, high)
        own = decode(part)
        arrays = [_column(name, part, source, partition, own) for name in columns]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        low = high


def _column(
    name: str, rows: MessageRows, source: str, partition: int, own: ColumnSource
) -> pa.Array:
    n = len(rows)
    if name == "source":
        return pa.repeat(pa.scalar(source, pa.string()), n)
    if name == "partition":
        return pa.array(np.full(n, partition, np.int32))
    if name == "offset":
        return pa.array(rows.offsets)
    if name == "timestamp":
        return pa.array((rows.records.times * 1000)[rows.record]).view(COLUMNS["timestamp"])
    if name == "exchange":
        return _of_records(rows, rows.records.exchange_starts, rows.records.exchange_lengths)
    if name == "routing_key":
        return _of_records(rows, rows.records.key_starts, rows.records.key_lengths)
    return own.make(name)


def _of_records(rows: MessageRows, starts: Places, lengths: Places) -> pa.Array:
    """Text that the messages of a record share: looked at once per record."""
    low, high = int(rows.record[0]), int(rows.record[-1]) + 1
    texts = pick_text(rows.data, starts[low:high], lengths[low:high])
    if is_constant(rows.data, starts[low:high], lengths[low:high]):
        return pa.repeat(texts[0], len(rows))
    return texts.take(pa.array(rows.record - low))
