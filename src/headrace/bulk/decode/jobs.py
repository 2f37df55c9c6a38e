"""A job carried out: from open segments to record batches."""

from __future__ import annotations

import errno
import mmap
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from headrace.bulk.decode.batches import ColumnDecoder, cut
from headrace.bulk.decode.gather import Bytes, Places
from headrace.bulk.decode.queue_messages import ContentColumns
from headrace.bulk.decode.records import Slice, portions, rows_of
from headrace.bulk.decode.topic_entries import EntryColumns
from headrace.bulk.read_plan import Piece, ReadPlan
from headrace.errors import StoreError
from headrace.store.disk import PAGE
from headrace.store.log.record import HEAD_SIZE

# What is worked on at once: it is passed over several times, and should stay near the processor.
PORTION_BYTES = 3 << 20
_POPULATE_READ = 22  # MADV_POPULATE_READ of Linux 5.14
_NEAR = 1 << 16  # pages between records are read too if they are not more


def batches_of(job: ReadPlan, segments: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """In order; StoreError when something is damaged. ``segments`` are descriptors, one per piece;
    they may be closed when the iterator has ended."""
    for piece, fd in zip(job.pieces, segments, strict=True):
        yield from _batches(job, piece, fd)


def _batches(job: ReadPlan, piece: Piece, fd: int) -> Iterator[pa.RecordBatch]:
    mapping = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
    data: Bytes = np.frombuffer(mapping, np.uint8)
    columns = [
        np.frombuffer(one, np.uint64).astype(np.int64)
        for one in (piece.positions, piece.firsts, piece.lows, piece.highs)
    ]
    columns[0] -= piece.base
    _read_ahead(mapping, columns[0], columns[0] + HEAD_SIZE, job)
    for part in portions(data, Slice(*columns), PORTION_BYTES):
        sizes = data[: len(data) // 4 * 4].view(np.uint32)[part.positions // 4 + 1]
        _read_ahead(mapping, part.positions, part.positions + sizes, job)
        rows, damaged = rows_of(data, piece.seed, part)
        if damaged:
            raise StoreError(
                f"{len(damaged)} messages of {job.source} cannot be read, the first has offset "
                f"{damaged[0]}: their checksums are wrong. `headrace fsck` tells more; nothing "
                "behind them was read"
            )
        yield from cut(rows, job.source, job.partition, job.columns, _decoder(job))


def _read_ahead(mapping: mmap.mmap, starts: Places, stops: Places, job: ReadPlan) -> None:
    """Map the pages of these bytes. StoreError when the disk cannot read one: to touch it then
    would end the process with SIGBUS."""
    edges = np.flatnonzero(starts[1:] > stops[:-1] + _NEAR) + 1
    firsts = starts[np.r_[0, edges]] // PAGE * PAGE
    ends = np.minimum(stops[np.r_[edges - 1, len(stops) - 1]], len(mapping))
    for start, stop in zip(firsts.tolist(), ends.tolist(), strict=True):
        try:
            if start < stop:
                mapping.madvise(_POPULATE_READ, start, stop - start)
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
