"""Whole records for readers that decode them themselves, without what is not theirs to see.

A record that one destination has alone, all of whose messages are wanted, goes out as it is. From
others a copy is made that has only the wanted contents, and of the destinations only the reader's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from struct import pack_into
from zlib import crc32

import numpy as np

from headrace.bulk.decode.batches import portions_of
from headrace.bulk.decode.gather import Bytes, Places
from headrace.bulk.decode.records import Records, check_heads
from headrace.bulk.read_plan import ReadPlan
from headrace.wire.record_layout import (
    COUNT_AT,
    DESTINATION,
    DESTINATIONS_AT,
    HEAD_SIZE_AT,
    NAMES_AT,
    SIZE_AT,
)

DAMAGED = bytes(NAMES_AT)  # stands for a record whose head has another sum: its size is unknown

Part = bytes | memoryview


def blocks_of(
    job: ReadPlan, segments: Sequence[int]
) -> Iterator[tuple[dict[str, object], list[Part]]]:
    """Blocks of records: columns that say where each is and what of it is wanted, and its bytes."""
    for one, fd in zip(job.pieces, segments, strict=True):
        for data, part in portions_of(job, one, fd):
            yield _block(job.number, data, part)


def _block(number: int, data: Bytes, part: Records) -> tuple[dict[str, object], list[Part]]:
    words = data[: len(data) // 4 * 4].view(np.uint32)
    begins = np.flatnonzero(np.r_[True, part.positions[1:] != part.positions[:-1]])
    at = part.positions[begins]  # each record once, though several ranges of it may be wanted
    sound = check_heads(data, words, part.seed, at)
    ends = at + words[(at + SIZE_AT) // 4]
    counts = words[(at + COUNT_AT) // 4]
    wanted = np.add.reduceat(part.high_offsets - part.low_offsets, begins)
    is_alone = words[(at + DESTINATIONS_AT) // 4] >> 16 == 1
    is_plain = sound & is_alone & (wanted == counts)
    parts: list[Part] = []
    view, sizes = data.data, ends - at
    stops = np.append(begins[1:], len(part.positions))
    # Neighbours that go out as they are go out together.
    is_joined = is_plain[1:] & is_plain[:-1] & (at[1:] == ends[:-1])
    edges = np.flatnonzero(np.r_[True, ~is_joined, True]).tolist()
    for low, high in pairwise(edges):
        if is_plain[low]:
            parts.append(view[at[low] : ends[high - 1]])
            continue
        rows = slice(begins[low], stops[low])
        made = _own_part(number, data, part, rows) if sound[low] else DAMAGED
        parts.append(made)
        sizes[low] = len(made)
    places = np.repeat(np.cumsum(sizes) - sizes, stops - begins)
    columns: dict[str, Places] = {
        "positions": places,
        "first_offsets": part.first_offsets,
        "low_offsets": part.low_offsets,
        "high_offsets": part.high_offsets,
    }
    return {"seed": part.seed, **{name: one.tobytes() for name, one in columns.items()}}, parts


def _own_part(number: int, data: Bytes, part: Records, rows: slice) -> bytes:
    """A copy of a record: contents that are not wanted have length 0, other destinations are 0."""
    at, first = int(part.positions[rows][0]), int(part.first_offsets[rows][0])
    head_size = int.from_bytes(data[at + HEAD_SIZE_AT :][:4].tobytes(), "little")
    count = int.from_bytes(data[at + COUNT_AT :][:4].tobytes(), "little")
    head = bytearray(data[at : at + head_size].tobytes())
    table = head_size - 8 * count
    lengths = np.frombuffer(head, np.uint32, count, table)
    sums = np.frombuffer(head, np.uint32, count, table + 4 * count)
    wanted = np.zeros(count, np.bool_)
    for low, high in zip(
        part.low_offsets[rows].tolist(), part.high_offsets[rows].tolist(), strict=True
    ):
        wanted[low - first : high - first] = True
    ends = at + head_size + np.cumsum(lengths, dtype=np.int64)
    starts = ends - lengths
    pairs = zip(starts[wanted].tolist(), ends[wanted].tolist(), strict=True)
    contents = b"".join([data[low:high].tobytes() for low, high in pairs])
    lengths[~wanted] = sums[~wanted] = 0
    others = int.from_bytes(head[DESTINATIONS_AT : DESTINATIONS_AT + 2], "little")
    for place in range(table - others * DESTINATION.size, table, DESTINATION.size):
        if DESTINATION.unpack_from(head, place)[0] != number:
            head[place : place + DESTINATION.size] = bytes(DESTINATION.size)
    pack_into("<I", head, SIZE_AT, head_size + len(contents))
    pack_into("<I", head, 0, crc32(memoryview(head)[4:], part.seed))
    return bytes(head) + contents
