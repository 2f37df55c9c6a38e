"""Files that the disk cannot read: each is named, with what to do."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from headrace.errors import StoreError
from headrace.store.data_directory import DamagedFormat, DataDirectory, read_format
from headrace.store.sqlite import SqliteMetadata, database
from headrace.store.tools import offline
from headrace.store.tools.findings import RepairAction
from headrace.store.tools.fsck import check


def fail(*_: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """What a broker leaves that had nothing to do."""
    DataDirectory(tmp_path / "data").close()
    SqliteMetadata(tmp_path / "data").close()
    return tmp_path / "data"


def test_an_unreadable_format_is_written_again_by_a_repair(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "read_bytes", fail)
    with pytest.raises(DamagedFormat, match=r"format is damaged; `headrace fsck .* --repair`"):
        read_format(data)


def test_fsck_names_metadata_that_cannot_be_read(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offline, "copy_readable", fail)
    (place,) = check(data).places
    assert (place.file, place.remedy) == ("meta.db", RepairAction.NONE)
    assert place.what == f"cannot read {data / 'meta.db'}: Input/output error"


def test_a_broker_that_cannot_read_its_metadata_says_what_to_do(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_inspect", fail)
    with pytest.raises(
        StoreError, match=r"meta.db is damaged \(the disk cannot read it\).*restore"
    ):
        SqliteMetadata(data)
