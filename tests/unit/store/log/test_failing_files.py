"""Files that cannot be removed or opened: a warning and another attempt, never a halt."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.store.disk import RealDisk
from headrace.store.log import group_commit
from headrace.store.log.checkpoint_file import NAMES
from headrace.store.log.group_commit import RESERVE, DiskReserve
from headrace.store.log.segment import INDEX_SUFFIX, SUFFIX
from support.faulty_disk import ForgetfulDisk
from support.storage.log_stage import EAGER, LogStage
from unit.store.log.test_group_commit import Threaded, broken

ERRORS = (errno.EIO, errno.EPERM)


class StubbornDisk(ForgetfulDisk):
    """A disk that refuses to remove some of its files."""

    def __init__(self) -> None:
        super().__init__()
        self.error: int | None = None
        self.suffix = ""
        self.refused: list[str] = []

    def remove(self, name: str) -> None:
        if self.error is not None and name.endswith(self.suffix) and name in self.names():
            self.refused.append(name)
            raise OSError(self.error, os.strerror(self.error))
        super().remove(name)

    def named(self, suffix: str) -> list[str]:
        return [name for name in self.names() if name.endswith(suffix)]


@pytest.fixture
def disk() -> StubbornDisk:
    return StubbornDisk()


def fill(stage: LogStage, count: int = 12) -> None:
    """Messages of 1 KiB: three to a segment."""
    for number in range(count):
        stage.put(b"%d" % number * 500)
    stage.commit()


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("suffix", [SUFFIX, INDEX_SUFFIX])
def test_a_file_that_cannot_be_removed_does_not_stop_the_log(
    disk: StubbornDisk, error: int, suffix: str, caplog: pytest.LogCaptureFixture
) -> None:
    stage = LogStage(disk)
    fill(stage)
    stage.checkpoint()
    stage.log.settle(1, range(12))
    disk.error, disk.suffix = error, suffix

    with caplog.at_level(logging.WARNING):
        stage.checkpoint()
        stage.checkpoint()
    position = stage.put(b"next")
    stage.commit()

    assert disk.refused
    assert stage.log.durable >= position
    assert stage.held() == {12: b"next"}
    warnings = [one.getMessage() for one in caplog.records]
    assert len(warnings) == len(set(warnings)), "each file is reported once"


def test_a_file_that_could_not_be_removed_is_tried_again(disk: StubbornDisk) -> None:
    stage = LogStage(disk)
    fill(stage)
    stage.checkpoint()
    before = disk.named(SUFFIX)
    stage.log.settle(1, range(12))
    disk.error = errno.EPERM
    stage.checkpoint()
    assert set(before) <= {*disk.named(SUFFIX), *disk.refused}

    disk.error = None
    stage.compact()

    assert not set(before[:-1]) & set(disk.names())  # the last one is still written to
    assert not disk.named(INDEX_SUFFIX)


@pytest.mark.parametrize("end", [LogStage.restart, LogStage.crash])
def test_what_was_in_a_file_that_stayed_does_not_come_back(
    disk: StubbornDisk, end: Callable[[LogStage], object]
) -> None:
    stage = LogStage(disk, rule=EAGER)
    fill(stage)
    disk.error, disk.suffix = errno.EPERM, SUFFIX
    stage.log.settle(1, [0, 1, 3, 4, 6, 7, 9])
    stage.compact()  # moves the rest; the segments that it came from stay
    stage.log.settle(1, [2, 5])
    stage.checkpoint()
    stage.checkpoint()  # the second one that finds a segment dead removes it
    assert disk.refused

    end(stage)
    assert sorted(stage.held()) == [8, 10, 11]
    assert stage.log.reads.live(1)[0] == 3

    disk.error = None
    stage.checkpoint()
    stage.compact()
    assert sorted(stage.held()) == [8, 10, 11]
    assert not set(disk.refused) & set(disk.names())


@pytest.mark.parametrize("what", [NAMES[0], f"{0:020d}{INDEX_SUFFIX}"])
def test_a_leftover_of_a_crash_that_cannot_be_removed_is_left(
    disk: StubbornDisk, what: str
) -> None:
    disk.create(f"{what}.new").close()
    disk.error, disk.suffix = errno.EPERM, ".new"
    stage = LogStage(disk)
    fill(stage)
    stage.checkpoint()

    stage.crash()

    assert len(stage.held()) == 12
    assert what in disk.names()
    assert stage.log.report.rebuilt == []


def test_an_empty_segment_that_cannot_be_removed_does_not_keep_the_log_from_starting(
    disk: StubbornDisk,
) -> None:
    stage = LogStage(disk)
    fill(stage, 1)
    disk.create(f"{1 << 20:020d}{SUFFIX}", 4096).close()
    disk.error = errno.EIO

    stage.crash()
    position = stage.put(b"next")
    stage.commit()

    assert stage.log.durable >= position > 1 << 20
    stage.crash()
    assert stage.held()[1] == b"next"


def test_a_callback_that_fails_ends_the_log_instead_of_halting_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    threaded = Threaded(tmp_path)

    def fail() -> None:
        raise RuntimeError("made to fail")

    threaded.log._on_durable = fail
    threaded.put(b"a")
    threaded.wait_until(lambda: threaded.failures)

    assert str(threaded.log.failed) == "made to fail"
    assert "made to fail" in caplog.text
    threaded.log.close()


@pytest.mark.parametrize("action", ["create", "sync_directory"])
def test_too_many_open_files_are_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    monkeypatch.setattr(group_commit, "RETRY_SECONDS", 0.001)
    threaded = Threaded(tmp_path)
    position = threaded.put(b"a")
    threaded.wait_until(lambda: threaded.log.durable >= position)
    with monkeypatch.context() as patch:
        patch.setattr(RealDisk, action, broken(errno.EMFILE))
        position = threaded.put(b"b" * 4096)  # the next segment
        threaded.wait_until(lambda: threaded.full)  # so that an alarm is raised
        assert threaded.log.durable < position
    threaded.wait_until(lambda: threaded.log.durable >= position)

    assert threaded.failures == []
    assert not any(threaded.full)  # not for lack of room
    threaded.log.close()


def test_a_reserve_that_cannot_be_removed_is_not_the_end(disk: StubbornDisk) -> None:
    reserve = DiskReserve(disk, 100)
    assert reserve.set_aside()
    disk.error = errno.EIO

    assert not reserve.free()
    assert RESERVE in disk.names()
