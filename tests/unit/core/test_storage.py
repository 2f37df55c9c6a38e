"""Storage as the core sees it: who waits for what, and for how long."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest

from headrace.core import storage as storage_module
from headrace.core.clock import Timers, VirtualClock
from headrace.core.loop_turn import LoopTurn
from headrace.core.storage import Storage
from headrace.store.api.rows import ExchangeRow, QueueRow
from headrace.store.log import commit_log as log_module
from headrace.store.paging_files import Scratch
from support.fake_loop import HandLoop
from support.faulty_disk import ForgetfulDisk
from support.memory_metadata import MemoryMetadata
from support.storage.log_stage import LogStage


class Session:
    """Counts how often it was flushed."""

    def __init__(self) -> None:
        self.marked = False
        self.flushed = 0

    def flush(self) -> None:
        self.marked = False
        self.flushed += 1


class LateMetadata(MemoryMetadata):
    """Commits when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.issued = self.committed = 0

    def save(self, row: object) -> int:
        self.issued += 1
        return self.issued


class StorageStage:
    """Storage with a log by hand and metadata that wait."""

    def __init__(self, directory: Path) -> None:
        self.hand = HandLoop()
        self.loop = cast(asyncio.AbstractEventLoop, self.hand)
        self.journal = LogStage(ForgetfulDisk())
        self.metadata = LateMetadata()
        self.storage = Storage(
            LoopTurn(self.loop),
            log=self.journal.log,
            metadata=self.metadata,
            scratch=Scratch(directory),
        )
        self.journal.log._on_durable = self.storage.log_committed
        self.storage.record_from_now_on(5)

    def commit_metadata(self) -> None:
        self.metadata.committed = self.metadata.issued
        self.storage.metadata_committed(self.metadata.committed)


@pytest.fixture
def stage(tmp_path: Path) -> StorageStage:
    return StorageStage(tmp_path)


def test_messages_are_durable_with_their_commit(stage: StorageStage) -> None:
    position = stage.journal.put(b"a")
    assert stage.storage.durable < position

    stage.journal.commit()

    assert stage.storage.durable >= position


def test_messages_wait_for_the_declarations_before_them(stage: StorageStage) -> None:
    stage.storage.save(QueueRow(5, "u", "/", "q"))
    first = stage.journal.put(b"a")
    stage.journal.commit()
    assert stage.storage.durable < first

    stage.commit_metadata()

    assert stage.storage.durable >= first


def test_messages_behind_others_that_wait_do_not_overtake_them(stage: StorageStage) -> None:
    stage.storage.save(QueueRow(5, "u", "/", "q"))
    stage.journal.put(b"a")
    stage.journal.commit()
    stage.metadata.committed = stage.metadata.issued  # on disk, but not told yet
    position = stage.journal.put(b"b")
    stage.journal.commit()
    assert stage.storage.durable < position

    stage.storage.metadata_committed(stage.metadata.committed)

    assert stage.storage.durable >= position


def test_sessions_that_wait_are_flushed_once_when_something_is_safe(stage: StorageStage) -> None:
    session = Session()
    stage.storage.wait(session)
    stage.storage.wait(session)
    stage.journal.put(b"a")
    stage.journal.commit()
    stage.hand.run()
    assert session.flushed == 1

    stage.journal.put(b"b")
    stage.journal.commit()
    stage.hand.run()
    assert session.flushed == 1


def test_queues_get_numbers_that_are_not_used_again(stage: StorageStage) -> None:
    assert [stage.storage.new_queue_number() for _ in range(3)] == [5, 6, 7]


def test_nothing_is_recorded_while_declarations_are_restored(tmp_path: Path) -> None:
    turn = LoopTurn(cast(asyncio.AbstractEventLoop, HandLoop()))
    metadata = LateMetadata()
    journal = LogStage(ForgetfulDisk()).log
    storage = Storage(turn, log=journal, metadata=metadata)

    storage.save(ExchangeRow("/", "x", "direct"))

    assert (storage.new_queue_number(), metadata.issued) == (None, 0)


def test_without_engines_no_caller_waits() -> None:
    storage = Storage(LoopTurn(cast(asyncio.AbstractEventLoop, HandLoop())))
    storage.record_from_now_on(1)
    storage.save(ExchangeRow("/", "x", "direct"))
    with storage.atomic():
        storage.flush()

    assert (storage.new_queue_number(), storage.issued, storage.durable) == (None, 0, 0)
    assert not storage.is_behind
    storage.close()


def test_publishers_wait_for_a_disk_that_is_behind(
    stage: StorageStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_module, "BEHIND_LIMIT", 1000)
    told: list[bool] = []
    stage.journal.put(b"a" * 2000)
    assert stage.storage.is_behind
    stage.storage.when_caught_up(lambda: told.append(True))

    stage.journal.commit()

    assert told == [True]
    assert not stage.storage.is_behind


def test_a_failure_is_reported(stage: StorageStage) -> None:
    seen: list[Exception] = []
    stage.storage.on_failure = seen.append
    error = OSError("gone")

    stage.storage.failed(error)

    assert seen == [error]
    assert stage.storage.has_failed


def test_space_is_freed_from_time_to_time(stage: StorageStage) -> None:
    clock = VirtualClock()
    timers = Timers(clock, stage.loop)
    stage.journal.put(b"a" * 3000)
    stage.journal.put(b"b" * 3000)
    stage.journal.commit()
    stage.journal.log.settle(1, [0])
    stage.journal.commit()
    before = len(stage.journal.log.segments)

    stage.storage.start_tidying(timers, lambda: None)
    for _ in range(2):  # a segment is removed by the second checkpoint that finds it dead
        clock.advance(storage_module.TIDY_IDLE_MS)
        stage.hand.run()
        stage.journal.commit()

    assert len(stage.journal.log.segments) < before
    timers.close()


def test_closing_makes_everything_safe(stage: StorageStage) -> None:
    position = stage.journal.put(b"a")

    stage.storage.close()

    assert stage.journal.log.durable >= position
    assert stage.journal.open().report.clean


def test_an_error_in_tidying_is_not_the_end_of_it(stage: StorageStage) -> None:
    clock = VirtualClock()
    calls: list[int] = []

    def fail() -> None:
        calls.append(clock.now_ms())
        raise OSError("made to fail")

    with pytest.raises(OSError, match="made to fail"):
        stage.storage.start_tidying(Timers(clock, stage.loop), fail)
    clock.advance(3 * storage_module.TIDY_IDLE_MS)

    assert len(calls) == 4


def test_only_work_that_is_not_on_disk_is_waited_for(
    stage: StorageStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(storage_module, "monotonic", lambda: now)
    monkeypatch.setattr(log_module, "monotonic", lambda: now)
    assert stage.storage.waited_seconds == 0

    stage.journal.put(b"a")
    now += 3
    assert stage.storage.waited_seconds == 3
    stage.journal.log.flush()
    now += 2
    stage.journal.put(b"b")
    assert stage.storage.waited_seconds == 5
    assert stage.journal.writer.work() and stage.journal.writer.call_back()
    now += 1
    assert stage.storage.waited_seconds == 1, "the first is done, the second is under way"
    stage.journal.commit()
    assert stage.storage.waited_seconds == 0

    stage.journal.log.checkpoint()
    now += 4
    assert stage.storage.waited_seconds == 4
