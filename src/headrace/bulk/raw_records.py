"""Whole records for readers that decode them themselves, without what is not theirs to see.

A record that one destination has alone, all of whose messages are wanted, goes out as it is. From
others a copy is made that has only the wanted contents, and of the destinations only the reader's.

Readers that show no bodies get the heads of records as they are, and of each content the first
bytes only, as many of each as the longest fields of the portion need. They cannot check the sums of
contents then, so what is not as it should be goes out whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from struct import pack_into
from zlib import crc32

import numpy as np
import numpy.typing as npt

from headrace.bulk.columns import shown_contents
from headrace.bulk.decode.batches import PORTION_BYTES, MappedSegment
from headrace.bulk.decode.gather import Bytes, Places, numbers
from headrace.bulk.decode.queue_messages import header_ends
from headrace.bulk.decode.records import Records, check_heads
from headrace.bulk.decode.topic_entries import field_ends
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
CUT_PORTION_BYTES = 7 << 20  # of which at most half are sent: readers keep 4 MiB
FIRST_WIDTH = 64  # of the beginnings of contents; the next portion starts with that of the last one
COST_OF_CUT = 600  # bytes that could be sent in the time that it takes to cut a record

Part = bytes | memoryview


def blocks_of(
    job: ReadPlan, segments: Sequence[int]
) -> Iterator[tuple[dict[str, object], list[Part]]]:
    """Blocks of records: columns that say where each is and what of it is wanted, and its bytes.

    Where contents are cut, ``width`` is how many bytes of each there are.
    """
    shown = shown_contents(job.kind, job.columns)
    cutter = None if shown is None else ContentCutter(job.kind, shown)
    size = PORTION_BYTES if cutter is None else CUT_PORTION_BYTES
    for one, fd in zip(job.pieces, segments, strict=True):
        segment = MappedSegment(job.source, fd)
        for part in segment.portions(one, size):
            segment.read(part, SIZE_AT if shown != () else HEAD_SIZE_AT)
            portion = Portion.of(job.number, segment.data, part)
            made = None if cutter is None else cutter.cut(portion)
            if made is None:
                segment.read(part)
                made = portion.whole()
            yield made


@dataclass(frozen=True, slots=True)
class Portion:
    """Some records of a segment, and which of them need not be changed."""

    number: int  # of the reader's destination
    data: Bytes
    part: Records  # where several ranges of a record are wanted, it has a row for each
    begins: Places  # the first row of each record; the columns below have one value for each
    at: Places
    head_ends: Places
    ends: Places
    counts: Places
    sound: npt.NDArray[np.bool_]
    is_plain: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, number: int, data: Bytes, part: Records) -> Portion:
        words = data[: len(data) // 4 * 4].view(np.uint32)
        begins = np.flatnonzero(np.r_[True, part.positions[1:] != part.positions[:-1]])
        at = part.positions[begins]
        sound = check_heads(data, words, part.seed, at)
        counts = words[(at + COUNT_AT) // 4].astype(np.int64)
        wanted = np.add.reduceat(part.high_offsets - part.low_offsets, begins)
        is_alone = words[(at + DESTINATIONS_AT) // 4] >> 16 == 1
        head_ends, ends = (at + words[(at + one) // 4] for one in (HEAD_SIZE_AT, SIZE_AT))
        is_plain = sound & is_alone & (wanted == counts)
        return cls(number, data, part, begins, at, head_ends, ends, counts, sound, is_plain)

    def block(self, sizes: Places, **more: object) -> dict[str, object]:
        """The fields of a block whose records have these sizes."""
        repeats = np.diff(np.append(self.begins, len(self.part.positions)))
        columns: dict[str, Places] = {
            "positions": np.repeat(np.cumsum(sizes) - sizes, repeats),
            "first_offsets": self.part.first_offsets,
            "low_offsets": self.part.low_offsets,
            "high_offsets": self.part.high_offsets,
        }
        packed = {name: one.tobytes() for name, one in columns.items()}
        return {"seed": self.part.seed, **more, **packed}

    def whole(self) -> tuple[dict[str, object], list[Part]]:
        """The records with all wanted contents."""
        at, ends, view = self.at, self.ends, self.data.data
        sizes = ends - at
        parts: list[Part] = []
        # Neighbours that go out as they are go out together.
        is_joined = self.is_plain[1:] & self.is_plain[:-1] & (at[1:] == ends[:-1])
        edges = np.flatnonzero(np.r_[True, ~is_joined, True]).tolist()
        for low, high in pairwise(edges):
            if self.is_plain[low]:
                parts.append(view[at[low] : ends[high - 1]])
                continue
            made = self._own_part(low) if self.sound[low] else DAMAGED
            parts.append(made)
            sizes[low] = len(made)
        return self.block(sizes), parts

    def wanted_of(self, record: int) -> npt.NDArray[np.bool_]:
        """Which messages of a record are wanted."""
        low = self.begins[record]
        high = self.begins[record + 1] if record + 1 < len(self.begins) else None
        lows, highs = self.part.low_offsets[low:high], self.part.high_offsets[low:high]
        first = int(self.part.first_offsets[low])
        wanted = np.zeros(int(self.counts[record]), np.bool_)
        for one, stop in zip((lows - first).tolist(), (highs - first).tolist(), strict=True):
            wanted[one:stop] = True
        return wanted

    def _own_part(self, record: int) -> bytes:
        """A copy of a record with the wanted contents."""
        start, count = int(self.head_ends[record]), int(self.counts[record])
        wanted = self.wanted_of(record)
        lengths = self.data[start - 8 * count : start - 4 * count].view(np.uint32)
        ends = start + np.cumsum(lengths, dtype=np.int64)
        starts = ends - lengths
        pairs = zip(starts[wanted].tolist(), ends[wanted].tolist(), strict=True)
        contents = b"".join([self.data[low:high].tobytes() for low, high in pairs])
        return self.own_head(record, wanted, len(contents)) + contents

    def own_head(self, record: int, wanted: npt.NDArray[np.bool_], size: int) -> bytes:
        """A copy of a head: contents that are not wanted have length 0, other destinations are 0;
        ``size`` is of the contents."""
        head = bytearray(self.data[self.at[record] : self.head_ends[record]].tobytes())
        table = len(head) - 8 * len(wanted)
        for place in (table, table + 4 * len(wanted)):  # lengths, sums
            np.frombuffer(head, np.uint32, len(wanted), place)[~wanted] = 0
        others = int.from_bytes(head[DESTINATIONS_AT : DESTINATIONS_AT + 2], "little")
        for place in range(table - others * DESTINATION.size, table, DESTINATION.size):
            if DESTINATION.unpack_from(head, place)[0] != self.number:
                head[place : place + DESTINATION.size] = bytes(DESTINATION.size)
        pack_into("<I", head, SIZE_AT, len(head) + size)
        pack_into("<I", head, 0, crc32(memoryview(head)[4:], self.part.seed))
        return bytes(head)


class ContentCutter:
    """Leaves out what is not shown of contents."""

    def __init__(self, kind: str, shown: Sequence[str]) -> None:
        self._ends_of = header_ends if kind == "queue" else lambda rows: field_ends(rows, shown)
        self._width = FIRST_WIDTH if shown else 0

    def cut(self, portion: Portion) -> tuple[dict[str, object], list[Part]] | None:
        """None: send it whole, because something is odd, or because not much can be left out."""
        if not portion.sound.all():
            return None
        contents: Bytes = np.zeros((int(portion.counts.sum()), 0), np.uint8)
        if self._width:
            found = self._beginnings(portion)
            if found is None:
                return None
            contents = found
        elif not self._is_worth(portion, 0):
            return None
        return self._joined(portion, contents)

    def _is_worth(self, portion: Portion, width: int) -> bool:
        heads = portion.head_ends - portion.at + COST_OF_CUT + portion.counts * width
        return int(heads.sum()) * 2 <= int((portion.ends - portion.at).sum())

    def _beginnings(self, portion: Portion) -> Bytes | None:
        """The first bytes of each content, a row each; 0 behind its end."""
        data, counts = portion.data, portion.counts
        words = data[: len(data) // 4 * 4].view(np.uint32)
        tables = portion.head_ends // 4 - 2 * counts
        rows = np.arange(int(counts.sum()))
        firsts = np.cumsum(counts) - counts
        lengths = words[np.repeat(tables - firsts, counts) + rows].astype(np.int64)
        before = np.cumsum(lengths) - lengths
        starts = before + np.repeat(portion.head_ends - before[firsts], counts)
        while self._is_worth(portion, self._width) and starts.max() + self._width <= len(data):
            found: Bytes = numbers(data, f"V{self._width}")[starts].view(np.uint8)
            found = found.reshape(len(starts), self._width)
            ends = self._ends_of(found)
            if (ends > lengths).any():
                return None  # its sum is wrong, probably: the reader will say
            width = -(-int(ends.max()) // 8) * 8
            if self._width - 8 <= width <= self._width:
                short = np.flatnonzero(lengths < self._width)
                behind = np.arange(self._width) >= lengths[short][:, None]
                found[short] = np.where(behind, np.uint8(0), found[short])
                return found
            self._width = width
        self._width = min(self._width, FIRST_WIDTH)
        return None

    def _joined(self, portion: Portion, contents: Bytes) -> tuple[dict[str, object], list[Part]]:
        """Head and beginnings of each record in turn."""
        width, heads = contents.shape[1], portion.data.data
        parts: list[Part] = []
        columns = (portion.at, portion.head_ends, portion.counts, portion.is_plain)
        row = 0
        for record, (low, high, count, is_plain) in enumerate(
            zip(*(one.tolist() for one in columns), strict=True)
        ):
            rows = contents[row : row + count]
            row += count
            if is_plain:
                parts.append(heads[low:high])
            else:
                wanted = portion.wanted_of(record)
                rows[~wanted] = 0
                parts.append(portion.own_head(record, wanted, rows.size))
            parts.append(rows.data.cast("B") if rows.size else b"")
        sizes = portion.head_ends - portion.at + portion.counts * width
        return portion.block(sizes, width=width), parts
