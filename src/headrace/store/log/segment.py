"""One file of the commit log: a stretch of positions, and how much in it is alive."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Iterator
from contextlib import closing
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from headrace.store.disk import Disk, File, read_skipping_errors, temporary_name
from headrace.store.failpoints import failpoint
from headrace.store.log import record as r
from headrace.store.log.queue_index import IndexEntry, QueueEntry
from headrace.wire.record_layout import GROUP, inner_seed, segment_seed

logger = logging.getLogger(__name__)

SUFFIX = ".log"
INDEX_SUFFIX = ".idx"
_STEP = 8
_ZEROS = bytes(1 << 16)
_INDEX_MAGIC = b"HRINDEX1"
_INDEX_HEAD = Struct("<8sIIQ")  # magic, crc32 of the rest, entries, used bytes
_INDEX_ENTRY = Struct("<QQQQQQ")  # queue, first, stop, position, weight, time


def segment_name(base: int) -> str:
    return f"{base:020d}{SUFFIX}"


def index_name(base: int) -> str:
    return f"{base:020d}{INDEX_SUFFIX}"


def base_of(name: str, suffix: str = SUFFIX) -> int | None:
    """The base position in a segment's file name; None for other files."""
    stem = name.removesuffix(suffix)
    return int(stem) if name.endswith(suffix) and stem.isdigit() else None


def leftovers(names: Iterable[str], bases: Container[int]) -> Iterator[str]:
    """Files that are not used: unfinished ones, and indexes without their segment."""
    for name in names:
        is_alone = name.endswith(INDEX_SUFFIX) and base_of(name, INDEX_SUFFIX) not in bases
        if name.endswith(".new") or is_alone:
            yield name


class Segment:
    """Positions ``base`` .. ``base + capacity``; ``used`` bytes of them are written or pending."""

    __slots__ = ("base", "capacity", "cold", "file", "live", "live_bytes", "sealed", "seed",
                 "spans", "synced", "total", "unreadable", "used")  # fmt: skip

    def __init__(
        self, base: int, capacity: int, file: File | None = None, *, seed: int | None = None
    ) -> None:
        self.base = base
        self.seed = segment_seed(base) if seed is None else seed  # of the sums of its records
        self.capacity = capacity
        self.file = file
        self.used = 0
        self.synced = 0  # how much of it a sync covers
        self.unreadable: list[tuple[int, int]] = []  # by the disk, as far as it was tried
        self.sealed = False
        self.cold = False  # written by compaction
        self.total = 0  # messages, counted once per queue
        self.live = 0
        self.live_bytes = 0
        # By queue, between which offsets its messages in here lie: the rest need not be searched.
        self.spans: dict[int, tuple[int, int]] = {}

    def note(self, queue: int, first: int, stop: int) -> None:
        """Messages first .. stop - 1 of the queue are in here."""
        span = self.spans.get(queue)
        if span is not None:
            first, stop = min(first, span[0]), max(stop, span[1])
        self.spans[queue] = (first, stop)

    @property
    def end(self) -> int:
        return self.base + self.capacity

    def create(self, disk: Disk) -> File:
        """Make the file; its name is durable when this returns."""
        failpoint("segment.create")
        if self.file is None:  # else only the sync failed, and is tried again
            self.file = disk.create(segment_name(self.base), self.capacity)
        disk.sync_directory()
        failpoint("segment.created")
        return self.file

    def read(self, position: int, size: int) -> bytes:
        """Pages that the disk cannot read are noted, and ones instead of zeros: no sum fits."""
        assert self.file is not None, "a segment is read only after it was written"
        return read_skipping_errors(self.file, size, position - self.base, self._cannot_read)

    def _cannot_read(self, start: int, stop: int) -> None:
        if (start, stop) not in self.unreadable:
            self.unreadable.append((start, stop))
            name = segment_name(self.base)
            logger.error("%s: bytes %d to %d cannot be read", name, start, stop - 1)


def used_length(data: bytes) -> int:
    """How long ``data`` is without the zeros at its end."""
    end = len(data)
    # Block by block: stripping byte by byte takes 5 ms per MiB.
    while end >= len(_ZEROS) and data[end - len(_ZEROS) : end] == _ZEROS:
        end -= len(_ZEROS)
    start = max(0, end - len(_ZEROS))
    return start + len(data[start:end].rstrip(b"\x00"))


class SegmentRecord(NamedTuple):
    """A record met on a walk through a segment."""

    position: int
    head: r.RecordHead
    data: bytes  # the segment's bytes; the record begins at ``at``
    at: int
    seed: int  # of its sum


class Damage(NamedTuple):
    """Bytes that are no record although there are records behind them."""

    position: int
    size: int


def walk(data: bytes, base: int, seed: int, start: int = 0) -> Iterator[SegmentRecord | Damage]:
    """The records of a segment's bytes, nested ones left inside their groups.

    Ends at the first place behind which there is no good record any more. Where the bytes are
    damaged the walk goes on at the next good record, and says what it stepped over.
    """
    at = start
    limit = used_length(data)  # nothing begins in the zeros of unused space
    while at < limit and at + r.HEAD_SIZE <= len(data):
        head = r.read_head(data, at)
        if head is not None and r.head_is_good(data, head, seed, at):
            if at + head.size > len(data):
                return  # cut off by the end of the file
            yield SegmentRecord(base + at, head, data, at, seed)
            at += head.size
            continue
        following = _next_good(data, seed, at + _STEP, limit)
        if following is None:
            return
        yield Damage(base + at, following - at)
        at = following


def _next_good(data: bytes, seed: int, at: int, limit: int) -> int | None:
    """Where the next good record begins."""
    while at < limit and at + r.HEAD_SIZE <= len(data):
        head = r.read_head(data, at)
        if head is not None and r.head_is_good(data, head, seed, at):
            return at
        at += _STEP
    return None


def parts_of(found: SegmentRecord) -> Iterator[SegmentRecord]:
    """The record itself, or the records of a group."""
    if found.head.kind != GROUP:
        yield found
        return
    at = found.at + found.head.head_size
    stop = found.at + found.head.size
    inner = inner_seed(found.seed)
    while at < stop:
        head = r.read_head(found.data, at)
        # Behind a checkpoint the group's own sum does not count, so each part must show its own.
        if head is None or not r.head_is_good(found.data, head, inner, at):
            return
        yield SegmentRecord(found.position + at - found.at, head, found.data, at, inner)
        at += head.size


# -- index files --------------------------------------------------------------------------------


def index_bytes(entries: list[QueueEntry], used: int) -> bytes:
    """The index of a sealed segment."""
    body = b"".join(
        [
            _INDEX_ENTRY.pack(queue, one.first, one.stop, one.position, one.weight, one.time)
            for queue, one in entries
        ]
    )
    rest = _INDEX_HEAD.pack(b"", 0, len(entries), used)[12:] + body
    return _INDEX_MAGIC + crc32(rest).to_bytes(4, "little") + rest


def read_index(disk: Disk, segment: Segment) -> list[QueueEntry] | None:
    """The index of a sealed segment; None when it is missing or damaged: it can be made again."""
    try:
        with closing(disk.open(index_name(segment.base))) as file:
            data = file.read(file.size(), 0)
    except OSError:
        return None
    if len(data) < _INDEX_HEAD.size:
        return None
    magic, crc, count, used = _INDEX_HEAD.unpack_from(data)
    if magic != _INDEX_MAGIC or crc32(data[12:]) != crc:
        return None
    if len(data) != _INDEX_HEAD.size + count * _INDEX_ENTRY.size:
        return None
    rows = _INDEX_ENTRY.iter_unpack(data[_INDEX_HEAD.size :])
    entries = [(queue, IndexEntry(*rest)) for queue, *rest in rows]
    if any(not 0 <= one.position - segment.base < used for _, one in entries):
        return None  # of another segment
    segment.used = used
    return entries


def write_index(disk: Disk, base: int, data: bytes) -> None:
    """Not synced: an index that does not survive is made again."""
    temporary = temporary_name(disk, index_name(base))
    with closing(disk.create(temporary)) as file:
        file.write(data, 0)
    disk.rename(temporary, index_name(base))
    failpoint("index.written")
