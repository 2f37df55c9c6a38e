"""Rows as record batches of a bounded size."""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Protocol

import numpy as np
import pyarrow as pa

from headrace.bulk.decode.gather import Bytes, Places, is_constant, pick_text
from headrace.bulk.decode.queue_messages import ContentColumns
from headrace.bulk.decode.records import (
    MalformedContent,
    MessageRows,
    Records,
    portions,
    rows_of,
)
from headrace.bulk.decode.schema import COLUMNS, schema_of
from headrace.bulk.decode.topic_entries import EntryColumns
from headrace.bulk.read_plan import ReadPlan
from headrace.errors import StoreError
from headrace.model.record_columns import RecordColumns
from headrace.wire.record_layout import RECORD_HEAD_SIZE

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


# What is worked on at once: it is passed over several times, and should stay near the processor.
PORTION_BYTES = 3 << 20
_POPULATE_READ = 22  # MADV_POPULATE_READ of Linux 5.14
_NEAR = 1 << 18  # bytes between records are read too if they are not more
# A sync of the log waits behind what the disk was asked for before: so little, and by one thread.
_READ_BYTES = 512 << 10
_disk = Lock()


def batches_of(job: ReadPlan, segments: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """In order; StoreError when something is damaged. ``segments`` are descriptors, one per piece;
    they may be closed when the iterator has ended."""
    for one, fd in zip(job.pieces, segments, strict=True):
        for data, part in portions_of(job, one, fd):
            rows, damaged = rows_of(data, part)
            if damaged:
                raise StoreError(
                    f"messages of {job.source} cannot be read, the first has offset {damaged[0]}: "
                    "their checksums are wrong. run `headrace fsck`; nothing behind them was read"
                )
            try:
                yield from cut(rows, job.source, job.partition, job.columns, _decoder(job))
            except MalformedContent as error:
                raise StoreError(
                    f"messages of {job.source} cannot be read, the first has offset {error.offset}:"
                    " its content is malformed; nothing behind it was read"
                ) from None


def portions_of(
    job: ReadPlan, packed: RecordColumns[bytes], fd: int
) -> Iterator[tuple[Bytes, Records]]:
    """The records of a segment, mapped and a few megabytes at a time."""
    mapping = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
    data: Bytes = np.frombuffer(mapping, np.uint8)
    columns = packed.map(lambda one: np.frombuffer(one, np.uint64).astype(np.int64))
    if not len(columns.positions):
        return
    at = columns.positions - columns.base
    _read_ahead(mapping, fd, at, at + RECORD_HEAD_SIZE, job)
    for part in portions(data, columns._replace(positions=at), PORTION_BYTES):
        sizes = data[: len(data) // 4 * 4].view(np.uint32)[part.positions // 4 + 1]
        _read_ahead(mapping, fd, part.positions, part.positions + sizes, job)
        yield data, part


def _read_ahead(mapping: mmap.mmap, fd: int, starts: Places, stops: Places, job: ReadPlan) -> None:
    """Read these bytes and map their pages. StoreError when the disk cannot read one: to touch it
    then would end the process with SIGBUS."""
    edges = np.flatnonzero(starts[1:] > stops[:-1] + _NEAR) + 1
    firsts = starts[np.r_[0, edges]] // mmap.PAGESIZE * mmap.PAGESIZE
    ends = np.minimum(stops[np.r_[edges - 1, len(stops) - 1]], len(mapping))
    for start, stop in zip(firsts.tolist(), ends.tolist(), strict=True):
        try:
            for at in range(start, stop, _READ_BYTES):
                size = min(_READ_BYTES, stop - at)
                with _disk:  # and without the GIL, which mapping holds
                    os.posix_fadvise(fd, at, size, os.POSIX_FADV_WILLNEED)
                    os.pread(fd, 1, at + size - 1)
                mapping.madvise(_POPULATE_READ, at, size)
        except OSError as error:
            if error.errno == errno.EINVAL:
                return  # this kernel does not know it
            raise StoreError(
                f"messages of {job.source} cannot be read: the disk fails at byte {start} of a "
                "segment, or behind it. `headrace fsck` names them; nothing behind them was read"
            ) from error


def _decoder(job: ReadPlan) -> ColumnDecoder:
    if job.kind == "topic":
        return lambda rows: EntryColumns(rows, job.lane)
    return ContentColumns
