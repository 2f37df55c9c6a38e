"""Where the messages of many records are in a segment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, repeat
from operator import itemgetter
from typing import TypeAlias
from zlib import crc32

import numpy as np
import numpy.typing as npt

from headrace.bulk.decode.gather import Bytes, Places, numbers, spread
from headrace.model.record_columns import RecordColumns
from headrace.wire.record_layout import (
    COUNT_AT,
    EXCHANGE_LENGTH_AT,
    HEAD_SIZE_AT,
    KEY_LENGTH_AT,
    NAMES_AT,
    SIZE_AT,
    TIME_AT,
    inner_seed,
)

Records: TypeAlias = RecordColumns[Places]  # positions in the segment

_MANY, _SMALL = 32, 256  # heads of one size, bytes of a head: their sums are made together


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


class MalformedContent(Exception):
    """The sum of a content fits, but not its fields; ``offset`` is of the first such message."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


def refuse(rows: MessageRows, malformed: npt.NDArray[np.bool_]) -> None:
    """Raise MalformedContent if there are any."""
    if malformed.any():
        raise MalformedContent(int(rows.offsets[int(malformed.argmax())]))


def portions(data: Bytes, part: Records, size: int) -> Iterator[Records]:
    """The slice in parts of about ``size`` bytes, a record at least."""
    words = data[: len(data) // 4 * 4].view(np.uint32)
    sizes = np.minimum(words[(part.positions + SIZE_AT) // 4], len(data)).astype(np.int64)
    begins = (np.cumsum(sizes) - sizes) // size
    edges = [0, *(np.flatnonzero(np.diff(begins)) + 1).tolist(), len(begins)]
    for low, high in pairwise(edges):
        yield part.map(itemgetter(slice(low, high)))


def rows_of(data: Bytes, part: Records) -> tuple[MessageRows, list[int]]:
    """The rows of the slice, and the offsets of those whose checksum is wrong (left out)."""
    words = data[: len(data) // 4 * 4].view(np.uint32)
    sound = check_heads(data, words, part.seed, part.positions)
    damaged = [
        offset
        for low, high in zip(
            part.low_offsets[~sound].tolist(), part.high_offsets[~sound].tolist(), strict=True
        )
        for offset in range(low, high)
    ]
    if damaged:
        part = part.map(itemgetter(sound))
    at = part.positions
    head_sizes = words[(at + HEAD_SIZE_AT) // 4].astype(np.int64)
    counts = words[(at + COUNT_AT) // 4].astype(np.int64)
    times = words[(at + TIME_AT) // 4].astype(np.int64)
    times |= words[(at + TIME_AT) // 4 + 1].astype(np.int64) << 32

    # Every message of each record, because contents lie end to end; then what is wanted.
    owner, number = spread(counts)
    table = (at + head_sizes - 8 * counts) // 4
    lengths = words[table[owner] + number].astype(np.int64)
    before = np.cumsum(lengths) - lengths
    firsts = np.cumsum(counts) - counts  # the row of each record's message 0
    starts = at[owner] + head_sizes[owner] + before - before[firsts[owner]]
    offsets = part.first_offsets[owner] + number
    sums = words[(table + counts)[owner] + number]
    kept = _check_each(data, starts, lengths, sums)
    if not _are_whole(part, counts):
        wanted = (offsets >= part.low_offsets[owner]) & (offsets < part.high_offsets[owner])
        damaged += offsets[wanted & ~kept].tolist()
        kept &= wanted
    elif not kept.all():
        damaged += offsets[~kept].tolist()
    if not kept.all():
        owner, lengths, starts, offsets = owner[kept], lengths[kept], starts[kept], offsets[kept]
    exchange_lengths = data[at + EXCHANGE_LENGTH_AT].astype(np.int64)
    names = at + NAMES_AT
    records = RecordFields(
        times,
        names,
        exchange_lengths,
        names + exchange_lengths,
        data[at + KEY_LENGTH_AT].astype(np.int64),
    )
    return MessageRows(data, offsets, starts, lengths, owner, records), sorted(damaged)


def _are_whole(part: Records, counts: Places) -> bool:
    """Whether every message of every record is wanted."""
    return bool(
        (
            (part.low_offsets <= part.first_offsets)
            & (part.high_offsets >= part.first_offsets + counts)
        ).all()
    )


def _check_each(
    data: Bytes, starts: Places, lengths: Places, sums: npt.NDArray[np.uint32]
) -> npt.NDArray[np.bool_]:
    """Whether each content has the sum it was stored with. The loop runs in C."""
    slices = map(slice, starts.tolist(), (starts + lengths).tolist())
    found = np.fromiter(map(crc32, map(data.data.__getitem__, slices)), np.uint32, len(starts))
    good: npt.NDArray[np.bool_] = found == sums
    return good


def check_heads(
    data: Bytes, words: npt.NDArray[np.uint32], seed: int, at: Places
) -> npt.NDArray[np.bool_]:
    """Whether each record's head has its sum, as a record of its own or within a group."""
    sizes = words[(at + HEAD_SIZE_AT) // 4].astype(np.int64)
    inside = (at + sizes <= len(data)) & (at + words[(at + SIZE_AT) // 4] <= len(data))
    good = np.zeros(len(at), np.bool_)
    for one in (seed, inner_seed(seed)):
        where = np.flatnonzero(inside & ~good)
        if not len(where):
            break
        good[where] = _head_sums(data, at[where], sizes[where], one) == words[at[where] // 4]
    return good


def _head_sums(data: Bytes, at: Places, sizes: Places, seed: int) -> npt.NDArray[np.uint32]:
    """The sums of heads; many small ones of the same size at once."""
    found = np.zeros(len(at), np.uint32)
    left = np.ones(len(at), np.bool_)
    for size, count in zip(*np.unique(sizes, return_counts=True), strict=True):
        if count >= _MANY and NAMES_AT <= size <= _SMALL:
            same = sizes == size
            rows = numbers(data, f"V{size - 4}")[at[same] + 4].view(np.uint8)
            found[same] = crc32_of_rows(rows.reshape(count, size - 4), seed)
            left &= ~same
    view, places = data.data, np.flatnonzero(left)
    ends = at[places] + sizes[places]
    parts = [
        view[low + 4 : high] for low, high in zip(at[places].tolist(), ends.tolist(), strict=True)
    ]
    found[places] = np.fromiter(map(crc32, parts, repeat(seed)), np.uint32, len(parts))
    return found


def crc32_of_rows(rows: Bytes, seed: int) -> npt.NDArray[np.uint32]:
    """The sum of each row of a matrix. Sums of equal length differ by what differs in the bytes,
    each byte on its own, so only the columns that are not constant are looked at."""
    first, last = rows[0], rows.shape[1] - 1
    found = np.full(len(rows), crc32(first, seed), np.uint32)
    for column in np.flatnonzero((rows != first).any(axis=0)).tolist():
        shares = _shares(last - column)
        found ^= shares[rows[:, column]] ^ shares[first[column]]
    return found


@cache
def _shares(distance: int) -> npt.NDArray[np.uint32]:
    """What each value of a byte changes in a sum, compared with 0, that far before the end."""
    sums = [crc32(bytes([one]) + bytes(distance)) for one in range(256)]
    return np.array(sums, np.uint32) ^ np.uint32(sums[0])
