"""Where the messages of many records are in a segment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, repeat
from zlib import crc32

import numpy as np
import numpy.typing as npt

from headrace.bulk.decode.checksums import check
from headrace.bulk.decode.gather import Bytes, Places, spread
from headrace.store.log.record import inner_seed

_SIZE, _HEAD_SIZE, _COUNT, _TIME = 4, 8, 16, 24  # places in a record: see store/log/record.py
_EXCHANGE_LENGTH, _KEY_LENGTH, _NAMES = 42, 43, 48


@dataclass(frozen=True, slots=True)
class Slice:
    """Stretches of one destination in one segment, as columns of equal length."""

    positions: Places  # of the records, in the segment
    firsts: Places  # the offset of each record's message 0
    lows: Places  # which offsets are wanted: lows .. highs - 1
    highs: Places


@dataclass(frozen=True, slots=True)
class RecordFields:
    """What the messages of a record have in common."""

    times: Places  # stored at, ms since 1970
    exchange_starts: Places
    exchange_lengths: Places
    key_starts: Places
    key_lengths: Places


@dataclass(frozen=True, slots=True)
class MessageRows:
    """One row per message."""

    data: Bytes
    offsets: Places
    starts: Places  # of the contents
    lengths: Places
    record: Places  # which record each is in
    records: RecordFields

    def __len__(self) -> int:
        return len(self.offsets)

    def part(self, low: int, high: int) -> MessageRows:
        cut = slice(low, high)
        return MessageRows(
            self.data,
            self.offsets[cut],
            self.starts[cut],
            self.lengths[cut],
            self.record[cut],
            self.records,
        )


def portions(data: Bytes, part: Slice, size: int) -> Iterator[Slice]:
    """The slice in parts of about ``size`` bytes, a record at least."""
    words = data[: len(data) // 4 * 4].view(np.uint32)
    sizes = np.minimum(words[(part.positions + _SIZE) // 4], len(data)).astype(np.int64)
    begins = (np.cumsum(sizes) - sizes) // size
    edges = [0, *(np.flatnonzero(np.diff(begins)) + 1).tolist(), len(begins)]
    for low, high in pairwise(edges):
        yield Slice(
            part.positions[low:high],
            part.firsts[low:high],
            part.lows[low:high],
            part.highs[low:high],
        )


def rows_of(data: Bytes, seed: int, part: Slice) -> tuple[MessageRows, list[int]]:
    """The rows of the slice, and the offsets of those whose checksum is wrong (left out).

    ``seed`` is the one of the sums of the heads in this segment.
    """
    words = data[: len(data) // 4 * 4].view(np.uint32)
    sound = _check_heads(data, words, seed, part.positions)
    damaged = [
        offset
        for low, high in zip(part.lows[~sound].tolist(), part.highs[~sound].tolist(), strict=True)
        for offset in range(low, high)
    ]
    if damaged:
        part = Slice(part.positions[sound], part.firsts[sound], part.lows[sound], part.highs[sound])
    at = part.positions
    head_sizes = words[(at + _HEAD_SIZE) // 4].astype(np.int64)
    counts = words[(at + _COUNT) // 4].astype(np.int64)
    times = words[(at + _TIME) // 4].astype(np.int64)
    times |= words[(at + _TIME) // 4 + 1].astype(np.int64) << 32

    # Every message of each record, because contents lie end to end; then what is wanted.
    owner, number = spread(counts)
    table = (at + head_sizes - 8 * counts) // 4
    lengths = words[table[owner] + number].astype(np.int64)
    before = np.cumsum(lengths) - lengths
    firsts = np.cumsum(counts) - counts  # the row of each record's message 0
    starts = at[owner] + head_sizes[owner] + before - before[firsts[owner]]
    offsets = part.firsts[owner] + number
    sums = words[(table + counts)[owner] + number]
    kept = check(data, starts, lengths, sums, firsts[counts > 0])
    if not _are_whole(part, counts):
        wanted = (offsets >= part.lows[owner]) & (offsets < part.highs[owner])
        damaged += offsets[wanted & ~kept].tolist()
        kept &= wanted
    elif not kept.all():
        damaged += offsets[~kept].tolist()
    if not kept.all():
        owner, lengths, starts, offsets = owner[kept], lengths[kept], starts[kept], offsets[kept]
    exchange_lengths = data[at + _EXCHANGE_LENGTH].astype(np.int64)
    names = at + _NAMES
    records = RecordFields(
        times,
        names,
        exchange_lengths,
        names + exchange_lengths,
        data[at + _KEY_LENGTH].astype(np.int64),
    )
    return MessageRows(data, offsets, starts, lengths, owner, records), sorted(damaged)


def _are_whole(part: Slice, counts: Places) -> bool:
    """Whether every message of every record is wanted."""
    return bool(((part.lows <= part.firsts) & (part.highs >= part.firsts + counts)).all())


def _check_heads(
    data: Bytes, words: npt.NDArray[np.uint32], seed: int, at: Places
) -> npt.NDArray[np.bool_]:
    """Whether each record's head has its sum, as a record of its own or within a group."""
    ends = at + words[(at + _HEAD_SIZE) // 4]
    inside = (ends <= len(data)) & (at + words[(at + _SIZE) // 4] <= len(data))
    view = data.data
    parts = [view[low + 4 : high] for low, high in zip(at.tolist(), ends.tolist(), strict=True)]
    sums = words[at // 4]
    good = np.zeros(len(at), np.bool_)
    for one in (seed, inner_seed(seed)):
        good |= np.fromiter(map(crc32, parts, repeat(one)), np.uint32, len(parts)) == sums
        if good.all():
            break
    return good & inside
