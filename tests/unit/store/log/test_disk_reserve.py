"""The reserve: there in good times, given up in bad ones, and the writer's use of it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

import pytest

from headrace.store.disk import RealDisk, RealFile
from headrace.store.log.group_commit import RESERVE, CommitJob, DiskReserve, LogWriter


class SmallDisk(RealDisk):
    """A disk with room for so many bytes in files whose size is known from the beginning."""

    room = 100

    def create(self, name: str, size: int = 0) -> RealFile:
        if size > self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= size
        return super().create(name, size)

    def remove(self, name: str) -> None:
        self.room += (self.directory / name).stat().st_size
        super().remove(name)


@pytest.fixture
def disk(tmp_path_factory: pytest.TempPathFactory) -> SmallDisk:
    return SmallDisk(tmp_path_factory.mktemp("journal"))


def test_the_reserve_is_allocated_once(disk: SmallDisk) -> None:
    reserve = DiskReserve(disk, 80)

    assert reserve.set_aside()
    assert reserve.set_aside()
    assert (list(disk.names()), disk.room) == ([RESERVE], 20)


def test_the_reserve_is_not_allocated_without_room(disk: SmallDisk) -> None:
    assert not DiskReserve(disk, 200).set_aside()
    assert list(disk.names()) == []


def test_the_reserve_is_released_once(disk: SmallDisk) -> None:
    reserve = DiskReserve(disk, 80)
    reserve.set_aside()

    assert reserve.free()
    assert not reserve.free()
    assert disk.room == 100


def test_other_errors_are_not_hidden(disk: SmallDisk) -> None:
    os.rmdir(disk.directory)

    with pytest.raises(FileNotFoundError):
        DiskReserve(disk, 80).set_aside()


def make_writer(disk: SmallDisk, told: list[bool]) -> LogWriter:
    def call(callback: Callable[[], None]) -> None:
        callback()

    writer = LogWriter(disk, call, on_failure=lambda error: None, on_full=told.append)
    writer.reserve = DiskReserve(disk, 80)
    writer.reserve.set_aside()
    return writer


def test_a_full_disk_raises_an_alarm_and_the_reserve_is_used(disk: SmallDisk) -> None:
    told: list[bool] = []
    writer = make_writer(disk, told)

    def needs_room() -> None:
        disk.create("new", 50).close()

    writer.execute(CommitJob([], 0, sync=False, then=lambda job: None, task=needs_room))

    assert told == [True]
    assert list(disk.names()) == ["new"]


def test_a_full_disk_ends_a_writer_that_is_stopping(disk: SmallDisk) -> None:
    told: list[bool] = []
    writer = make_writer(disk, told)
    writer.start()
    writer.stop()

    with pytest.raises(OSError, match="No space"):
        writer.execute(
            CommitJob([], 0, sync=False, then=lambda job: None, task=lambda: needs_too_much(disk))
        )
    assert told == [True]


def needs_too_much(disk: SmallDisk) -> None:
    disk.create("new", 500)
