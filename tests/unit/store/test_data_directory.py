"""The data directory: one owner, a known format, nobody else may read it."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from headrace.errors import ConfigError, StoreError
from headrace.store.data_directory import JOURNAL, DataDirectory, format_bytes
from headrace.store.disk import RealDisk
from headrace.store.tools.offline import locked


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def everything(path: Path) -> dict[str, tuple[bytes, int]]:
    return {one.name: (one.read_bytes(), mode(one)) for one in path.iterdir()}


def test_a_new_directory_is_made_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "a" / "data"
    directory = DataDirectory(path)

    assert mode(path) == 0o700
    assert {name: found[1] for name, found in everything(path).items()} == {
        "format": 0o600,
        "lock": 0o600,
    }
    assert (path / "format").read_bytes() == format_bytes(0)
    directory.close()


def test_a_directory_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)

    DataDirectory(tmp_path).close()

    assert mode(tmp_path) == 0o700


def test_a_second_broker_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    first = DataDirectory(tmp_path)
    with pytest.raises(ConfigError, match="in use"):
        DataDirectory(tmp_path)

    first.close()
    first.close()

    DataDirectory(tmp_path).close()


def test_a_second_broker_is_refused_although_the_lock_file_was_removed(tmp_path: Path) -> None:
    first = DataDirectory(tmp_path)
    (tmp_path / "lock").unlink()

    with pytest.raises(ConfigError, match="in use"):
        DataDirectory(tmp_path)
    with pytest.raises(StoreError, match="a broker is running"), locked(tmp_path):
        pass

    first.close()
    with locked(tmp_path), pytest.raises(ConfigError, match="in use"):
        DataDirectory(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"headrace 3\n",
        b"headrace 2\n",
        b"headrace 2\n8 00000000\n",
        format_bytes(64).replace(b"64", b"65"),
        b"",
        b"something else",
        bytes(4096),
        b"\xff\xfe\x00binary",
    ],
)
def test_an_unknown_format_is_refused_and_nothing_is_changed(
    tmp_path: Path, content: bytes
) -> None:
    DataDirectory(tmp_path).close()
    (tmp_path / "format").write_bytes(content)
    (tmp_path / "meta.db").write_bytes(b"precious")
    before = everything(tmp_path)

    with pytest.raises(ConfigError, match="format"):
        DataDirectory(tmp_path)

    assert everything(tmp_path) == before
    (tmp_path / "format").write_text("headrace 1\n")
    DataDirectory(tmp_path).close()  # the refused one holds no lock


@pytest.mark.parametrize("left", ["meta.db", "journal"])
def test_data_without_a_format_is_refused(tmp_path: Path, left: str) -> None:
    (tmp_path / left).touch()

    with pytest.raises(ConfigError, match=r"no format file; `headrace fsck .* --repair`"):
        DataDirectory(tmp_path)
    assert not (tmp_path / "format").exists()


def test_an_unusable_path_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()

    with pytest.raises(ConfigError, match="cannot use data directory"):
        DataDirectory(file / "data")


def test_a_file_in_place_of_the_directory_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()

    with pytest.raises(ConfigError, match="file: it is a file"):
        DataDirectory(file)


def test_a_full_disk_leaves_no_empty_format_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int, data: bytes, offset: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr("headrace.store.disk.os.pwrite", full)
        with pytest.raises(ConfigError, match=r"cannot use data directory .*No space left"):
            DataDirectory(tmp_path)
    assert {one.name for one in tmp_path.iterdir()} == {"lock"}

    DataDirectory(tmp_path).close()  # there is room again
    assert (tmp_path / "format").read_bytes() == format_bytes(0)


def test_the_lock_ends_with_the_process_that_holds_it(tmp_path: Path) -> None:
    child = os.fork()
    if not child:
        DataDirectory(tmp_path)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

    DataDirectory(tmp_path).close()


def test_the_names_of_new_directories_are_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a" / "b" / "data"
    names: dict[Path, set[str]] = {}  # as the last sync of each directory found them
    fsync = os.fsync

    def spy(fd: int) -> None:
        target = Path(os.readlink(f"/proc/self/fd/{fd}"))
        if target.is_dir():
            names[target] = set(os.listdir(target))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", spy)
    DataDirectory(path).close()
    RealDisk(path / JOURNAL)

    for one in (path / JOURNAL, path, path.parent, path.parent.parent):
        assert one.name in names.get(one.parent, ()), f"{one} may be gone after a power cut"
    assert "format" in names[path]

    names.clear()
    (path / "format").unlink()  # as if the first start had ended before
    (path / JOURNAL).rmdir()
    DataDirectory(path).close()
    assert path.name in names[path.parent]
