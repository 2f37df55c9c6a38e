"""fsck and restore: files that are gone, misnamed, sparse, or that the disk cannot read."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.errors import StoreError
from headrace.model.intervals import Intervals
from headrace.store import disk
from headrace.store.log.queue_index import QueueIndex
from headrace.store.log.segment import segment_name
from headrace.store.tools.backup import backup, restore
from headrace.store.tools.findings import Findings, RepairAction
from headrace.store.tools.fsck import check
from headrace.store.tools.repair import repair
from headrace.store.tools.segment_check import RecoveredIndex
from unit.store.tools.test_fsck import ORDERS, contents, data, mend, open_log, put, writing

__all__ = ["data"]


def fill(path: Path, *, crash: bool = False) -> list[bytes]:
    """Three messages to a segment, in four segments."""
    expected = [b"%02d" % number * 500 for number in range(12)]
    with writing(path, crash=crash) as log:
        for content in expected:
            put(log, ORDERS, content)
    return expected


def segments(path: Path) -> list[Path]:
    return sorted((path / "journal").glob("*.log"))


@pytest.mark.parametrize("has_index", [True, False])
def test_a_missing_segment_is_damage_with_its_messages(
    data: Path, tmp_path: Path, has_index: bool
) -> None:
    expected = fill(data)
    gone = segments(data)[1]
    gone.unlink()
    if not has_index:
        gone.with_suffix(".idx").unlink()

    findings = check(data)

    (place,) = findings.places
    assert (place.file, place.remedy) == (f"journal/{gone.name}", RepairAction.NOTE)
    assert place.lost == [(ORDERS, 3, 6)]
    with pytest.raises(StoreError, match="damaged"):
        restore(data, tmp_path / "restored")
    with pytest.raises(StoreError, match=gone.name):
        backup(data, tmp_path / "copy")
    assert mend(data).is_sound
    assert contents(data, ORDERS) == expected[:3] + expected[6:]


def misname(path: Path) -> list[Path]:
    one = segments(path)[1]
    other = one.with_name(segment_name(int(one.stem) + (1 << 32)))
    one.rename(other)
    return [one, other]


def swap(path: Path) -> list[Path]:
    one, other = segments(path)[1:3]
    kept = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(kept)
    return [one, other]


@pytest.mark.parametrize("crash", [True, False], ids=["crashed", "stopped"])
@pytest.mark.parametrize("has_index", [True, False])
@pytest.mark.parametrize("fault", [misname, swap])
def test_files_under_a_wrong_name_get_their_own_again(
    data: Path, fault: Callable[[Path], list[Path]], has_index: bool, crash: bool
) -> None:
    expected = fill(data, crash=crash)
    wrong = fault(data)
    for index in (data / "journal").glob("*.idx"):
        if not has_index:
            index.unlink()

    findings = check(data)
    assert {place.file for place in findings.places} >= {f"journal/{one.name}" for one in wrong}

    assert mend(data).is_sound
    assert contents(data, ORDERS) == expected


def test_a_file_that_is_no_segment_is_moved_away(data: Path) -> None:
    expected = fill(data)
    segments(data)[1].write_bytes(b"\xee" * 4096)

    findings = check(data)

    assert {place.remedy for place in findings.places} == {RepairAction.MOVE}
    assert mend(data).is_sound
    assert [one.name for one in (data / "lost+found").iterdir()] == [segment_name(4096)]
    assert contents(data, ORDERS) == expected[:3] + expected[6:]


@pytest.mark.parametrize("is_removed", [True, False], ids=["gone", "empty"])
def test_a_journal_that_is_gone_is_damage(data: Path, is_removed: bool) -> None:
    fill(data)
    for file in (data / "journal").iterdir():
        file.unlink()
    if is_removed:
        (data / "journal").rmdir()

    (place,) = check(data).places

    assert (place.file, "2 queues" in place.what) == ("journal", True)
    assert mend(data).is_sound


def test_a_sparse_segment_takes_no_memory(data: Path) -> None:
    expected = fill(data, crash=True)
    last = segments(data)[-1]
    os.truncate(last, 1 << 40)

    assert check(data).is_sound
    assert contents(data, ORDERS) == expected  # by recovery, which cuts it
    assert last.stat().st_size < 1 << 20


# -- sectors that cannot be read -----------------------------------------------------------------


class BadSector:
    """One sector of one file, by its inode: a copy of the file is good."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, file: Path, at: int) -> None:
        self._inode = file.stat().st_ino
        self._sector = at // 512
        self._read = os.pread
        monkeypatch.setattr(disk.os, "pread", self.read)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        is_bad = offset // 512 <= self._sector <= (offset + size - 1) // 512
        if is_bad and os.fstat(fd).st_ino == self._inode:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return self._read(fd, size, offset)


@pytest.mark.parametrize("crash", [True, False], ids=["crashed", "stopped"])
def test_a_repair_copies_around_a_bad_sector(
    data: Path, crash: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [bytes([number + 65]) * 8000 for number in range(12)]
    with writing(data, crash=crash, first=b"first") as log:
        put(log, ORDERS, *expected)
    file = next(one for one in segments(data) if expected[5] in one.read_bytes())
    BadSector(monkeypatch, file, file.read_bytes().index(expected[5]) + 4096)

    findings = check(data)

    lost = {offset for place in findings.places for _, low, high in place.lost
            for offset in range(low, high)}  # fmt: skip
    assert 6 in lost
    assert lost <= {5, 6, 7}
    assert any(place.what == "the disk cannot read it" for place in findings.places)
    repair(data, findings)
    assert check(data).is_sound
    found = contents(data, ORDERS)
    assert found == [b"first", *(one for at, one in enumerate(expected, 1) if at not in lost)]


def test_a_broker_serves_the_rest_around_a_bad_sector(
    data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fill(data, crash=True)
    file = segments(data)[1]
    BadSector(monkeypatch, file, 1600)

    driver = open_log(data)
    found, _ = driver.log.reads.read(ORDERS, 0, 12, max_bytes=1 << 30)
    driver.log.close()

    offsets = {offset for one in found for offset in one.offsets}
    assert offsets >= {0, 1, 2, 6, 7, 8, 9, 10, 11}
    assert 4 not in offsets
    assert f"{file.name}: bytes" in caplog.text


def test_settled_messages_of_an_empty_queue_are_not_lost() -> None:
    findings = Findings()
    findings.state.queues[1] = QueueIndex(3, Intervals(3))
    assert RecoveredIndex(findings, []).lost([(1, 0, 5)]) == [(1, 3, 5)]
