"""The commit log: one sequence of records for all queues, in segments.

The loop appends and never waits; the writer thread commits. What is known in memory, the books, can
be found again from the files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from time import monotonic, thread_time

from headrace.errors import StoreError
from headrace.model.intervals import join_ranges
from headrace.store.api.message_log import (
    CommitTimings,
    DurabilityLevel,
    LogReads,
    LogSpace,
    OutgoingMessages,
    PreparedRecords,
)
from headrace.store.disk import Disk
from headrace.store.failpoints import failpoint
from headrace.store.log import record as r
from headrace.store.log.appender import Appender, AtomicGroup, PendingAcks, ranges_of
from headrace.store.log.checkpointer import Checkpointer
from headrace.store.log.compaction import CompactionRule, Compactor
from headrace.store.log.group_commit import Buffer, CommitJob, DiskReserve, LogWriter
from headrace.store.log.log_index import LogIndex
from headrace.store.log.log_reads import CommitLogReads
from headrace.store.log.record_group import RecordGroup
from headrace.store.log.record_reader import RecordReader
from headrace.store.log.recovery import recover
from headrace.store.log.recovery_state import RecoveryReport
from headrace.store.log.segment import Segment
from headrace.store.log.segment_list import SegmentList
from headrace.wire.record_layout import REQUEUED, SETTLED

SEGMENT_SIZE = 32 << 20
CHECKPOINT_EVERY = 64 << 20  # bytes of log between checkpoints
SETTLE_AT_ONCE = 64  # ranges of offsets that are settled in the index between looks at the clock
SETTLE_SECONDS = 0.004  # of the processor, for that in one loop turn
OFFSETS_AT_ONCE = 4096  # of one range: each may have an entry of its own
MANY_UNINDEXED = 500_000  # so many ranges that wait for it take more time
ENCODE_AT_ONCE = 1 << 14  # bytes of a record; larger ones are left to the writer


class CommitLog:
    """See store.api.message_log.MessageLog for the promises."""

    def __init__(
        self,
        disk: Disk,
        now_ms: Callable[[], int],
        *,
        expiry_ms: Callable[[], int] | None = None,
        segment_size: int = SEGMENT_SIZE,
        checkpoint_every: int = CHECKPOINT_EVERY,
        compaction: CompactionRule | None = None,
        reserve: int = 0,
        format_2_from: int | None = 0,
    ) -> None:
        """``whole_seed_from`` is what the format file notes; see store/data_directory.py."""
        self._disk = disk
        self._now_ms = now_ms
        self._expiry_ms = expiry_ms or now_ms  # the time by which messages age
        self._reserve = reserve  # bytes set aside for a full disk
        state = recover(disk, format_2_from)
        self.report: RecoveryReport = state.report
        self.highest_queue = max(state.queues, default=0)  # as found
        # Behind the checkpoint too: its segments may be gone, and what lies before its position
        # would not be looked at after a crash.
        self.segments = SegmentList(
            disk,
            state.segments,
            start=state.next_base,
            size=segment_size,
            format_2_from=state.format_2_from,
        )
        for segment in state.unindexed:
            self.segments.index_later(segment)
        self.index = LogIndex(state.queues, self.segments)
        self.space: LogSpace = self.index
        self.reader = RecordReader(self.index, self.segments, self.settle)
        self.reads: LogReads = CommitLogReads(self.index, self.segments, self.reader)
        self.compactor = Compactor(
            self.index,
            self.segments,
            self.reader,
            compaction or CompactionRule(),
            idle=self._idle_segments,
            commit=self._commit_cold,
        )
        self.checkpointer = Checkpointer(
            disk, self.index, self.segments, state, every=checkpoint_every
        )
        self._hot = Appender(self.segments, self._roll)
        self._cold = self.compactor.cold
        self._after_cold: Callable[[], None] | None = None
        self.end = self.durable = self.synced = self.segments.next_base
        self.last_time = self.index.last_time()  # of what is stored
        self._ends: dict[int, int] = {}  # by queue: written, and not synced yet
        self._pending = PendingAcks()
        self._unindexed: deque[tuple[int, int, int]] = deque()  # settled, but for the index
        self._group: AtomicGroup | None = None
        self.is_grouping = False  # inside atomic(): what is appended cannot be read yet
        self._notes = self._pending  # where notes go: those of the group while there is one
        self._want_sync = False
        self._writer: LogWriter | None = None
        self._busy: CommitJob | None = None
        self._on_durable: Callable[[], None] = lambda: None
        self.failed: Exception | None = None
        self.commits = 0
        self.timings = CommitTimings()
        self._began: float | None = None  # when the first of the messages not committed came
        self._closed = False

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
        self.checkpointer.start(self.end)
        self._writer = LogWriter(self._disk, call_soon, failed, on_full)
        if self._reserve:
            self._writer.reserve = DiskReserve(self._disk, self._reserve)
        self._writer.start()

    def close(self, *, clean: bool = True) -> None:
        """Write everything, note a clean end, unless it is not the end of a broker."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._writer is not None and self.failed is None:
                self._finish(self._writer, clean=clean)
        finally:
            self.segments.close()

    def _finish(self, writer: LogWriter, *, clean: bool) -> None:
        """Write what is left. When that fails there is no clean end, and nothing is tried again."""
        self._take_pending_records()
        while self._unindexed:
            self._settle_some()
        writer.stop()
        try:
            if writer.error is not None:
                raise writer.error
            writer.execute(self._next_job(sync=True))
            failpoint("close.synced")
            self.durable = self.synced = self.end
            for segment in (self._hot.trim(), self._cold.trim()):
                if segment is not None:
                    self.segments.index_later(segment)
            self.checkpointer.finish(self.end, clean=clean)
        except Exception as error:
            self.failed = error
            raise StoreError(f"the commit log could not be written to its end: {error}") from error

    @property
    def is_writing(self) -> bool:
        """Whether a commit is under way."""
        return self._busy is not None

    @property
    def waiting_since(self) -> float | None:
        """When the oldest work that is not on disk yet came, by the monotonic clock."""
        return self._began if self._busy is None else self._busy.began

    # -- appending ------------------------------------------------------------------------------

    def append(self, out: OutgoingMessages) -> int:
        """Store messages once for all their queues; returns the position to wait for."""
        if self.failed is not None:
            raise StoreError(f"the commit log has failed: {self.failed}")
        if out.level >= DurabilityLevel.FSYNC:
            self._want_sync = True
        if self._began is None:
            self._began = monotonic()
        if self._group is not None:
            self._group.messages.append(out)
            # The group is appended as a whole when it is complete; wait for more than there is.
            return self.end + 1
        time = self._time()
        position, size = self._hot.append(
            lambda seed, synced: r.messages_parts(out, seed=seed, time=time, synced=synced)
        )
        self.end = position + size
        self.index.enter(out, position, size, time)
        self.reader.unwritten[position] = (time, out)
        return self.end

    def prepare(self) -> RecordGroup:
        return RecordGroup()

    def append_prepared(self, records: PreparedRecords, first_offsets: Mapping[int, int]) -> None:
        group = self._group
        assert group is not None and not group.messages and isinstance(records, RecordGroup)
        if self.failed is not None:
            raise StoreError(f"the journal has failed: {self.failed}")
        self._began = self._began or monotonic()
        records.first_offsets = first_offsets
        group.prepared = records

    def settle_ranges(self, ranges: list[tuple[int, int, int]]) -> None:
        self._notes.joined += ranges

    def settle(self, queue: int, offsets: Sequence[int]) -> None:
        """The messages are settled; logged with the next commit."""
        ranges = self._notes.settled.setdefault(queue, [])
        more = ranges_of(offsets)
        if ranges and more and ranges[-1][1] == more[0][0]:
            more[0] = (ranges.pop()[0], more[0][1])
        ranges += more

    def requeued(self, queue: int, offsets: Sequence[int], deliveries: int) -> None:
        """The messages were requeued; logged with the next commit."""
        ranges = join_ranges(ranges_of(offsets))
        self._notes.requeued += [(queue, start, stop, deliveries) for start, stop in ranges]

    @contextmanager
    def atomic(self) -> Iterator[None]:
        """Everything inside is one record. Nested use joins the outer one."""
        if self._group is not None:
            yield
            return
        group = self._group = AtomicGroup()
        self.is_grouping = True
        self._notes = group.notes
        try:
            yield
        finally:
            self._group = None
            self.is_grouping = False
            self._notes = self._pending
            self._append_group(group)
            for callback in group.afterwards:
                callback()

    def after_group(self, callback: Callable[[], None]) -> None:
        """Inside atomic(): call back when what is appended can be read."""
        assert self._group is not None
        self._group.afterwards.append(callback)

    def _append_group(self, group: AtomicGroup) -> None:
        if not group.messages and group.prepared is None:
            self._pending.add(group.notes)  # they need no company
            return
        time = self._time()
        size = group.measure()
        position, _ = self._hot.append(
            lambda seed, synced: ([partial(group.encode, seed, time, synced)], size)
        )
        self.end = position + size
        if (prepared := group.prepared) is not None:
            prepared.position, prepared.time = position + r.HEAD_SIZE, time
            self.index.enter_group(prepared)
            self.reader.unwritten_groups.append(prepared)
        for out, (at, length) in zip(group.messages, group.spots, strict=True):
            self.index.enter(out, position + at, length, time)
            self.reader.unwritten[position + at] = (time, out)
        self._settle_in_index(group.settled)
        self.index.requeue(group.notes.requeued)
        self._want_sync = True

    def _take_pending_records(self) -> None:
        """Turn what was settled and returned since the last commit into records."""
        notes = self._pending
        if notes.settled or notes.joined:
            settled = notes.settled_ranges()
            notes.settled, notes.joined = {}, []
            ranges = [one for one in settled if one[0] in self.index.queues]  # others are deleted
            if ranges:
                self._append_notes(SETTLED, ranges)
                self._settle_in_index(ranges)
        if notes.requeued:
            requeued = [one for one in notes.requeued if one[0] in self.index.queues]
            notes.requeued = []
            if requeued:
                self._append_notes(REQUEUED, requeued)
                self.index.requeue(requeued)

    def _append_notes(self, kind: int, ranges: Sequence[tuple[int, ...]]) -> None:
        time, size = self._time(), r.ranges_size(kind, len(ranges))
        encode = partial(r.ranges_bytes, kind, ranges, time=time)

        def record(seed: int, synced: int) -> tuple[list[Buffer], int]:
            if size > ENCODE_AT_ONCE:
                return [lambda: [encode(seed=seed, synced=synced)]], size
            return [encode(seed=seed, synced=synced)], size

        position, size = self._hot.append(record)
        self.end = position + size

    def _settle_in_index(self, ranges: list[tuple[int, int, int]]) -> None:
        """What takes long is done over several loop turns; until then segments count as fuller."""
        is_wide = any(stop - start > OFFSETS_AT_ONCE for _, start, stop in ranges)
        if is_wide or self._unindexed or len(ranges) > SETTLE_AT_ONCE:
            for queue, start, stop in ranges:
                for low in range(start, stop, OFFSETS_AT_ONCE):
                    self._unindexed.append((queue, low, min(low + OFFSETS_AT_ONCE, stop)))
            self._settle_some()
        else:
            self.index.settle(ranges)

    def _settle_some(self) -> None:
        waiting = self._unindexed
        if waiting:
            share = SETTLE_SECONDS if len(waiting) < MANY_UNINDEXED else 10 * SETTLE_SECONDS
            deadline = thread_time() + share
            while waiting and thread_time() < deadline:
                offsets = 0
                at_once: list[tuple[int, int, int]] = []
                while waiting and len(at_once) < SETTLE_AT_ONCE and offsets < OFFSETS_AT_ONCE:
                    at_once.append(waiting.popleft())
                    offsets += at_once[-1][2] - at_once[-1][1]
                self.index.settle(at_once)

    def _roll(self, segment: Segment) -> None:
        failpoint("journal.roll")
        self.segments.index_later(segment)

    def _time(self) -> int:
        """Store time never goes back, whatever the clock does."""
        self.last_time = max(self.last_time, self._now_ms())
        return self.last_time

    def settled_position(self) -> int:
        """Wait for it to know that everything settled so far is on disk."""
        if self._pending:
            self._take_pending_records()
            self._want_sync = True
        return self.end

    # -- committing -----------------------------------------------------------------------------

    def flush(self, *, sync: bool = False) -> None:
        """Submit what was appended to the writer, if it is idle; ``sync``: and what weaker levels
        have written without a sync."""
        self._want_sync = self._want_sync or sync
        if self._unindexed:
            self._settle_some()
        if self._busy is not None or self._writer is None or self.failed is not None:
            return
        self._take_pending_records()
        is_late = self._want_sync and self.synced < self.durable
        if self._hot.chunks or self._cold.chunks or self._after_cold is not None or is_late:
            self._submit(self._next_job())

    def _next_job(
        self,
        *,
        sync: bool = False,
        task: Callable[[], None] | None = None,
        done: Callable[[], None] | None = None,
    ) -> CommitJob:
        """Everything appended so far as one commit."""
        cold = self._cold.take_chunks()
        after, self._after_cold = self._after_cold, None
        sync = sync or self._want_sync or bool(cold)

        chunks, then = self._hot.take_chunks() + cold, self._committed
        job = CommitJob(chunks, self.end, sync=sync, then=then, task=task, done=done, after=after)
        self._want_sync = False
        job.ends, self.index.grown = self.index.grown, {}
        job.is_timed = self._began is not None
        job.began, self._began = self._began or monotonic(), None
        return job

    def _submit(self, job: CommitJob) -> None:
        assert self._writer is not None
        self._busy = job
        self._writer.submit(job)

    def _note_times(self, job: CommitJob) -> None:
        timings = self.timings
        timings.commits += 1
        timings.bytes += job.size
        timings.write_seconds += job.write_seconds
        if job.sync:
            timings.syncs += 1
            timings.sync.observe(job.sync_seconds)
        if job.is_timed:
            timings.confirm.observe(monotonic() - job.began)

    def _committed(self, job: CommitJob) -> None:
        """On the loop: the job is on disk as its messages asked."""
        if self._closed:
            return  # the last checkpoint lists what this one would remove
        if job.done is not None:
            job.done()
        if job.after is not None:
            job.after()
        self._busy = None
        self.commits += 1
        self._note_times(job)
        self.durable = job.end
        self._ends |= job.ends
        if job.sync:  # of all that was written before it, too
            self.synced = job.end
            self.index.synced(self._ends)
            self._ends = {}
            for chunk in job.chunks:
                chunk.segment.synced = chunk.stop
        chunks = self._hot.chunks
        self.reader.drop_written(chunks[0].segment.base + chunks[0].offset if chunks else None)
        self._on_durable()
        if self.checkpointer.is_due(self.end):
            self.checkpoint()
        self.flush()

    def _commit_cold(self, then: Callable[[], None]) -> None:
        """Write the copies with the next commit, synced; call back when they are on disk."""
        self._after_cold = then
        self.flush()

    # -- checkpoints and space ------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Note the state, so that recovery need not look behind it; then drop dead segments."""
        if self._busy is not None or self._writer is None or self.failed is not None:
            return
        self._take_pending_records()
        if self._unindexed:
            return  # the index is behind the log; it is tried again
        write, done = self.checkpointer.begin(self.end, self.compactor.needs)
        # The checkpoint speaks of everything before it, so all that must be on the disk first.
        self._submit(self._next_job(sync=True, task=write, done=done))

    def compact_step(self) -> bool:
        """Free space, a little at a time; False when there is nothing to do at present."""
        if self._writer is None or self.failed is not None:
            return False
        self._settle_some()
        is_removing = self.segments.remove_files()
        self.index.end_retention(self._expiry_ms())
        busy = self.compactor.step()
        if not busy and self._has_work_for_a_checkpoint():
            self.checkpoint()
        if self.synced < self.durable:
            self.flush(sync=True)
        return busy or is_removing or self.checkpointer.has_dead or bool(self._unindexed)

    def _has_work_for_a_checkpoint(self) -> bool:
        dead = any(not segment.live for segment in self._idle_segments())
        return dead or self.segments.has_unindexed

    def _idle_segments(self) -> list[Segment]:
        """Segments that are written to the end."""
        waiting = self._hot.chunks + self._cold.chunks + (self._busy.chunks if self._busy else [])
        return self.segments.idle({chunk.segment.base for chunk in waiting})
