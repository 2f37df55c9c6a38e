"""Format 2 of a data directory: the whole base seeds the sums, and version 1 is upgraded."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import StoreError
from headrace.store.api.message_log import DurabilityLevel, OutgoingMessages, RecordDestination
from headrace.store.api.rows import QueueRow
from headrace.store.data_directory import DataDirectory, format_bytes, read_format
from headrace.store.disk import RealDisk
from headrace.store.log import record as r
from headrace.store.log.checkpoint_file import NAMES
from headrace.store.log.commit_log import CommitLog
from headrace.store.log.segment import segment_name
from headrace.store.sqlite.metadata import SqliteMetadata
from headrace.store.tools.fsck import check
from headrace.store.tools.offline import LogDriver
from headrace.store.tools.repair import repair

BASE = (1 << 32) + 4096  # its low half is that of another segment


def old_directory(path: Path) -> Path:
    """As version 1 left it: a segment whose sums have the low half of the base as their seed."""
    out = OutgoingMessages([b"old"], [RecordDestination(1, 0, 1)], 2, key="k")
    parts, _ = r.messages_parts(out, seed=BASE & 0xFFFFFFFF, time=1)
    (path / "journal").mkdir(parents=True)
    (path / "journal" / segment_name(BASE)).write_bytes(b"".join(parts))
    (path / "format").write_text("headrace 1\n")
    declare(path)
    return path


def declare(path: Path) -> None:
    metadata = SqliteMetadata(path)
    metadata.start(lambda callback: None, lambda ticket: None, lambda error: None)
    metadata.save(QueueRow(1, "u1", "/", "q"))
    metadata.close()


def open_log(path: Path) -> LogDriver:
    directory = DataDirectory(path)
    log = CommitLog(
        RealDisk(path / "journal"),
        lambda: 1,
        segment_size=4096,
        format_2_from=directory.format_2_from,
    )
    directory.save_format(log.segments.format_2_from)
    directory.close()
    declare(path)
    return LogDriver(log)


def put(driver: LogDriver, content: bytes) -> None:
    placed = [RecordDestination(1, driver.log.reads.next_offset(1), 1)]
    driver.log.append(OutgoingMessages([content], placed, DurabilityLevel.FSYNC, key="k"))
    driver.commit()


def contents(driver: LogDriver) -> list[bytes]:
    stored, _ = driver.log.reads.read(1, 0, driver.log.reads.next_offset(1))
    return [content for one in stored for content in one.contents]


def test_a_directory_of_version_1_is_upgraded_and_keeps_its_messages(tmp_path: Path) -> None:
    path = old_directory(tmp_path / "data")
    driver = open_log(path)
    put(driver, b"new")
    driver.log.close()

    (noted,) = {base for base in driver.log.segments.bases if base > BASE}
    assert read_format(path) == noted
    driver = open_log(path)
    assert contents(driver) == [b"old", b"new"]
    assert driver.log.report.damage == []
    driver.log.close()


def test_tools_that_only_read_do_not_upgrade(tmp_path: Path) -> None:
    path = old_directory(tmp_path / "data")

    findings = check(path)

    assert findings.segments[0].messages == 1
    assert findings.is_sound
    assert (path / "format").read_text() == "headrace 1\n"


def test_a_format_file_put_back_from_version_1_is_noticed(tmp_path: Path) -> None:
    """Read with the old seed, every record would be rubbish and be cut off."""
    driver = open_log(tmp_path)
    put(driver, b"a")
    driver.log.close()
    (tmp_path / "format").write_text("headrace 1\n")
    assert [place.file for place in check(tmp_path).places] == ["format"]

    driver = open_log(tmp_path)

    assert contents(driver) == [b"a"]
    assert ["format" in text for text in driver.log.report.damage] == [True]
    assert (tmp_path / "format").read_bytes() == format_bytes(0)
    driver.log.close()


@pytest.mark.parametrize("content", [None, b"", b"\xff\x00binary", b"headrace 2\n7 00000000\n"])
@pytest.mark.parametrize("is_old", [True, False], ids=["version 1", "version 2"])
@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_a_lost_format_file_is_written_again(
    tmp_path: Path, content: bytes | None, is_old: bool, has_checkpoint: bool
) -> None:
    path = old_directory(tmp_path / "data") if is_old else tmp_path / "data"
    if not is_old:
        driver = open_log(path)
        put(driver, b"a")
        driver.log.close()
    (path / "format").unlink()
    if content is not None:
        (path / "format").write_bytes(content)
    if not has_checkpoint:
        for name in NAMES:
            (path / "journal" / name).unlink(missing_ok=True)

    findings = check(path)
    assert "format" in [place.file for place in findings.places]
    repair(path, findings)

    assert check(path).is_sound
    driver = open_log(path)
    assert contents(driver) == ([b"old"] if is_old else [b"a"])
    driver.log.close()


def test_a_later_format_is_never_written_over(tmp_path: Path) -> None:
    driver = open_log(tmp_path)
    driver.log.close()
    (tmp_path / "format").write_text("headrace 3\n")

    with pytest.raises(StoreError, match="headrace 3"):
        check(tmp_path)
