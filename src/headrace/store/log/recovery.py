"""Finding the state again: checkpoint, indexes of sealed segments, then the records behind it.

Everything found wrong is reported; nothing is changed except that a torn tail is cut, so that no
leftover can ever be taken for a record of later days.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from itertools import pairwise

from headrace.model.intervals import Intervals
from headrace.store.disk import Disk
from headrace.store.log import record as r
from headrace.store.log.checkpoint_file import Checkpoint, load_checkpoints
from headrace.store.log.queue_index import IndexEntry, QueueEntry, QueueIndex
from headrace.store.log.recovery_state import (
    MISSING,
    SHORT,
    LostRange,
    RecoveredState,
    RecoveryReport,
    report_lost_messages,
)
from headrace.store.log.segment import (
    Segment,
    SegmentRecord,
    base_of,
    index_name,
    read_index,
    segment_name,
    walk,
)
from headrace.store.log.segment_scan import SegmentScan
from headrace.wire.record_layout import MESSAGES, inner_seed, segment_seed

logger = logging.getLogger(__name__)

_FAR = 1 << 64
FIRST_BYTES = 1 << 20  # enough for the first record of a segment


def recover(disk: Disk, format_2_from: int | None = 0) -> RecoveredState:
    """Read everything. Segments stay open for reading."""
    checkpoint = _checkpoint(
        disk, report := RecoveryReport(), is_version_2=format_2_from is not None
    )
    state = RecoveredState(
        queues=dict(checkpoint.queues),
        position=checkpoint.position,
        sequence=checkpoint.sequence,
        metadata_generation=checkpoint.metadata_generation,
        format_2_from=_format_2_from(checkpoint, format_2_from, report),
        next_base=checkpoint.position,
        report=report,
    )
    report.clean = checkpoint.clean
    report.begin_epoch = checkpoint.begin_epoch
    bases = _bases(disk)
    report.is_empty = not bases and not checkpoint.sequence
    state.has_missing = not checkpoint.segments.keys() <= set(bases)
    pending: list[QueueEntry] = []
    if not checkpoint.sequence and state.format_2_from is not None:
        _report_short(disk, bases, state)  # nothing lists what must be there
    for base in sorted({*bases, *checkpoint.segments}):
        pending += _read_segment(disk, base, checkpoint, state)
    _enter(pending, state)
    _drop_empty(disk, state)
    _count(state)
    report_lost_messages(state)
    return state


def _report_short(disk: Disk, bases: list[int], state: RecoveredState) -> None:
    """Segments that do not reach the next one, and the last one."""
    for base, following in pairwise([*bases, _FAR]):
        with closing(disk.open(segment_name(base))) as file:
            size = file.size()
        if following == _FAR:
            state.add_lost(LostRange(base, size, 0, SHORT))
        elif size < following - base:
            state.add_lost(LostRange(base, size, following - base - size, SHORT))


def _read_segment(
    disk: Disk, base: int, checkpoint: Checkpoint, state: RecoveredState
) -> list[QueueEntry]:
    """Open a segment; what it adds to the index."""
    listed = checkpoint.segments.get(base, 0)
    try:
        file = disk.open(segment_name(base))
    except FileNotFoundError:
        state.next_base = max(state.next_base, base + listed)
        known = read_index(disk, Segment(base, listed))
        state.add_lost(LostRange(base, 0, listed, MISSING, known))
        return []
    segment = Segment(base, file.size(), file, seed=state.seed(base))
    segment.sealed = True
    state.report.segments += 1
    whole = segment.end <= checkpoint.position
    entries = read_index(disk, segment) if whole else None
    listed = max(listed, segment.used)  # as the index says
    if entries is not None and segment.capacity >= listed:
        state.segments.append(segment)
        if not checkpoint.clean:
            file.sync()  # as after a scan
        return entries
    if whole:
        state.report.rebuilt.append(base)
    scan = SegmentScan(segment, state, listed=listed, is_whole=whole, known=entries)
    entries = scan.run()
    state.next_base = max(state.next_base, base + max(listed, segment.capacity))
    if scan.is_rubbish:
        # Perhaps the file of another segment: it is left as it is, for fsck.
        file.close()
        return []
    state.segments.append(segment)
    state.unindexed.append(segment)
    return entries


def _enter(found: list[QueueEntry], state: RecoveredState) -> None:
    """Index the records. A crash during compaction leaves messages twice."""
    bases = [segment.base for segment in state.segments]

    def settled(queue: int) -> Intervals:
        return state.queues[queue].settled

    def sound(entry: IndexEntry) -> list[bool]:
        segment = state.segments[bisect_right(bases, entry.position) - 1]
        return sound_messages(segment, entry)

    for queue, entry in found:
        index = state.queues.setdefault(queue, QueueIndex())
        index.next_offset = max(index.next_offset, entry.stop)
    for queue, entry in without_duplicates(found, settled, sound):
        state.queues[queue].add(entry)


def _drop_empty(disk: Disk, state: RecoveredState) -> None:
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


def _checkpoint(disk: Disk, report: RecoveryReport, *, is_version_2: bool) -> Checkpoint:
    found, wrong = load_checkpoints(disk)
    if found is None and not wrong and is_version_2 and _bases(disk):
        wrong.append(("checkpoint", "both checkpoints are missing"))
    for name, why in wrong:
        # The other one leads to the same state. Without any, acknowledgements in segments that are
        # gone are lost: some messages come again.
        rest = (
            "acknowledged messages may be delivered again" if found is None else "the other is used"
        )
        report.damaged(f"{name}: {why}; {rest}")
    return found or Checkpoint()


def _format_2_from(checkpoint: Checkpoint, noted: int | None, report: RecoveryReport) -> int | None:
    """As the checkpoint says, if there is one: it has a sum, and an old format file may be put
    back."""
    known = checkpoint.format_2_from
    if known is None or known == noted:
        return noted
    report.damaged(f"the format file does not belong to this commit log: {noted}, not {known}")
    return known


def find_format_2(disk: Disk) -> int | None:
    """From where on segments have the whole seed when no format file says it; None: nowhere."""
    found, _ = load_checkpoints(disk)
    if found is not None and found.format_2_from is not None:
        return found.format_2_from
    for base in _bases(disk):
        with closing(disk.open(segment_name(base))) as file:
            data = file.read(FIRST_BYTES, 0)
        if any(isinstance(step, SegmentRecord) for step in walk(data, base, segment_seed(base))):
            return base
    return None


def _bases(disk: Disk) -> list[int]:
    return sorted(base for name in disk.names() if (base := base_of(name)) is not None)


def _count(state: RecoveredState) -> None:
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


Sound = Callable[[IndexEntry], list[bool]]  # per message of the record: can it be read


def without_duplicates(
    found: list[QueueEntry], settled: Callable[[int], Intervals], sound: Sound
) -> Iterator[QueueEntry]:
    """Entries of all queues, in order, no two of them with the same offset of a queue.

    A crash can keep compaction from finishing. Copies of different attempts can overlap, and some
    may be damaged. What counts is that each message is found once and whole; one of the copies that
    compaction meant always covers all of them.
    """
    found.sort(key=lambda one: (one[0], one[1].first, -one[1].stop))
    queue, stop = -1, 0
    overlapping: list[IndexEntry] = []
    for number, entry in found:
        if number != queue or entry.first >= stop:
            yield from ((queue, one) for one in _chosen(overlapping, settled, queue, sound))
            queue, stop, overlapping = number, 0, []
        overlapping.append(entry)
        stop = max(stop, entry.stop)
    yield from ((queue, one) for one in _chosen(overlapping, settled, queue, sound))


def _chosen(
    entries: list[IndexEntry], settled: Callable[[int], Intervals], queue: int, sound: Sound
) -> list[IndexEntry]:
    """Of entries that overlap those which do not, and together hold the most messages."""
    if len(entries) < 2:
        return entries
    entries = sorted(entries, key=lambda one: one.stop)
    stops = [entry.stop for entry in entries]
    best: list[tuple[int, list[IndexEntry]]] = [(0, [])]  # among the first n
    for number, entry in enumerate(entries):
        worth = _worth(entry, settled(queue), sound(entry))
        before = best[min(number, bisect_right(stops, entry.first))]
        taken = (before[0] + worth, [*before[1], entry])
        best.append(taken if taken[0] > best[-1][0] else best[-1])
    return best[-1][1]


def _worth(entry: IndexEntry, settled: Intervals, sound: list[bool]) -> int:
    """Above all, messages that are alive and whole.

    Then those alive but damaged, which will be reported when they are read; then settled ones,
    which a queue may retain.
    """
    whole = alive = 0
    for low, high in settled.missing(entry.first, entry.stop):
        whole += sum(sound[low - entry.first : high - entry.first])
        alive += high - low
    return (whole << 64) + (alive << 32) + sum(sound[: entry.stop - entry.first])


def sound_messages(segment: Segment, entry: IndexEntry) -> list[bool]:
    """Which messages of a record can be read."""
    start = segment.read(entry.position, r.HEAD_SIZE)
    head = r.read_head(start)
    data = segment.read(entry.position, head.size) if head is not None else b""
    nothing = [False] * (entry.stop - entry.first)
    if head is None or head.kind != MESSAGES:
        return nothing
    seeds = (segment.seed, inner_seed(segment.seed))
    if not any(r.head_is_good(data, head, seed) for seed in seeds):
        return nothing
    return sound_contents(data, head, 0) or nothing


def sound_contents(data: bytes, head: r.RecordHead, at: int) -> list[bool] | None:
    """Message by message whether its sum is right; None if the head cannot be decoded."""
    messages = r.decode_messages(data, head, at) if head.kind == MESSAGES else None
    if messages is None:
        return None
    return [is_good for _, _, is_good in r.contents_of(data, messages, at)]
