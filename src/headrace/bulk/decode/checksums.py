"""Checksums of many contents at once.

The sum of contents that lie end to end follows from the sums of each: crc32(a + b) is
shift(crc32(a), len(b)) ^ crc32(b), where shift() is linear, a product with x^(8n) of polynomials
over GF(2). So one pass over a whole record checks all its messages, and only where it does not come
out is each message looked at. The products are table look-ups, a byte of n and a byte of the sum
at a time.
"""

from __future__ import annotations

from functools import cache
from zlib import crc32

import numpy as np
import numpy.typing as npt

from headrace.bulk.decode.gather import Bytes, Places

Sums = npt.NDArray[np.uint32]

_POLYNOMIAL = 0xEDB88320
_FEW = 3  # messages per record from which on the arithmetic is worth its while


def check(
    data: Bytes, starts: Places, lengths: Places, sums: Sums, firsts: Places
) -> npt.NDArray[np.bool_]:
    """Whether each content has the sum it was stored with.

    ``firsts`` are the rows at which records begin; the contents of each lie end to end.
    """
    if len(starts) < _FEW * len(firsts):
        return _check_each(data, starts, lengths, sums)
    ends = np.append(firsts[1:], len(starts)) - 1
    record_ends = starts[ends] + lengths[ends]
    sizes = np.diff(np.append(firsts, len(starts)))
    behind = np.repeat(record_ends, sizes) - starts - lengths
    expected = np.bitwise_xor.reduceat(shift(sums, behind), firsts)
    view = data.data
    spans = zip(starts[firsts].tolist(), record_ends.tolist(), strict=True)
    found = np.fromiter((crc32(view[low:high]) for low, high in spans), np.uint32, len(firsts))
    good = np.repeat(found == expected, sizes)
    doubtful = np.flatnonzero(~good)
    good[doubtful] = _check_each(data, starts[doubtful], lengths[doubtful], sums[doubtful])
    return good


def _check_each(data: Bytes, starts: Places, lengths: Places, sums: Sums) -> npt.NDArray[np.bool_]:
    """The loop runs in C."""
    view = data.data
    slices = map(slice, starts.tolist(), (starts + lengths).tolist())
    found = np.fromiter(map(crc32, map(view.__getitem__, slices)), np.uint32, len(starts))
    good: npt.NDArray[np.bool_] = found == sums
    return good


def shift(sums: Sums, by: Places) -> Sums:
    """What each sum adds to that of a text in which ``by`` bytes follow."""
    level = 0
    while by.any():
        digits = by & 0xFF
        if digits.any():
            table, row, old = _table(level), digits << 10, sums.astype(np.int64)
            sums = table.take(row | (old & 0xFF), mode="clip")
            for byte in (1, 2, 3):
                sums ^= table.take(row | byte << 8 | (old >> 8 * byte & 0xFF), mode="clip")
        by = by >> 8
        level += 1
    return sums


@cache
def _table(level: int) -> Sums:
    """Places are (how often 256^level bytes follow, which byte of the sum, its value)."""
    made = np.empty((256, 4, 256), np.uint32)
    made[0] = np.arange(256, dtype=np.uint32) << (np.arange(4, dtype=np.uint32)[:, None] * 8)
    for times in range(1, 256):
        made[times] = _step(made[times - 1], level)
    return made.reshape(-1)


def _step(sums: Sums, level: int) -> Sums:
    """Once 256^level bytes more."""
    if level:
        by = np.full(sums.shape, 255, np.int64)
        sums = shift(sums, by << 8 * (level - 1))
        return shift(sums, np.full(sums.shape, 1 << 8 * (level - 1), np.int64))
    moved: Sums = (sums >> 8) ^ _of_bytes()[sums & 0xFF]
    return moved


@cache
def _of_bytes() -> Sums:
    """The classic table: what one byte becomes in eight steps."""
    made = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        made = np.where(made & 1, (made >> 1) ^ np.uint32(_POLYNOMIAL), made >> 1)
    return made.astype(np.uint32)
