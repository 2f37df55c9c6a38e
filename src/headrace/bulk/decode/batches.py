"""Rows as record batches of a bounded size."""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterator, Sequence
from threading import Lock

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
from headrace.wire.record_layout import RECORD_HEAD_SIZE, SIZE_AT

BATCH_BYTES = 4 << 20
BATCH_ROWS = 65_536


def cut(rows: MessageRows, job: ReadPlan) -> Iterator[pa.RecordBatch]:
    """In order; about BATCH_BYTES each, and at least one row."""
    schema = schema_of(job.columns)
    ends = np.cumsum(rows.lengths)
    low = 0
    while low < len(rows):
        before = int(ends[low - 1]) if low else 0
        high = int(np.searchsorted(ends, before + BATCH_BYTES, side="right"))
        high = min(max(high, low + 1), low + BATCH_ROWS, len(rows))
        part = rows.part(low, high)
        own = EntryColumns(part, job.lane) if job.kind == "topic" else ContentColumns(part)
        arrays = [_column(name, part, job, own) for name in job.columns]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        low = high


def _column(
    name: str, rows: MessageRows, job: ReadPlan, own: EntryColumns | ContentColumns
) -> pa.Array:
    n = len(rows)
    if name == "source":
        return pa.repeat(pa.scalar(job.source, pa.string()), n)
    if name == "partition":
        return pa.array(np.full(n, job.partition, np.int32))
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
        segment = MappedSegment(job.source, fd)
        for part in segment.portions(one, PORTION_BYTES):
            segment.read(part)
            rows, damaged = rows_of(segment.data, part)
            if damaged:
                raise StoreError(
                    f"messages of {job.source} cannot be read, the first has offset {damaged[0]}: "
                    "their checksums are wrong. run `headrace fsck`; nothing behind them was read"
                )
            try:
                yield from cut(rows, job)
            except MalformedContent as error:
                raise StoreError(
                    f"messages of {job.source} cannot be read, the first has offset {error.offset}:"
                    " its content is malformed; nothing behind it was read"
                ) from None


class MappedSegment:
    """The file of a segment. What is to be touched must be read first: a disk that cannot read it
    is an error then, and would end the process with SIGBUS later."""

    def __init__(self, source: str, fd: int) -> None:
        self._source = source
        self._fd = fd
        self._mapping = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
        self.data: Bytes = np.frombuffer(self._mapping, np.uint8)

    def portions(self, packed: RecordColumns[bytes], size: int) -> Iterator[Records]:
        """Records of about ``size`` bytes at a time, of which the sizes are read."""
        columns = packed.map(lambda one: np.frombuffer(one, np.uint64).astype(np.int64))
        if not len(columns.positions):
            return
        at = columns.positions - columns.base
        self.read_ahead(at, at + RECORD_HEAD_SIZE)
        yield from portions(self.data, columns._replace(positions=at), size)

    def read(self, part: Records, size_at: int = SIZE_AT) -> None:
        """Read the records, or with HEAD_SIZE_AT only their heads."""
        words = self.data[: len(self.data) // 4 * 4].view(np.uint32)
        self.read_ahead(part.positions, part.positions + words[(part.positions + size_at) // 4])

    def read_ahead(self, starts: Places, stops: Places) -> None:
        """Read these bytes and map their pages."""
        edges = np.flatnonzero(starts[1:] > stops[:-1] + _NEAR) + 1
        firsts = starts[np.r_[0, edges]] // mmap.PAGESIZE * mmap.PAGESIZE
        ends = np.minimum(stops[np.r_[edges - 1, len(stops) - 1]], len(self._mapping))
        for start, stop in zip(firsts.tolist(), ends.tolist(), strict=True):
            try:
                for at in range(start, stop, _READ_BYTES):
                    size = min(_READ_BYTES, stop - at)
                    with _disk:  # and without the GIL, which mapping holds
                        os.posix_fadvise(self._fd, at, size, os.POSIX_FADV_WILLNEED)
                        os.pread(self._fd, 1, at + size - 1)
                    self._mapping.madvise(_POPULATE_READ, at, size)
            except OSError as error:
                if error.errno == errno.EINVAL:
                    return  # this kernel does not know it
                raise StoreError(
                    f"messages of {self._source} cannot be read: the disk fails at byte {start} of "
                    "a segment, or behind it. `headrace fsck` names them; nothing behind them was "
                    "read"
                ) from error
