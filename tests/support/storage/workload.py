"""A random life of a log: traffic, power cuts and kills, and a judgement after each of them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from unittest import mock

from headrace.store.api.message_log import DurabilityLevel, OutgoingMessages, RecordDestination
from headrace.store.log import compaction
from headrace.store.log.commit_log import CommitLog
from headrace.store.log.compaction import CompactionRule
from headrace.store.log.group_commit import CommitJob
from headrace.store.log.segment import segment_name
from support.faulty_disk import ForgetfulDisk, PowerCut
from support.storage import manual_writer
from support.storage.manual_writer import HandWriter
from support.storage.promises import Copy, Ledger, found_in

QUEUES = (1, 2, 3, 4)
LIVES = 4
STEPS = 90

# operation, name, and whether the segment of that name is a cold one -> leave it out
Mutation = Callable[[str, str, bool], bool]


class Workload:
    """One seed."""

    def __init__(self, seed: int, mutation: Mutation | None = None) -> None:
        self.rng = Random(seed)
        self._mutation = mutation
        self._segment_size = self.rng.choice((1024, 2048, 4096, 32768))
        self._checkpoint_every = self.rng.choice((2048, 16384, 1 << 20))
        self._rule = CompactionRule(messages=3, size=1024, alive=self.rng.choice((0.5, 1.0)))
        self.ledger = Ledger()
        self.disk = self._prepared(ForgetfulDisk())
        self.log: CommitLog
        self._writer: HandWriter
        self._next: dict[int, int] = {}
        self._readable = dict.fromkeys(QUEUES, 0)  # the end that a reader by offset was shown
        self._now = 1000
        self._is_recovering = False
        self._actions: list[tuple[Callable[[], object], int]] = [
            (self._publish, 8),
            (self._settle, 6),
            (self._move, 3),
            (self._expire, 2),
            (self._return, 1),
            (lambda: self.log.flush(), 6),
            (lambda: self._writer.work(), 7),
            (self._call_back, 7),
            (self._read_by_offset, 4),
            (lambda: self.log.checkpoint(), 1),
            (lambda: self.log.compact_step(), 4),
            (self._idle, 1),
        ]

    def run(self) -> None:
        with mock.patch.object(compaction, "STEP_BYTES", self.rng.choice((1, 1000, 1 << 20))):
            for _ in range(LIVES):
                self._open()
                self._live()
                self._die()
            self._open()

    # -- one life --------------------------------------------------------------------------------

    def _open(self) -> None:
        """Recover, maybe with a cut on the way; judge; and all that once more."""
        for _ in range(self.rng.randrange(3)):
            self.disk.fuse = self.rng.randrange(1, 12)
            self._recover_interrupted()
        self.disk.fuse = None
        self._recover()
        found = found_in(self.log, QUEUES)
        self.ledger.check(found)
        assert self._mutation is not None or self.log.reader.damaged == 0
        self._check_floors(found)
        self.ledger.begin_again(found)
        if self.rng.random() < 0.3:
            self._die()
            self._recover()
            self.ledger.check(found_in(self.log, QUEUES))
        self._next = {queue: self.log.reads.next_offset(queue) for queue in QUEUES}
        self._writer = manual_writer.start(self.log)
        self._writer.on_submit = lambda job: self.ledger.submitted()
        self._writer.on_done = self._done

    def _check_floors(self, found: dict[tuple[int, int], bytes]) -> None:
        """Readers of a topic begin at the floor: nothing may lie below it. No offset that a reader
        has seen is given to another message."""
        for queue in QUEUES:
            assert self.log.reads.next_offset(queue) >= self._readable[queue], (
                f"queue {queue} went back"
            )
            offsets = [offset for number, offset in found if number == queue]
            assert all(offset >= self.log.reads.floor(queue) for offset in offsets)
            times = [one.time for one in self.log.reads.extents(queue)]
            assert times == sorted(times)

    def _recover_interrupted(self) -> None:
        try:
            self._recover()
        except PowerCut:
            self.disk = self._prepared(self.disk.crash(self.rng))

    def _recover(self) -> None:
        self._is_recovering = True
        self.log = CommitLog(
            self.disk,
            lambda: self._now,
            segment_size=self._segment_size,
            checkpoint_every=self._checkpoint_every,
            compaction=self._rule,
        )
        self._is_recovering = False
        if self._mutation is None:
            assert self.log.report.damage == [], "a power cut leaves nothing damaged"

    def _live(self) -> None:
        actions, weights = zip(*self._actions, strict=True)
        if self.rng.random() < 0.7:
            self.disk.fuse = self.rng.randrange(20, 250)
        try:
            for action in self.rng.choices(actions, weights, k=self.rng.randrange(STEPS * 2)):
                action()
            if self.rng.random() < 0.1:
                self.log.close()
        except PowerCut:
            pass
        self.disk.fuse = None

    def _die(self) -> None:
        """Mostly the power goes; sometimes only the process does, and the disk forgets nothing."""
        if self.rng.random() < 0.8:
            self.disk = self._prepared(self.disk.crash(self.rng))

    def _prepared(self, disk: ForgetfulDisk) -> ForgetfulDisk:
        if self._mutation is not None:
            disk.ignores = self._ignores
        return disk

    def _ignores(self, operation: str, name: str) -> bool:
        assert self._mutation is not None
        if self._is_recovering:
            return self._mutation("recovery", name, False)
        cold = any(one.cold and segment_name(one.base) == name for one in self.log.segments)
        return self._mutation(operation, name, cold)

    def _done(self, job: CommitJob) -> None:
        self.ledger.written(synced=job.sync)

    # -- what happens in it ----------------------------------------------------------------------

    def _call_back(self) -> None:
        while self._writer.call_back():
            pass
        self.ledger.durable(self.log.durable)

    def _read_by_offset(self) -> None:
        """As a bulk reader does: it notes how far it has read, outside the broker."""
        queue = self.rng.choice(QUEUES)
        end = self.log.reads.readable_range(queue, self.log.synced).end
        self._readable[queue] = max(self._readable[queue], end)

    def _idle(self) -> None:
        """Nothing comes in: two checkpoints in a row, and dead segments are removed."""
        for _ in range(4):
            self.log.compact_step()
            self._writer.work()
            self._call_back()

    def _content(self) -> bytes:
        self.ledger.sent += 1
        size = self.rng.choice((0, 10, 100, 600, self.rng.randrange(2500)))
        return b"%06d:" % self.ledger.sent + self.rng.randbytes(size)

    def _publish(self) -> None:
        self._now += self.rng.randrange(10)
        contents = [self._content() for _ in range(self.rng.randrange(1, 5))]
        queues = self.rng.sample(QUEUES, self.rng.choice((1, 1, 2, 3)))
        level = DurabilityLevel.OS if self.rng.random() < 0.15 else DurabilityLevel.FSYNC
        placed = [self._placed(queue, len(contents)) for queue in queues]
        position = self._append(contents, placed, level)
        for one in placed:
            for number, content in enumerate(contents):
                self.ledger.add(content, level, (one.queue, one.first + number), position)

    def _placed(self, queue: int, count: int) -> RecordDestination:
        first = self._next[queue]
        # Messages that are not stored take numbers too.
        self._next[queue] = first + count + self.rng.choice((0, 0, 0, 2))
        return RecordDestination(queue, first, count)

    def _append(
        self, contents: list[bytes], placed: list[RecordDestination], level: DurabilityLevel
    ) -> int:
        return self.log.append(
            OutgoingMessages(contents, placed, level, exchange="x", key="k", channel_number=1)
        )

    def _chosen(self, queue: int) -> list[Copy]:
        """Some of a queue's messages, mostly from its beginning; one in ten is left for long."""
        live = [one for one in self.ledger.live(queue) if one.content[5:6] != b"7"]
        live = live or self.ledger.live(queue)
        at = self.rng.choice((0, 0, self.rng.randrange(len(live) + 1)))
        return live[at : at + self.rng.randrange(1, 8)]

    def _settle(self) -> None:
        queue = self.rng.choice(QUEUES)
        chosen = self._chosen(queue)
        if chosen:
            self.log.settle(queue, [one.places[-1][1] for one in chosen])
            self.ledger.settle(chosen)

    def _expire(self) -> None:
        """As retention of a topic does: the oldest go, record by record.

        Nothing is ever moved out of a topic, so records that something was moved out of stay: to
        settle it there again would outlive a move that got lost.
        """
        queue = self.rng.choice(QUEUES)
        oldest = next(self.log.reads.extents(queue), None)
        if oldest is None:
            return
        gone = range(oldest.first, oldest.stop)
        left = {place for one in self.ledger.copies for place in one.places[:-1]}
        if any((queue, offset) in left for offset in gone):
            return
        self.log.settle(queue, gone)
        self.ledger.settle([one for one in self.ledger.live(queue) if one.places[-1][1] in gone])

    def _return(self) -> None:
        queue = self.rng.choice(QUEUES)
        offsets = sorted(one.places[-1][1] for one in self._chosen(queue))
        if offsets:
            self.log.requeued(queue, offsets, self.rng.randrange(1, 4))

    def _move(self) -> None:
        """As dead letters go: out of one queue and into another, at once.

        Not twice within one commit: of three moves the middle one may get lost, and then the
        message is in two queues (it is never lost, and marked as redelivered).
        """
        queue, other = self.rng.sample(QUEUES, 2)
        moving = [
            one
            for one in self._chosen(queue)
            if one.level >= DurabilityLevel.FSYNC
            and (len(one.places) == 1 or one.known + 1 == len(one.places))
        ]
        if not moving:
            return
        with self.log.atomic():
            placed = self._placed(other, len(moving))
            self._append([one.content for one in moving], [placed], DurabilityLevel.FSYNC)
            self.log.settle(queue, [one.places[-1][1] for one in moving])
        for number, copy in enumerate(moving):
            self.ledger.moved(copy, (other, placed.first + number), self.log.end)
