"""What the log must not lose when something else went wrong, or when nothing did."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.store.api.message_log import DurabilityLevel, OutgoingMessages, RecordDestination
from headrace.store.disk import RealDisk
from headrace.store.log.commit_log import CommitLog
from headrace.store.log.compaction import CompactionRule
from headrace.store.tools.offline import LogDriver

SEGMENT = 4096


def open_log(directory: Path) -> LogDriver:
    log = CommitLog(RealDisk(directory), now_ms=lambda: 1000, segment_size=SEGMENT)
    return LogDriver(log)


def put(log: CommitLog, queue: int, contents: list[bytes]) -> range:
    first = log.reads.next_offset(queue)
    log.append(
        OutgoingMessages(
            contents,
            [RecordDestination(queue, first, len(contents))],
            DurabilityLevel.FSYNC,
            key="q",
        )
    )
    return range(first, first + len(contents))


def offsets(log: CommitLog, queue: int) -> list[int]:
    stored, _ = log.reads.read(queue, 0, log.reads.next_offset(queue), max_bytes=1 << 30)
    return [offset for one in stored for offset in one.offsets]


def crash(driver: LogDriver) -> None:
    """Stop without the orderly end: what was not committed is not there."""
    assert driver.log._writer is not None
    driver.log._writer.stop()
    driver.log.failed = RuntimeError("crashed")
    driver.log.close()


def forced(driver: LogDriver) -> bool:
    """A step of compaction, whatever a segment is worth."""
    driver.log.compactor.rule = CompactionRule(0, 0, 1.0)
    return driver.log.compactor.step()


def compact(driver: LogDriver, step: Callable[[], bool]) -> None:
    while step():
        driver.wait_for(lambda: not driver.log.is_writing)


def test_positions_go_on_behind_a_checkpoint_whose_segments_are_all_gone(tmp_path: Path) -> None:
    driver = open_log(tmp_path)
    driver.log.settle(1, put(driver.log, 1, [b"x" * 1000] * 3))
    driver.commit()
    driver.log.close()
    driver = open_log(tmp_path)
    while driver.log.compact_step():
        driver.wait_for(lambda: not driver.log.is_writing)
    driver.wait_for(lambda: not driver.log.is_writing)
    driver.log.close()
    assert not [*tmp_path.glob("*.log")]

    driver = open_log(tmp_path)
    done = put(driver.log, 1, [b"done"])
    driver.commit()
    driver.log.settle(1, done)
    driver.commit()
    crash(driver)

    driver = open_log(tmp_path)
    assert offsets(driver.log, 1) == []
    driver.log.close()


def test_a_segment_whose_messages_were_moved_after_the_checkpoint_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = open_log(tmp_path)
    (moving,) = put(driver.log, 1, [b"m" * 3000])
    driver.commit()
    put(driver.log, 2, [b"n" * 3000])  # the first segment is full now
    driver.commit()

    driver.wait_for(lambda: not driver.log.is_writing)

    driver.log.checkpoint()
    with driver.log.atomic():
        put(driver.log, 3, [b"m" * 3000])
        driver.log.settle(1, [moving])
    # The checkpoint is done while the group is still in memory only: now the power goes.
    monkeypatch.setattr(driver.log, "flush", lambda: None)
    monkeypatch.setattr(driver.log, "checkpoint", lambda: None)
    driver.wait_for(lambda: not driver.log.is_writing)
    crash(driver)

    driver = open_log(tmp_path)
    assert len(offsets(driver.log, 1)) + len(offsets(driver.log, 3)) == 1
    driver.log.close()


def test_compaction_loses_no_neighbour_of_a_damaged_message(tmp_path: Path) -> None:
    driver = open_log(tmp_path)
    put(driver.log, 1, [b"a" * 500, b"b" * 500, b"c" * 500, b"d" * 500])
    driver.log.settle(1, [0])
    driver.commit()
    driver.log.close()
    file = next(tmp_path.glob("*.log"))
    file.write_bytes(file.read_bytes().replace(b"ccc", b"c?c", 1))

    driver = open_log(tmp_path)
    compact(driver, lambda: forced(driver))

    assert offsets(driver.log, 1) == [1, 3]
    driver.log.close()


def damaged_log(directory: Path) -> LogDriver:
    """Four messages in queues 1 and 2; in queue 1 the first is settled, the third is damaged."""
    driver = open_log(directory)
    driver.log.append(
        OutgoingMessages(
            [b"a" * 500, b"b" * 500, b"c" * 500, b"d" * 500],
            [RecordDestination(1, 0, 4), RecordDestination(2, 0, 4)],
            DurabilityLevel.FSYNC,
            key="q",
        )
    )
    driver.log.settle(1, [0])
    driver.commit()
    driver.log.close()
    file = next(directory.glob("*.log"))
    file.write_bytes(file.read_bytes().replace(b"ccc", b"c?c", 1))
    return open_log(directory)


def test_compaction_counts_what_it_cannot_read(tmp_path: Path) -> None:
    driver = damaged_log(tmp_path)

    compact(driver, lambda: forced(driver))

    assert driver.log.reader.damaged == 2  # one in each queue
    assert [driver.log.reads.live(queue)[0] for queue in (1, 2)] == [2, 3]
    driver.log.close()


def test_a_damaged_message_is_logged_once_by_its_first_reader(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    driver = damaged_log(tmp_path)

    for _ in range(2):
        assert offsets(driver.log, 2) == [0, 1, 3]
    compact(driver, lambda: forced(driver))
    assert [offsets(driver.log, queue) for queue in (1, 2)] == [[1, 3], [0, 1, 3]]

    assert driver.log.reader.damaged == 2
    assert sum("lost" in text for text in caplog.messages) == 2
    driver.log.close()


def test_what_compaction_gave_up_is_not_found_again_after_a_crash(tmp_path: Path) -> None:
    driver = damaged_log(tmp_path)
    compact(driver, lambda: forced(driver))
    driver.commit()
    crash(driver)

    driver = open_log(tmp_path)

    assert [offsets(driver.log, queue) for queue in (1, 2)] == [[1, 3], [0, 1, 3]]
    assert driver.log.reader.damaged == 0
    driver.log.close()


def test_a_segment_that_dies_while_it_is_compacted_stays_until_that_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.store.log.compaction.STEP_BYTES", 1)
    driver = open_log(tmp_path)
    for _ in range(3):
        put(driver.log, 1, [b"a" * 1000])
    driver.log.settle(1, [0])
    driver.commit()
    driver.log.close()
    driver = open_log(tmp_path)

    assert forced(driver)
    driver.log.settle(1, range(3))
    driver.log.checkpoint()
    driver.wait_for(lambda: not driver.log.is_writing)
    compact(driver, lambda: forced(driver))
    compact(driver, driver.log.compact_step)

    assert offsets(driver.log, 1) == []
    driver.log.close()


def test_the_highest_queue_number_is_that_of_records_and_checkpoint(tmp_path: Path) -> None:
    driver = open_log(tmp_path)
    put(driver.log, 7, [b"a"])
    driver.commit()
    crash(driver)

    driver = open_log(tmp_path)
    driver.log.index.retain_only(set())

    assert driver.log.highest_queue == 7
    driver.log.close()


def test_a_cold_segment_that_fills_up_in_the_middle_of_a_move_keeps_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.store.log.compaction.STEP_BYTES", 1)
    driver = open_log(tmp_path)
    for _ in range(12):
        put(driver.log, 1, [b"a" * 100, b"b" * 700])
    driver.log.settle(1, range(0, 24, 2))
    driver.commit()
    driver.log.close()
    driver = open_log(tmp_path)
    log = driver.log
    log.compactor.rule = CompactionRule(0, 0, 0.51)

    while log.compactor.step():
        put(log, 2, [b"traffic"])  # every commit may be followed by a checkpoint
        driver.commit()
        driver.wait_for(lambda: not log.is_writing)
    driver.log.close()

    driver = open_log(tmp_path)
    assert offsets(driver.log, 1) == list(range(1, 24, 2))
    driver.log.close()
