"""The disk, and the double of it: the same answers, and only one of them forgets."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from headrace.store.disk import MAX_OPEN, Disk, RealDisk, RealFile
from support.faulty_disk import SECTOR, ForgetfulDisk, PowerCut
from support.open_files import descriptors

DISKS: dict[str, Callable[[Path], Disk]] = {
    "double": lambda directory: ForgetfulDisk(),
    "real": RealDisk,
}


@pytest.fixture(params=DISKS)
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return DISKS[request.param](tmp_path / "disk")


def test_files_hold_what_is_written_where_it_is_written(disk: Disk) -> None:
    file = disk.create("a", 10)
    file.write(b"xyz", 4)
    file.write(b"end", 12)
    file.sync()

    assert file.size() == 15
    assert file.read(100, 0) == bytes(4) + b"xyz" + bytes(5) + b"end"
    assert file.read(2, 5) == b"yz"
    assert file.read(5, 15) == b""
    file.close()
    file.close()


def test_files_are_cut_and_stretched(disk: Disk) -> None:
    file = disk.create("a")
    file.write(b"abcdef", 0)
    file.truncate(2)
    file.truncate(4)

    assert file.read(10, 0) == b"ab\x00\x00"
    file.close()


def test_names_come_go_and_change(disk: Disk) -> None:
    for name in ("b", "a", "c"):
        disk.create(name).close()
    disk.remove("b")
    disk.rename("a", "c")
    disk.sync_directory()

    assert list(disk.names()) == ["c"]


def test_a_name_is_created_once(disk: Disk) -> None:
    disk.create("a").close()

    with pytest.raises(FileExistsError):
        disk.create("a")


def test_an_open_file_outlives_its_name(disk: Disk) -> None:
    file = disk.create("a")
    file.write(b"x", 0)
    disk.remove("a")

    assert file.read(1, 0) == b"x"
    file.close()


# -- the real one -------------------------------------------------------------------------------


def test_files_and_directory_are_for_their_owner_only(tmp_path: Path) -> None:
    RealDisk(tmp_path / "disk").create("a", 100).close()

    assert stat.S_IMODE((tmp_path / "disk").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "disk" / "a").stat().st_mode) == 0o600


def test_a_file_for_which_there_is_no_room_is_not_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "posix_fallocate", full)

    with pytest.raises(OSError, match="full"):
        RealDisk(tmp_path).create("a", 100)
    assert list(RealDisk(tmp_path).names()) == []


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, data[:3], at))
    file = RealDisk(tmp_path).create("a")
    file.write(b"0123456789", 2)

    assert file.read(20, 0) == b"\x00\x000123456789"
    assert isinstance(file, RealFile)
    file.close()


def opened(directory: Path) -> list[str]:
    return [one for one in descriptors() if one.startswith(f"{directory}/")]


def test_few_of_many_files_are_open(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    files = [disk.create(f"{number:03}") for number in range(4 * MAX_OPEN)]
    for number, file in enumerate(files):
        file.write(b"%03d" % number, 0)
        file.sync()
        assert len(opened(tmp_path)) <= MAX_OPEN

    assert [int(file.read(3, 0)) for file in files] == list(range(len(files)))
    assert len(opened(tmp_path)) <= MAX_OPEN
    for file in files:
        file.close()
    assert opened(tmp_path) == []
    with pytest.raises(OSError, match="Bad file descriptor"):
        files[0].read(3, 0)


def test_files_that_are_used_or_not_synced_stay_open(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    written, descriptor = disk.create("written"), disk.create("lent")
    written.write(b"x", 0)
    with descriptor.descriptor() as fd:
        others = [disk.create(f"{number:03}") for number in range(2 * MAX_OPEN)]
        os.pwrite(fd, b"y", 0)
        assert {str(tmp_path / name) for name in ("written", "lent")} <= set(opened(tmp_path))
    written.sync()
    for other in others:
        other.size()

    assert not {str(tmp_path / name) for name in ("written", "lent")} & set(opened(tmp_path))
    assert (written.read(1, 0), descriptor.read(1, 0)) == (b"x", b"y")
    for file in (written, descriptor, *others):
        file.close()


def test_without_a_free_descriptor_files_that_are_not_used_make_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = RealDisk(tmp_path)
    files = [disk.create(f"{number:03}") for number in range(5)]
    real_open = os.open

    def limited(*args: object, **more: object) -> int:
        if len(opened(tmp_path)) >= 5:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real_open(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", limited)
    disk.sync_directory()
    files.append(disk.create("one-more"))
    assert len(opened(tmp_path)) == 5
    for file in files:
        file.write(b"x", 0)
        file.sync()

    for file in files[:5]:
        file.write(b"x", 0)  # unsynced: all five are needed
    with pytest.raises(OSError, match="Too many open files"):
        disk.open("one-more")
    for file in files:
        file.close()


# -- the forgetful one --------------------------------------------------------------------------


def outcomes(disk: ForgetfulDisk, name: str) -> set[bytes | None]:
    """What a file may be after a power cut; None: gone."""
    found: set[bytes | None] = set()
    for seed in range(200):
        after = disk.crash(Random(seed))
        found.add(bytes(after.contents(name)) if name in after.names() else None)
    return found


def test_what_is_synced_survives() -> None:
    disk = ForgetfulDisk()
    file = disk.create("a")
    file.write(b"x", 0)
    file.sync()
    disk.sync_directory()

    assert outcomes(disk, "a") == {b"x"}


def test_a_synced_file_without_a_synced_name_may_vanish() -> None:
    disk = ForgetfulDisk()
    file = disk.create("a")
    file.write(b"x", 0)
    file.sync()

    assert outcomes(disk, "a") == {None, b"x"}


def test_of_an_unsynced_write_any_sectors_may_survive() -> None:
    disk = ForgetfulDisk()
    file = disk.create("a", 2 * SECTOR)
    file.sync()
    disk.sync_directory()
    file.write(b"x" * SECTOR, SECTOR // 2)

    old, half = bytes(SECTOR // 2), b"x" * (SECTOR // 2)
    assert outcomes(disk, "a") == {
        old * 4,
        old + half * 2 + old,
        old + half + old * 2,
        old * 2 + half + old,
    }


def test_a_rename_happens_whole_or_not_at_all() -> None:
    disk = ForgetfulDisk()
    for name in ("old", "new"):
        file = disk.create(name)
        file.write(name.encode(), 0)
        file.sync()
    disk.sync_directory()
    disk.rename("new", "old")

    found = set()
    for seed in range(100):
        after = disk.crash(Random(seed))
        found.add(tuple((name, bytes(after.contents(name))) for name in after.names()))
    assert found == {(("new", b"new"), ("old", b"old")), (("old", b"new"),)}


def test_a_removal_that_is_not_synced_may_be_undone() -> None:
    disk = ForgetfulDisk()
    disk.create("a").sync()
    disk.sync_directory()
    disk.remove("a")

    assert outcomes(disk, "a") == {None, b""}


def test_the_power_cut_comes_at_the_chosen_step() -> None:
    disk = ForgetfulDisk()
    file = disk.create("a")
    disk.fuse = 2
    file.write(b"x", 0)

    with pytest.raises(PowerCut):
        file.sync()
    assert None in outcomes(disk, "a")
