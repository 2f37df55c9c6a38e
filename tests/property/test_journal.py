"""The log against a dict: the same after any traffic, restart, crash and compaction."""

from __future__ import annotations

import logging
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.store.api.message_log import DurabilityLevel, OutgoingMessages, RecordDestination
from headrace.store.log import compaction
from headrace.store.log.compaction import CompactionRule
from support.example_counts import examples
from support.faulty_disk import ForgetfulDisk
from support.storage.log_stage import LogStage

QUEUES = (1, 2, 3)
queues = st.sampled_from(QUEUES)
sizes = st.sampled_from((0, 1, 40, 700, 1500))
EAGER = CompactionRule(messages=1, size=1, alive=1.0)


class JournalMachine(RuleBasedStateMachine):
    """``now`` is what was asked for, ``safe`` what a crash of the broker must bring back."""

    def __init__(self) -> None:
        super().__init__()
        logging.disable(logging.CRITICAL)
        self.step = mock.patch.object(compaction, "STEP_BYTES", 500)
        self.step.start()
        self.stage = LogStage(ForgetfulDisk(), segment_size=1024, rule=EAGER)
        self.now: dict[int, dict[int, bytes]] = {queue: {} for queue in QUEUES}
        self.next = dict.fromkeys(QUEUES, 0)
        self.sent = 0

    def teardown(self) -> None:
        self.step.stop()
        logging.disable(logging.NOTSET)

    def _content(self, size: int) -> bytes:
        self.sent += 1
        return b"%d:" % self.sent + b"x" * size

    def _append(self, contents: list[bytes], targets: set[int], gap: int = 0) -> None:
        placed = [
            RecordDestination(queue, self.next[queue], len(contents)) for queue in sorted(targets)
        ]
        self.stage.log.append(OutgoingMessages(contents, placed, DurabilityLevel.FSYNC))
        for one in placed:
            self.next[one.queue] = one.first + one.count + gap
            self.now[one.queue] |= dict(enumerate(contents, one.first))

    @initialize(count=st.integers(0, 30))
    def begin(self, count: int) -> None:
        for number in range(count):
            self._append([self._content(100)], {number % 3 + 1, number % 2 + 1})
        self.stage.commit()

    @rule(count=st.integers(1, 4), size=sizes, where=st.sets(queues, min_size=1), gap=sizes)
    def publish(self, count: int, size: int, where: set[int], gap: int) -> None:
        self._append([self._content(size) for _ in range(count)], where, gap)

    @rule(queue=queues, every=st.integers(1, 5), skip=st.integers(0, 4))
    def settle(self, queue: int, every: int, skip: int) -> None:
        offsets = sorted(self.now[queue])[skip::every]
        self.stage.log.settle(queue, offsets)
        for offset in offsets:
            del self.now[queue][offset]

    @precondition(lambda self: any(self.now.values()))
    @rule(queue=queues, other=queues, which=st.integers(0, 50))
    def move(self, queue: int, other: int, which: int) -> None:
        offsets = sorted(self.now[queue])
        if not offsets or queue == other:
            return
        offset = offsets[which % len(offsets)]
        with self.stage.log.atomic():
            self._append([self.now[queue].pop(offset)], {other})
            self.stage.log.settle(queue, [offset])

    @rule()
    def flush(self) -> None:
        self.stage.log.flush()

    @rule()
    def work(self) -> None:
        self.stage.writer.work()

    @rule()
    def call_back(self) -> None:
        self.stage.writer.call_back()

    @rule()
    def tidy(self) -> None:
        self.stage.log.compact_step()

    @rule()
    def checkpoint(self) -> None:
        self.stage.log.checkpoint()

    @rule()
    def restart(self) -> None:
        self.stage.restart()
        self._check_offsets()

    @rule()
    def crash_after_a_commit(self) -> None:
        """Whatever compaction was doing is interrupted."""
        self.stage.log.flush()
        while self.stage.writer.work() or self.stage.writer.call_back():
            pass
        self.stage.log.compact_step()
        self.stage.writer.work()
        self.stage.crash()
        self._check_offsets()

    def _check_offsets(self) -> None:
        for queue in QUEUES:
            offset = self.stage.log.reads.next_offset(queue)
            assert offset <= self.next[queue]
            self.next[queue] = offset  # those behind were never stored

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        log = self.stage.log
        for queue, expected in self.now.items():
            waiting = {
                offset
                for start, stop in log._pending.settled.get(queue, [])
                for offset in range(start, stop)
            }
            held = {at: one for at, one in self.stage.held(queue).items() if at not in waiting}
            assert held == expected
            assert log.reader.damaged == 0

    @invariant()
    def counts_what_is_alive(self) -> None:
        log = self.stage.log
        live = sum(log.reads.live(queue)[0] for queue in QUEUES)
        assert sum(segment.live for segment in log.segments) == live
        assert all(segment.live >= 0 for segment in log.segments)


TestJournal = JournalMachine.TestCase
TestJournal.settings = settings(max_examples=examples(80), stateful_step_count=40)
