"""Finding the state again: checkpoint, indexes of sealed segments, then the records behind it.

Everything found wrong is reported; nothing is changed except that a torn tail is cut, so that no
leftover can ever be taken for a record of later days.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from struct import Struct
from zlib import crc32

from headrace.model.intervals import Intervals
from headrace.store.disk import Disk, temporary_name
from headrace.store.failpoints import passing
from headrace.store.log import record as r
from headrace.store.log.checkpoint import Checkpoint, load_checkpoints
from headrace.store.log.duplicates import sound_contents, sound_messages, without_duplicates
from headrace.store.log.index import Entry, QueueIndex, entry_weight
from headrace.store.log.segment import (
    Damage,
    Found,
    Segment,
    base_of,
    index_name,
    parts_of,
    segment_name,
    used_length,
    walk,
)

logger = logging.getLogger(__name__)

_NO_POSITION = 1 << 64
_FIRST_BYTES = 1 << 20  # enough for the first record of a segment
_INDEX_MAGIC = b"HRINDEX1"
_INDEX_HEAD = Struct("<8sIIQ")  # magic, crc32 of the rest, entries, used bytes
_INDEX_ENTRY = Struct("<QQQQQQ")  # queue, first, stop, position, weight, time


@dataclass(slots=True)
class Report:
    """What recovery met."""

    segments: int = 0
    scanned_bytes: int = 0
    messages: int = 0
    rebuilt: list[int] = field(default_factory=list)  # segments whose index was missing or bad
    damage: list[str] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)
    clean: bool = False
    begin_epoch: bool = False  # a restore asks for it


@dataclass(slots=True)
class State:
    """The journal as found."""

    segments: list[Segment] = field(default_factory=list)
    queues: dict[int, QueueIndex] = field(default_factory=dict)
    position: int = 0  # of the checkpoint
    sequence: int = 0  # of the checkpoint
    catalog_generation: int = 0  # of meta.db as the checkpoint knows it
    whole_seed_from: int | None = None  # None: a directory of version 1
    unindexed: list[Segment] = field(default_factory=list)  # had to be scanned
    report: Report = field(default_factory=Report)

    def seed(self, base: int) -> int:
        """Of the sums in a segment."""
        whole_from = _NO_POSITION if self.whole_seed_from is None else self.whole_seed_from
        return r.segment_seed(base, whole_from)


def recover(disk: Disk, whole_seed_from: int | None = 0) -> State:
    """Read everything. Segments stay open for reading. ``whole_seed_from``: see store/format.py."""
    checkpoint = _checkpoint(disk, report := Report(), is_version_2=whole_seed_from is not None)
    state = State(
        queues=dict(checkpoint.queues),
        position=checkpoint.position,
        sequence=checkpoint.sequence,
        catalog_generation=checkpoint.catalog_generation,
        whole_seed_from=_whole_seed_from(checkpoint, whole_seed_from, report),
        report=report,
    )
    report.clean = checkpoint.clean
    report.begin_epoch = checkpoint.begin_epoch
    pending: list[tuple[int, Entry]] = []
    for base in _bases(disk):
        file = disk.open(segment_name(base))
        segment = Segment(base, file.size(), file, seed=state.seed(base))
        segment.sealed = True
        state.segments.append(segment)
        state.report.segments += 1
        whole = base + segment.capacity <= checkpoint.position
        entries = read_index(disk, segment) if whole else None
        if entries is None:
            if whole:
                state.report.rebuilt.append(base)
            entries = _scan(segment, state, cut=not whole)
            state.unindexed.append(segment)
        if whole and not checkpoint.clean:
            file.sync()  # as in _cut
        pending += entries
    _enter(pending, state)
    _drop_empty(disk, state)
    _count(state)
    return state


def _enter(found: list[tuple[int, Entry]], state: State) -> None:
    """Index the records. A crash during compaction leaves messages twice."""
    bases = [segment.base for segment in state.segments]

    def settled(queue: int) -> Intervals:
        return state.queues[queue].settled

    def sound(entry: Entry) -> list[bool]:
        segment = state.segments[bisect_right(bases, entry.position) - 1]
        return sound_messages(segment, entry)

    for queue, entry in found:
        index = state.queues.setdefault(queue, QueueIndex())
        index.next_offset = max(index.next_offset, entry.stop)
    for queue, entry in without_duplicates(found, settled, sound):
        state.queues[queue].add(entry)


def _drop_empty(disk: Disk, state: State) -> None:
    """A segment without any record: its place is free again."""
    for segment in [one for one in state.segments if not one.used]:
        if segment in state.unindexed:
            state.unindexed.remove(segment)
        try:
            disk.remove(segment_name(segment.base))
        except OSError as error:
            # It keeps its place; the next checkpoint finds it dead, and tries again.
            logger.warning("%s cannot be removed: %s", segment_name(segment.base), error)
            continue
        state.segments.remove(segment)
        assert segment.file is not None
        segment.file.close()
        with suppress(OSError):
            disk.remove(index_name(segment.base))


def _checkpoint(disk: Disk, report: Report, *, is_version_2: bool) -> Checkpoint:
    found, wrong = load_checkpoints(disk)
    if found is None and not wrong and is_version_2 and _bases(disk):
        wrong.append(("checkpoint", "both checkpoints are missing"))
    for name, why in wrong:
        # The other one leads to the same state. Without any, acknowledgements in segments that are
        # gone are lost: some messages come again.
        rest = (
            "acknowledged messages may be delivered again" if found is None else "the other is used"
        )
        _damaged(report, f"{name}: {why}; {rest}")
    return found or Checkpoint()


def _whole_seed_from(checkpoint: Checkpoint, noted: int | None, report: Report) -> int | None:
    """As the checkpoint says, if there is one: it has a sum, and an old format file may be put
    back."""
    known = checkpoint.whole_seed_from
    if known is None or known == noted:
        return noted
    _damaged(report, f"the format file does not belong to this journal: {noted}, not {known}")
    return known


def find_whole_seed(disk: Disk) -> int | None:
    """From where on segments have the whole seed when no format file says it; None: nowhere."""
    found, _ = load_checkpoints(disk)
    if found is not None and found.whole_seed_from is not None:
        return found.whole_seed_from
    for base in _bases(disk):
        file = disk.open(segment_name(base))
        try:
            data = file.read(_FIRST_BYTES, 0)
        finally:
            file.close()
        if any(isinstance(step, Found) for step in walk(data, base, r.segment_seed(base))):
            return base
    return None


def _bases(disk: Disk) -> list[int]:
    return sorted(base for name in disk.names() if (base := base_of(name)) is not None)


def _scan(segment: Segment, state: State, *, cut: bool) -> list[tuple[int, Entry]]:
    """Walk a segment's bytes; apply what lies behind the checkpoint."""
    data = segment.read(segment.base, segment.capacity)
    state.report.scanned_bytes += len(data)
    start = state.position - segment.base
    entries: list[tuple[int, Entry]] = []
    used = 0
    for step in walk(data, segment.base, segment.seed):
        if isinstance(step, Damage):
            _damaged(state.report, f"{step.size} bytes at {step.position} are no record")
            continue
        fresh = step.at >= start
        if fresh and step.head.kind == r.GROUP and not r.group_is_good(data, step.head, step.at):
            _refuse(segment, step, state.report)
            continue
        used = step.at + step.head.size
        if fresh:
            _apply(step, state)
        entries += [one for part in parts_of(step) for one in entries_of(part)]
    segment.used = used
    if cut:
        _cut(segment, data, used, entries, state)
    return entries


def _refuse(segment: Segment, step: Found, report: Report) -> None:
    """A group that is not whole counts for nothing, now and behind later checkpoints: blot it."""
    _damaged(report, f"a group of records at {step.position} is incomplete")
    assert segment.file is not None
    segment.file.write(bytes(r.HEAD_SIZE), step.at)


def _apply(step: Found, state: State) -> None:
    """Acknowledgements and returns; messages are entered through the index."""
    for part in parts_of(step):
        if part.head.kind == r.SETTLED:
            for queue, first, stop in r.decode_settled(part.data, part.head, part.at):
                index = state.queues.setdefault(queue, QueueIndex())
                index.settled.add(first, stop)
                index.next_offset = max(index.next_offset, stop)
        elif part.head.kind == r.RETURNED:
            for queue, first, stop, count in r.decode_returned(part.data, part.head, part.at):
                index = state.queues.setdefault(queue, QueueIndex())
                index.returned.append((first, stop, count))
                index.next_offset = max(index.next_offset, stop)


def entries_of(part: Found) -> Iterator[tuple[int, Entry]]:
    """What a record adds to the index, per queue."""
    if part.head.kind != r.MESSAGES:
        return
    messages = r.decode_messages(part.data, part.head, part.at)
    if messages is None:
        return
    weight = entry_weight(part.head.size, part.head.items, len(messages.placed))
    for one in messages.placed:
        yield (
            one.queue,
            Entry(one.first, one.first + one.count, part.position, weight, part.head.time),
        )


def _cut(
    segment: Segment, data: bytes, used: int, entries: list[tuple[int, Entry]], state: State
) -> None:
    """Drop an unfinished record at the segment's end, and what is left behind it."""
    while entries:
        last = max(entry.position for _, entry in entries)
        at = last - segment.base
        head = r.read_head(data, at)
        if head is None or at < state.position - segment.base or _contents_good(data, head, at):
            break
        if at + head.size < used:
            break  # damaged, but not the end: its messages are judged one by one when read
        entries[:] = [one for one in entries if one[1].position != last]
        used = at
        state.report.cut.append(f"an unfinished record at {last} was cut off")
        logger.warning("an unfinished record at %d was cut off", last)
    left = max(0, used_length(data) - used)
    if left:
        text = f"{left} bytes of an unfinished write at {segment.base + used}"
        state.report.cut.append(text)
        logger.warning("%s were cut off", text)
    segment.used = used
    assert segment.file is not None
    if used < segment.capacity:
        passing("recovery.cut")
        segment.file.truncate(used)
        segment.capacity = used
    # Also when there is nothing to cut: after a crash of the broker alone, what was found may be
    # in the system's memory only, and from now on more is built on it.
    segment.file.sync()


def _contents_good(data: bytes, head: r.Head, at: int) -> bool:
    found = sound_contents(data, head, at)
    return found is not None and all(found)


def _damaged(report: Report, text: str) -> None:
    report.damage.append(text)
    logger.error("damage in the journal: %s", text)


def _count(state: State) -> None:
    """How much of each segment is alive."""
    by_base = {segment.base: segment for segment in state.segments}
    bases = sorted(by_base)
    for number, queue in state.queues.items():
        for entry in queue.entries():
            segment = by_base[bases[bisect_right(bases, entry.position) - 1]]
            live = queue.settled.count_missing(entry.first, entry.stop)
            segment.note(number, entry.first, entry.stop)
            segment.total += entry.stop - entry.first
            segment.live += live
            segment.live_bytes += live * entry.weight
            state.report.messages += live


# -- index files --------------------------------------------------------------------------------


def index_bytes(entries: list[tuple[int, Entry]], used: int) -> bytes:
    """The index of a sealed segment."""
    body = b"".join(
        [
            _INDEX_ENTRY.pack(queue, one.first, one.stop, one.position, one.weight, one.time)
            for queue, one in entries
        ]
    )
    rest = _INDEX_HEAD.pack(b"", 0, len(entries), used)[12:] + body
    return _INDEX_MAGIC + crc32(rest).to_bytes(4, "little") + rest


def read_index(disk: Disk, segment: Segment) -> list[tuple[int, Entry]] | None:
    """The index of a sealed segment; None when it is missing or damaged: it can be made again."""
    try:
        file = disk.open(index_name(segment.base))
    except FileNotFoundError:
        return None
    try:
        data = file.read(file.size(), 0)
    finally:
        file.close()
    if len(data) < _INDEX_HEAD.size:
        return None
    magic, crc, count, used = _INDEX_HEAD.unpack_from(data)
    if magic != _INDEX_MAGIC or crc32(data[12:]) != crc:
        return None
    if len(data) != _INDEX_HEAD.size + count * _INDEX_ENTRY.size:
        return None
    segment.used = used
    return [
        (queue, Entry(*rest)) for queue, *rest in _INDEX_ENTRY.iter_unpack(data[_INDEX_HEAD.size :])
    ]


def write_index(disk: Disk, base: int, data: bytes) -> None:
    """Not synced: an index that does not survive is made again."""
    temporary = temporary_name(disk, index_name(base))
    file = disk.create(temporary)
    try:
        file.write(data, 0)
    finally:
        file.close()
    disk.rename(temporary, index_name(base))
    passing("index.written")
