"""The journal on a commit log: one sequence of records for all queues, in segments.

The loop appends and never waits; the writer thread commits. In memory there is an index per queue
and a count of what is alive per segment; both can be found again from the files.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from zlib import crc32

from headrace.errors import StoreError
from headrace.model.intervals import Intervals, join_ranges
from headrace.model.retention import Retention
from headrace.store.api import Level, Placed, Stored
from headrace.store.disk import Disk
from headrace.store.failpoints import passing
from headrace.store.log import record as r
from headrace.store.log.checkpoint import checkpoint_bytes, write_checkpoint
from headrace.store.log.compaction import Compactor, Rule
from headrace.store.log.index import Entry, QueueIndex
from headrace.store.log.recovery import (
    Report,
    entry_weight,
    index_bytes,
    recover,
    write_index,
)
from headrace.store.log.segment import Segment, index_name, segment_name
from headrace.store.log.writer import Chunk, Job, Writer

logger = logging.getLogger(__name__)

SEGMENT_SIZE = 32 << 20
CHECKPOINT_EVERY = 64 << 20  # bytes of log between checkpoints
_LOAD_BYTES = 1 << 18
_NOTHING = r.Messages("", "", 0, None, 0, (), (), (), 0)


class _Group:
    """Work collected inside atomic()."""

    __slots__ = ("messages", "returned", "settled")

    def __init__(self) -> None:
        self.messages: list[r.Outgoing] = []
        self.settled: list[tuple[int, int, int]] = []
        self.returned: list[tuple[int, int, int, int]] = []


class CommitLog:
    """See store.api.Journal for the promises."""

    def __init__(
        self,
        disk: Disk,
        now_ms: Callable[[], int],
        *,
        segment_size: int = SEGMENT_SIZE,
        checkpoint_every: int = CHECKPOINT_EVERY,
        compaction: Rule | None = None,
    ) -> None:
        self._disk = disk
        self._now_ms = now_ms
        self._segment_size = segment_size
        self._checkpoint_every = checkpoint_every
        state = recover(disk)
        self.report: Report = state.report
        self._queues = state.queues
        self._segments = state.segments  # by base
        self._bases = [segment.base for segment in state.segments]
        # Behind the checkpoint too: its segments may be gone, and what lies before its position
        # would not be looked at after a crash.
        ends = (one.base + max(one.capacity, 8) for one in self._segments)
        self._next_base = max([state.position, *ends])
        self.highest_queue = max(state.queues, default=0)  # as found
        self._active: Segment | None = None
        self._cold: Segment | None = None
        self.end = self.durable = self._next_base
        self._checkpoint_at = state.position
        self._last_time = 0
        self._settled: dict[int, list[tuple[int, int]]] = {}
        self._returned: list[tuple[int, int, int, int]] = []
        self._chunks: list[Chunk] = []
        self._want_sync = False
        self._unwritten: dict[int, tuple[int, r.Outgoing]] = {}  # not in their files yet
        self._busy: Job | None = None
        self._group: _Group | None = None
        self._sealed: list[Segment] = []  # waiting for their index files
        self._sealed_cold: list[Segment] = []  # the same, but their copies do not count yet
        self._checkpointing = False
        self._writer: Writer | None = None
        self._on_durable: Callable[[], None] = lambda: None
        self.failed: Exception | None = None
        self.damaged = 0  # messages that could not be read
        self.commits = 0
        self._closed = False
        self.compactor = Compactor(self, compaction or Rule())
        self._cold_chunks: list[Chunk] = []
        self._after_cold: Callable[[], None] | None = None

    # -- life -----------------------------------------------------------------------------------

    def start(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        *,
        on_durable: Callable[[], None],
        on_failure: Callable[[Exception], None],
        on_full: Callable[[bool], None],
    ) -> None:
        """Begin to write. The callbacks are made through ``call_soon``."""

        def failed(error: Exception) -> None:
            self.failed = error
            on_failure(error)

        self._on_durable = on_durable
        if self.report.clean:
            self._unmark_clean_end()
        self._writer = Writer(self._disk, call_soon, failed, on_full)
        self._writer.start()

    def _unmark_clean_end(self) -> None:
        """From now on only close() makes a clean end, also when nothing more is appended."""
        data = checkpoint_bytes(self._checkpoint_at, self._queues, clean=False)
        try:
            write_checkpoint(self._disk, data)
        except OSError as error:
            # A full disk must not keep consumers from what is there.
            logger.error("after a crash duplicates would not be marked as such: %s", error)

    def retain_only(self, queues: set[int]) -> None:
        """At start: messages of queues that are not declared are dead."""
        for number in set(self._queues) - queues:
            self.forget(number)

    def release_settled(self) -> None:
        """At start, once every queue has said what it retains: the rest need not be indexed."""
        for index in self._queues.values():
            index.release()

    def close(self, *, clean: bool = True) -> None:
        """Write everything, note a clean end, unless it is not the end of a broker."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._writer is not None and self.failed is None:
                self._finish(self._writer, clean=clean)
        finally:
            for segment in self._segments:
                if segment.file is not None:
                    segment.file.close()

    def _finish(self, writer: Writer, *, clean: bool) -> None:
        """Write what is left. When that fails there is no clean end, and nothing is tried again."""
        self._take_pending_records()
        writer.stop()
        try:
            if writer.error is not None:
                raise writer.error
            writer.carry_out(self._next_job(sync=True))
            passing("close.synced")
            self.durable = self.end
            self._trim_active()
            self._write_indexes()
            write_checkpoint(self._disk, checkpoint_bytes(self.end, self._queues, clean=clean))
        except Exception as error:
            self.failed = error
            raise StoreError(f"the journal could not be written to its end: {error}") from error

    def _trim_active(self) -> None:
        """At a clean end: give unused space back, so that the next start need not look at it."""
        for segment in (self._active, self._cold):
            if segment is not None and segment.file is not None:
                segment.file.truncate(segment.used)
                segment.file.sync()
                segment.capacity = segment.used
                self._sealed.append(segment)

    # -- what is there --------------------------------------------------------------------------

    def live(self, queue: int) -> tuple[int, int]:
        """How many messages of the queue are alive, and about how many bytes."""
        index = self._queues.get(queue)
        if index is None:
            return 0, 0
        count = size = 0
        for entry in index.entries():
            n = index.settled.count_missing(entry.first, entry.stop)
            count += n
            size += n * entry.weight
        return count, size

    def first_offset(self, queue: int) -> int:
        """The lowest offset that is still stored."""
        index = self._queues.get(queue)
        if index is None:
            return 0
        return next((entry.first for entry in index.entries()), index.next_offset)

    def next_offset(self, queue: int) -> int:
        index = self._queues.get(queue)
        return index.next_offset if index is not None else 0

    def segments(self) -> Sequence[Segment]:
        """For statistics: look, do not touch."""
        return self._segments

    @property
    def is_writing(self) -> bool:
        """Whether a commit is under way."""
        return self._busy is not None

    # -- appending ------------------------------------------------------------------------------

    def append(
        self,
        *,
        exchange: str,
        key: str,
        origin: int,
        ttl_ms: int | None,
        contents: Sequence[bytes],
        placed: Sequence[Placed],
        level: Level,
    ) -> int:
        """Store messages once for all their queues; returns the position to wait for."""
        if self.failed is not None:
            raise StoreError(f"the journal has failed: {self.failed}")
        if level >= Level.FSYNC:
            self._want_sync = True
        out = r.Outgoing(exchange, key, origin, ttl_ms, contents, placed, int(level))
        if self._group is not None:
            self._group.messages.append(out)
            # The group is appended as a whole when it is complete; wait for more than there is.
            return self.end + 1
        time = self._time()
        parts, size = r.messages_parts(out, base=self._base, time=time)
        if self._make_room(size):
            parts, size = r.messages_parts(out, base=self._base, time=time)
        self._put(parts, size)
        self._enter(out, self.end - size, size)
        return self.end

    @property
    def _base(self) -> int:
        """Of the active segment; sums are seeded with it."""
        return self._active.base if self._active is not None else -1

    def _time(self) -> int:
        """Store time never goes back, whatever the clock does."""
        self._last_time = max(self._last_time, self._now_ms())
        return self._last_time

    def _make_room(self, size: int) -> bool:
        """See that the active segment can take ``size`` bytes; True when it is a new one."""
        active = self._active
        if active is not None and active.used + size <= active.capacity:
            return False
        if active is not None:
            passing("journal.roll")
            active.sealed = True
            self._sealed.append(active)
        self._active = self._new_segment(size)
        self.end = self._active.base
        return True

    def _new_segment(self, size: int) -> Segment:
        segment = Segment(self._next_base, max(self._segment_size, size))
        self._next_base += segment.capacity
        self._segments.append(segment)
        self._bases.append(segment.base)
        return segment

    def _put(self, parts: list[bytes], size: int) -> None:
        segment = self._active
        assert segment is not None
        if not self._chunks or self._chunks[-1].segment is not segment:
            self._chunks.append(Chunk(segment, segment.used))
        self._chunks[-1].buffers += parts
        segment.used += size
        self.end = segment.base + segment.used

    def _enter(self, out: r.Outgoing, position: int, size: int) -> None:
        """Index an appended record."""
        segment = self._active
        assert segment is not None
        weight = entry_weight(size, len(out.contents), len(out.placed))
        time = self._last_time
        for one in out.placed:
            index = self._queues.get(one.queue)
            if index is None:
                index = self._queues[one.queue] = QueueIndex()
            index.add(Entry(one.first, one.first + one.count, position, weight, time))
            segment.total += one.count
            segment.live += one.count
            segment.live_bytes += one.count * weight
        self._unwritten[position] = (time, out)

    def settle(self, queue: int, offsets: Sequence[int]) -> None:
        """The messages are done with; noted with the next commit."""
        ranges = _ranges(offsets)
        if self._group is not None:
            self._group.settled += [(queue, start, stop) for start, stop in join_ranges(ranges)]
        else:
            self._settled.setdefault(queue, []).extend(ranges)

    def returned(self, queue: int, offsets: Sequence[int], deliveries: int) -> None:
        ranges = join_ranges(_ranges(offsets))
        notes = [(queue, start, stop, deliveries) for start, stop in ranges]
        if self._group is not None:
            self._group.returned += notes
        else:
            self._returned += notes

    @contextmanager
    def atomic(self) -> Iterator[None]:
        """Everything inside is one record. Nested use joins the outer one."""
        if self._group is not None:
            yield
            return
        self._group = _Group()
        try:
            yield
        finally:
            group, self._group = self._group, None
            self._append_group(group)

    def _append_group(self, group: _Group) -> None:
        if not group.messages:
            # Settlements alone need no company.
            for queue, start, stop in group.settled:
                self._settled.setdefault(queue, []).append((start, stop))
            self._returned += group.returned
            return
        time = self._time()
        parts, spots = self._group_parts(group, time)
        size = r.HEAD_SIZE + sum(map(len, parts))
        if self._make_room(size):
            parts, spots = self._group_parts(group, time)
        body = b"".join(parts)
        count = len(group.messages) + bool(group.settled) + bool(group.returned)
        head = r.group_head(body, count, base=self._base, time=time)
        self._put([head, body], size)
        start = self.end - size + r.HEAD_SIZE
        for out, (at, length) in zip(group.messages, spots, strict=True):
            self._enter(out, start + at, length)
        self._apply_settled(group.settled)
        self._apply_returned(group.returned)
        self._want_sync = True

    def _group_parts(self, group: _Group, time: int) -> tuple[list[bytes], list[tuple[int, int]]]:
        base = r.inner_base(self._base)
        parts: list[bytes] = []
        spots: list[tuple[int, int]] = []
        at = 0
        for out in group.messages:
            pieces, size = r.messages_parts(out, base=base, time=time)
            parts += pieces
            spots.append((at, size))
            at += size
        if group.settled:
            parts.append(r.settled_bytes(group.settled, base=base, time=time))
        if group.returned:
            parts.append(r.returned_bytes(group.returned, base=base, time=time))
        return parts, spots

    # -- settling -------------------------------------------------------------------------------

    def _take_pending_records(self) -> None:
        """Turn what was settled and returned since the last commit into records."""
        if self._settled:
            settled, self._settled = self._settled, {}
            ranges = [
                (queue, start, stop)
                for queue, found in settled.items()
                for start, stop in join_ranges(found)
            ]
            self._put_small(lambda base, time: r.settled_bytes(ranges, base=base, time=time))
            self._apply_settled(ranges)
        if self._returned:
            notes, self._returned = self._returned, []
            self._put_small(lambda base, time: r.returned_bytes(notes, base=base, time=time))
            self._apply_returned(notes)

    def _put_small(self, encode: Callable[[int, int], bytes]) -> None:
        time = self._time()
        data = encode(self._base, time)
        if self._make_room(len(data)):
            data = encode(self._base, time)
        self._put([data], len(data))

    def _apply_settled(self, ranges: list[tuple[int, int, int]]) -> None:
        for queue, start, stop in ranges:
            index = self._queues.get(queue)
            if index is None:
                continue
            for entry in index.entries(start, stop):
                low, high = max(start, entry.first), min(stop, entry.stop)
                if index.retention is None:
                    self._lower(entry, index.settled.count_missing(low, high))
            index.settled.add(start, stop)
            index.release()

    def _lower(self, entry: Entry, count: int) -> None:
        segment = self._segment_at(entry.position)
        segment.live -= count
        segment.live_bytes -= count * entry.weight

    def _apply_returned(self, notes: list[tuple[int, int, int, int]]) -> None:
        for queue, start, stop, deliveries in notes:
            index = self._queues.get(queue)
            if index is not None:
                index.returned.append((start, stop, deliveries))

    def suspect_all(self) -> None:
        """After a crash: nobody noted what was being delivered, so it may have been anything."""
        for index in self._queues.values():
            stop = index.next_offset
            # First, so that whatever was noted of a message counts more than the suspicion.
            others = [one for one in index.returned if one[2] > 1 or one[1] > stop]
            index.returned = [(index.settled.floor, stop, 1), *others]

    def settled_position(self) -> int:
        """Wait for it to know that everything settled so far is on disk."""
        if self._settled or self._returned:
            self._take_pending_records()
            self._want_sync = True
        return self.end

    def forget(self, queue: int) -> None:
        """The queue is deleted: its messages are dead."""
        self._settled.pop(queue, None)
        self._returned = [one for one in self._returned if one[0] != queue]
        index = self._queues.pop(queue, None)
        if index is None:
            return
        for entry in index.entries():
            self._lower(entry, index.gone.count_missing(entry.first, entry.stop))

    def set_retention(self, queue: int, retention: Retention | None) -> None:
        """From now on, keep settled messages of the queue that long; None: not at all."""
        index = self._queues.get(queue)
        if index is None:
            if retention is None:
                return
            index = self._queues[queue] = QueueIndex()
        had, index.retention = index.retention, retention
        if (had is None) == (retention is None):
            return
        gone = index.settled if retention is None else Intervals(self.first_offset(queue))
        for entry in index.entries():
            before = index.gone.count_missing(entry.first, entry.stop)
            self._lower(entry, before - gone.count_missing(entry.first, entry.stop))
        index.gone = gone
        index.release()

    def _end_retention(self) -> None:
        """Let go of settled messages that were kept long enough."""
        now = self._time()
        for index in self._queues.values():
            retention = index.retention
            if retention is None:
                continue
            kept = sum((entry.stop - entry.first) * entry.weight for entry in index.entries())
            for entry in list(index.entries()):
                settled = index.settled.count_missing(entry.first, entry.stop) == 0
                if not settled or not retention.ends(stored_at=entry.time, now=now, kept=kept):
                    break
                self._lower(entry, index.gone.count_missing(entry.first, entry.stop))
                index.gone.add(index.gone.floor, entry.stop)
                kept -= (entry.stop - entry.first) * entry.weight
            index.release()

    # -- compaction -----------------------------------------------------------------------------

    def tidy(self) -> bool:
        """Free space, a little at a time; False when there is nothing to do at present."""
        if self._writer is None or self.failed is not None:
            return False
        self._end_retention()
        busy = self.compactor.step()
        if not busy and self._cold is not None and not self._cold.live:
            self._sealed.append(self._cold)
            self._cold = None
        if not busy and self._has_dead_segment():
            self.checkpoint()
        return busy

    def _has_dead_segment(self) -> bool:
        idle = self.idle_segments()
        return any(not segment.live for segment in idle) or bool(self._sealed)

    def idle_segments(self) -> list[Segment]:
        """Segments that are written to the end."""
        waiting = self._chunks + self._cold_chunks + (self._busy.chunks if self._busy else [])
        unfinished = {chunk.segment.base for chunk in waiting}
        return [
            segment
            for segment in self._segments
            if segment is not self._active
            and segment is not self._cold
            and segment.file
            and segment.base not in unfinished
        ]

    def records_in(self, segment: Segment) -> Iterator[tuple[int, list[tuple[int, Entry]]]]:
        """Positions of records with live messages, and in which queues they are."""
        holders: dict[int, list[tuple[int, Entry]]] = {}
        for number, index in self._queues.items():
            for entry in index.entries():
                if segment.base <= entry.position < segment.end:
                    holders.setdefault(entry.position, []).append((number, entry))
        return iter(sorted(holders.items()))

    def is_alive(self, queue: int, offset: int) -> bool:
        index = self._queues.get(queue)
        return index is not None and offset not in index.gone

    def read_record(self, position: int) -> tuple[r.Messages, list[bytes | None]]:
        """A whole record; None for each damaged message."""
        segment = self._segment_at(position)
        messages = self._read_head(segment, position)
        if messages is None:
            return _NOTHING, []
        data = segment.read(position + messages.head_size, sum(messages.lengths))
        contents: list[bytes | None] = []
        at = 0
        for length, crc in zip(messages.lengths, messages.crcs, strict=True):
            content = data[at : at + length]
            at += length
            contents.append(content if crc32(content) == crc else None)
        return messages, contents

    def append_cold(self, out: r.Outgoing, time: int) -> list[tuple[int, Entry]]:
        """Copy messages to the cold segment; they count from swap() on."""
        cold = self._cold
        base = cold.base if cold is not None else -1
        parts, size = r.messages_parts(out, base=base, time=time)
        if cold is None or cold.used + size > cold.capacity:
            if cold is not None:
                cold.sealed = True
                self._sealed_cold.append(cold)
            cold = self._cold = self._new_segment(size)
            cold.cold = True
            parts, size = r.messages_parts(out, base=cold.base, time=time)
        if not self._cold_chunks or self._cold_chunks[-1].segment is not cold:
            self._cold_chunks.append(Chunk(cold, cold.used))
        self._cold_chunks[-1].buffers += parts
        position = cold.base + cold.used
        cold.used += size
        weight = entry_weight(size, len(out.contents), len(out.placed))
        return [
            (one.queue, Entry(one.first, one.first + one.count, position, weight, time))
            for one in out.placed
        ]

    def commit_cold(self, then: Callable[[], None]) -> None:
        """Write the copies with the next commit, synced; call back when they are on disk."""
        self._after_cold = then
        self.flush()

    def swap(self, segment: Segment, entries: dict[int, list[Entry]]) -> None:
        """The copies take the place of what is left in ``segment``."""
        for number, index in self._queues.items():
            moved = entries.get(number, [])
            if not moved and not any(
                segment.base <= entry.position < segment.end for entry in index.entries()
            ):
                continue
            index.replace(segment.base, segment.end, moved)
            for entry in moved:
                new = self._segment_at(entry.position)
                live = index.gone.count_missing(entry.first, entry.stop)
                new.total += entry.stop - entry.first
                new.live += live
                new.live_bytes += live * entry.weight
            index.release()
        segment.live = segment.live_bytes = 0
        self._sealed += self._sealed_cold
        self._sealed_cold = []

    # -- committing -----------------------------------------------------------------------------

    def flush(self) -> None:
        """Hand what was appended to the writer, if it is free."""
        if self._busy is not None or self._writer is None or self.failed is not None:
            return
        self._take_pending_records()
        if not self._chunks and not self._cold_chunks and self._after_cold is None:
            return
        self._submit(self._next_job())

    def _next_job(self, *, sync: bool = False, task: Callable[[], None] | None = None) -> Job:
        """Everything appended so far as one commit."""
        cold, self._cold_chunks = self._cold_chunks, []
        after, self._after_cold = self._after_cold, None
        sync = sync or self._want_sync or bool(cold)

        def then(job: Job) -> None:
            if after is not None:
                after()
            self._committed(job)

        job = Job(self._chunks + cold, self.end, sync=sync, then=then, task=task)
        self._chunks = []
        self._want_sync = False
        return job

    def _submit(self, job: Job) -> None:
        assert self._writer is not None
        self._busy = job
        self._writer.submit(job)

    def _committed(self, job: Job) -> None:
        """On the loop: the job is on disk as its messages asked."""
        self._busy = None
        self.commits += 1
        self.durable = job.end
        if self._unwritten:
            if self._chunks:
                first = self._chunks[0].segment.base + self._chunks[0].offset
                self._unwritten = {at: one for at, one in self._unwritten.items() if at >= first}
            else:
                self._unwritten.clear()
        self._on_durable()
        if self._sealed or self.end - self._checkpoint_at >= self._checkpoint_every:
            self.checkpoint()
        self.flush()

    def checkpoint(self) -> None:
        """Note the state, so that recovery need not look behind it; then drop dead segments."""
        if self._checkpointing or self._writer is None or self.failed is not None:
            return
        if self._busy is not None:
            return
        self._take_pending_records()
        position = self.end
        data = checkpoint_bytes(position, self._queues, clean=False)
        dead = self._dead_segments(position)
        sealed, self._sealed = self._sealed, []
        indexes = [(segment.base, self._index_of(segment)) for segment in sealed]
        self._checkpointing = True

        def task() -> None:
            for base, index in indexes:
                write_index(self._disk, base, index)
            write_checkpoint(self._disk, data)

        # The checkpoint speaks of everything before it, so all that must be on the disk first.
        job = self._next_job(sync=True, task=task)
        then = job.then

        def done(job: Job) -> None:
            self._checkpointing = False
            self._checkpoint_at = position
            for segment in dead:
                self._remove(segment)
            then(job)

        job.then = done
        self._submit(job)

    def _index_of(self, segment: Segment) -> bytes:
        entries = [
            (number, entry)
            for number, index in self._queues.items()
            for entry in index.entries()
            if segment.base <= entry.position < segment.end
        ]
        return index_bytes(entries, segment.used)

    def _write_indexes(self) -> None:
        for segment in self._sealed:
            write_index(self._disk, segment.base, self._index_of(segment))
        self._sealed = []

    def _dead_segments(self, position: int) -> list[Segment]:
        """Segments with nothing alive whose records a checkpoint there takes over.

        Asked when the checkpoint is taken: what was settled since then may not be on disk.
        """
        return [
            segment
            for segment in self._segments
            if not segment.live
            and segment is not self._active
            and segment is not self._cold
            # A cold segment holds only copies, nothing a checkpoint would have to take over.
            and (segment.cold or segment.end <= position)
            and segment is not self.compactor.segment  # which is being read
            and segment not in self._sealed_cold  # whose copies do not count yet
            and segment.file is not None
        ]

    def _remove(self, segment: Segment) -> None:
        passing("segment.remove")
        self._segments.remove(segment)
        self._bases.remove(segment.base)
        assert segment.file is not None
        segment.file.close()
        names = set(self._disk.names())
        for name in (index_name(segment.base), segment_name(segment.base)):
            if name in names:
                self._disk.remove(name)
        passing("segment.removed")

    # -- reading --------------------------------------------------------------------------------

    def _segment_at(self, position: int) -> Segment:
        return self._segments[bisect_right(self._bases, position) - 1]

    def read_from(
        self,
        queue: int,
        start: int,
        stop: int,
        *,
        max_bytes: int = _LOAD_BYTES,
        with_settled: bool = False,
    ) -> tuple[list[Stored], int]:
        """Messages of start .. stop - 1, record by record, about ``max_bytes`` of them.

        Returns them and the offset at which to go on. Damaged ones are counted and left out.
        """
        index = self._queues.get(queue)
        if index is None:
            return [], stop
        loaded: list[Stored] = []
        size = 0
        for entry in index.entries(start, stop):
            if size >= max_bytes:
                return loaded, entry.first
            low, high = max(start, entry.first), min(stop, entry.stop)
            ranges = [(low, high)] if with_settled else list(index.settled.missing(low, high))
            if ranges:
                found = self._load(queue, index, entry, ranges)
                size += sum(len(content) for one in found for content in one.contents)
                loaded += found
        return loaded, stop

    def _load(
        self, queue: int, index: QueueIndex, entry: Entry, ranges: list[tuple[int, int]]
    ) -> list[Stored]:
        unwritten = self._unwritten.get(entry.position)
        if unwritten is not None:
            time, out = unwritten
            route = (out.exchange, out.key, out.origin, out.ttl_ms, time)
            pieces = [
                (offset, out.contents[offset - entry.first])
                for low, high in ranges
                for offset in range(low, high)
            ]
        else:
            messages, pieces = self._read_record(queue, entry, ranges)
            route = messages[:5]
        # Messages delivered a different number of times cannot share a run; and none overtakes.
        found: list[Stored] = []
        offsets: list[int] = []
        for offset, content in pieces:
            deliveries = index.deliveries(offset) if index.returned else 0
            if not found or found[-1].deliveries != deliveries:
                offsets = []
                found.append(Stored(*route, deliveries, offsets, []))
            offsets.append(offset)
            found[-1].contents.append(content)
        return found

    def _read_record(
        self, queue: int, entry: Entry, ranges: list[tuple[int, int]]
    ) -> tuple[r.Messages, list[tuple[int, bytes]]]:
        segment = self._segment_at(entry.position)
        messages = self._read_head(segment, entry.position)
        if messages is None:
            self._report_damage(queue, ranges, f"the record at {entry.position} is damaged")
            return _NOTHING, []
        lengths, crcs = messages.lengths, messages.crcs
        skip = ranges[0][0] - entry.first
        start = entry.position + messages.head_size + sum(lengths[:skip])
        last = ranges[-1][1] - entry.first
        data = segment.read(start, sum(lengths[skip:last]))
        pieces: list[tuple[int, bytes]] = []
        at = 0
        wanted = iter(ranges)
        low, high = next(wanted)
        for number in range(skip, last):
            offset = entry.first + number
            if offset >= high:
                low, high = next(wanted)
            content = data[at : at + lengths[number]]
            at += lengths[number]
            if offset < low:
                continue
            if crc32(content) != crcs[number]:
                self._report_damage(queue, [(offset, offset + 1)], "its checksum is wrong")
            else:
                pieces.append((offset, content))
        return messages, pieces

    def _read_head(self, segment: Segment, position: int) -> r.Messages | None:
        data = segment.read(position, 4096)
        head = r.read_head(data)
        if head is None or head.kind != r.MESSAGES:
            return None
        if head.head_size > len(data):
            data = segment.read(position, head.head_size)
        inner = r.inner_base(segment.base)
        if not r.head_is_good(data, head, segment.base) and not r.head_is_good(data, head, inner):
            return None
        return r.decode_messages(data, head)

    def _report_damage(self, queue: int, ranges: list[tuple[int, int]], why: str) -> None:
        for start, stop in ranges:
            self.damaged += stop - start
            logger.error(
                "messages %d to %d of queue number %d are lost: %s", start, stop - 1, queue, why
            )
            self.settle(queue, range(start, stop))


def _ranges(offsets: Sequence[int]) -> list[tuple[int, int]]:
    if isinstance(offsets, range) and offsets.step == 1:
        return [(offsets.start, offsets.stop)] if offsets else []
    return [(offset, offset + 1) for offset in offsets]
