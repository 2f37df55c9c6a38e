"""A job carried out: from open segments to record batches."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from headrace.errors import StoreError
from headrace.store.arrow.batches import Decoder, cut
from headrace.store.arrow.contents import ContentColumns
from headrace.store.arrow.entries import EntryColumns
from headrace.store.arrow.gather import Bytes
from headrace.store.arrow.records import Slice, portions, rows_of
from headrace.store.job import Job, Piece

# What is worked on at once: it is passed over several times, and should stay near the processor.
PORTION_BYTES = 3 << 20


def batches_of(job: Job, segments: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """In order; StoreError when something is damaged. ``segments`` are descriptors, one per piece;
    they may be closed when the iterator has ended."""
    for piece, fd in zip(job.pieces, segments, strict=True):
        yield from _batches(job, piece, fd)


def _batches(job: Job, piece: Piece, fd: int) -> Iterator[pa.RecordBatch]:
    data: Bytes = np.frombuffer(mmap.mmap(fd, 0, prot=mmap.PROT_READ), np.uint8)
    columns = [
        np.frombuffer(one, np.uint64).astype(np.int64)
        for one in (piece.positions, piece.firsts, piece.lows, piece.highs)
    ]
    columns[0] -= piece.base
    for part in portions(data, Slice(*columns), PORTION_BYTES):
        rows, damaged = rows_of(data, piece.seed, part)
        if damaged:
            raise StoreError(
                f"{len(damaged)} messages of {job.source} cannot be read, the first has offset "
                f"{damaged[0]}: their checksums are wrong. `headrace fsck` tells more; nothing "
                "behind them was read"
            )
        yield from cut(rows, job.source, job.partition, job.columns, _decoder(job))


def _decoder(job: Job) -> Decoder:
    if job.kind == "topic":
        return lambda rows: EntryColumns(rows, job.lane)
    return ContentColumns
