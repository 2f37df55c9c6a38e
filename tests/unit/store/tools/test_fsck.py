"""The check finds what was damaged, names the messages, and mends without touching good ones."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.errors import StoreError
from headrace.store.api.message_log import DurabilityLevel, OutgoingMessages, RecordDestination
from headrace.store.api.rows import QueueRow
from headrace.store.data_directory import DataDirectory
from headrace.store.disk import RealDisk
from headrace.store.log.checkpoint_file import Checkpoint, checkpoint_bytes
from headrace.store.log.commit_log import CommitLog
from headrace.store.log.segment import index_bytes
from headrace.store.sqlite.metadata import SqliteMetadata
from headrace.store.tools.backup import backup
from headrace.store.tools.compact import compact
from headrace.store.tools.findings import Findings, RepairAction
from headrace.store.tools.fsck import check
from headrace.store.tools.offline import LogDriver, locked, read_declarations
from headrace.store.tools.repair import repair

ORDERS, MAIL, GONE = 1, 2, 9


def open_log(path: Path) -> LogDriver:
    disk = RealDisk(path / "journal")
    return LogDriver(CommitLog(disk, now_ms=lambda: 1000, segment_size=4096))


def put(log: CommitLog, queue: int, *contents: bytes) -> range:
    first = log.reads.next_offset(queue)
    placed = [RecordDestination(queue, first, len(contents))]
    log.append(OutgoingMessages(contents, placed, DurabilityLevel.FSYNC, key="k"))
    return range(first, first + len(contents))


@contextmanager
def writing(path: Path, *, crash: bool = False, first: bytes | None = None) -> Iterator[CommitLog]:
    """``first`` is a message before the checkpoint that follows each new segment."""
    driver = open_log(path)
    if first is not None:
        put(driver.log, ORDERS, first)
        driver.commit()
        driver.wait_for(lambda: not driver.log.is_writing)
    yield driver.log
    driver.commit()
    driver.wait_for(lambda: not driver.log.is_writing)
    if crash:
        assert driver.log._writer is not None
        driver.log._writer.stop()
        driver.log.failed = RuntimeError("crashed")
    driver.log.close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with two queues, and no messages yet."""
    path = tmp_path / "data"
    DataDirectory(path).close()
    metadata = SqliteMetadata(path)
    metadata.start(lambda callback: None, lambda ticket: None, lambda error: None)
    metadata.save_vhost("/")
    metadata.save(QueueRow(ORDERS, "u1", "/", "orders"))
    metadata.save(QueueRow(MAIL, "u2", "/", "mail"))
    metadata.close()
    open_log(path).log.close()
    return path


def contents(path: Path, queue: int) -> list[bytes]:
    driver = open_log(path)
    found, _ = driver.log.reads.read(
        queue, 0, driver.log.reads.next_offset(queue), max_bytes=1 << 30
    )
    driver.log.close()
    return [content for one in found for content in one.contents]


def snapshot(path: Path) -> dict[str, bytes]:
    return {str(one): one.read_bytes() for one in sorted(path.rglob("*")) if one.is_file()}


def damage(path: Path, old: bytes, new: bytes) -> None:
    """Change bytes in whichever segment has them."""
    for file in (path / "journal").glob("*.log"):
        data = file.read_bytes()
        if old in data:
            file.write_bytes(data.replace(old, new, 1))
            return
    raise AssertionError(f"{old!r} is not there")


def mend(path: Path) -> Findings:
    repair(path, check(path))
    return check(path)


# -- sound -------------------------------------------------------------------------------------


def test_an_empty_directory_is_sound(data: Path) -> None:
    assert check(data).is_sound


@pytest.mark.parametrize("crash", [False, True], ids=["stopped", "crashed"])
def test_what_a_broker_leaves_is_sound_and_counted(data: Path, crash: bool) -> None:
    with writing(data, crash=crash) as log:
        for _ in range(6):
            put(log, ORDERS, b"x" * 1000, b"y" * 1000)
        log.settle(ORDERS, [0, 3])
    before = snapshot(data)

    findings = check(data)

    assert findings.places == []
    assert findings.is_clean_end is not crash
    assert len(findings.segments) > 2
    assert sum(one.messages for one in findings.segments) == 12
    assert sum(one.live for one in findings.segments) == 10
    assert sum(one.live_bytes for one in findings.segments) > 10_000
    assert snapshot(data) == before


def test_messages_of_a_queue_that_is_gone_are_no_damage(data: Path) -> None:
    with writing(data) as log:
        put(log, GONE, b"a", b"b")

    findings = check(data)

    assert findings.is_sound
    assert findings.orphans == {GONE: 2}
    assert findings.segments[0].live == 0


def test_an_unfinished_write_is_no_damage_and_is_cut_by_a_repair_only(data: Path) -> None:
    with writing(data, crash=True) as log:
        put(log, ORDERS, b"good")
    (file,) = (data / "journal").glob("*.log")
    used = check(data).segments[0].used
    with file.open("r+b") as torn:
        torn.seek(used)
        torn.write(b"torn" * 10 + bytes(1024) + b"torn")
    before = snapshot(data)

    findings = check(data)

    assert findings.is_sound
    assert "unfinished write" in findings.notes[0]
    assert snapshot(data) == before
    assert mend(data).notes == []
    assert contents(data, ORDERS) == [b"good"]


# -- damage ------------------------------------------------------------------------------------


def test_a_flipped_bit_costs_exactly_one_message(data: Path) -> None:
    with writing(data) as log:
        put(log, ORDERS, b"first", b"second", b"third")

    damage(data, b"second", b"sEcond")
    before = snapshot(data)
    findings = check(data)

    (place,) = findings.places
    assert place.remedy is RepairAction.SETTLE
    assert place.lost == [(ORDERS, 1, 2)]
    assert findings.queue_name(ORDERS) == "queue 'orders' in vhost '/'"
    assert snapshot(data) == before
    assert mend(data).is_sound
    assert (data / "lost+found" / f"{0:020d}-{place.offset}.bin").read_bytes() == b"sEcond"
    assert contents(data, ORDERS) == [b"first", b"third"]


def test_damage_in_a_settled_message_is_only_logged(data: Path) -> None:
    with writing(data) as log:
        log.settle(ORDERS, put(log, ORDERS, b"settled"))
        put(log, ORDERS, b"alive")

    damage(data, b"settled", b"sEttled")

    findings = check(data)
    assert findings.is_sound
    assert "already settled" in findings.notes[0]


@pytest.mark.parametrize("with_index", [True, False])
def test_an_unreadable_record_is_filled_and_the_others_stay(data: Path, with_index: bool) -> None:
    with writing(data) as log:
        put(log, ORDERS, b"before")
        put(log, MAIL, b"one", b"two")
        put(log, ORDERS, b"after")
    (file,) = (data / "journal").glob("*.log")
    raw = file.read_bytes()
    at = raw.index(b"one") - 96
    file.write_bytes(raw[:at] + b"\xff" * 40 + raw[at + 40 :])
    if not with_index:
        next((data / "journal").glob("*.idx")).unlink()

    findings = check(data)

    (place,) = findings.places
    assert place.remedy is RepairAction.FILL
    assert place.lost == ([(MAIL, 0, 2)] if with_index else [])  # nothing else could know
    assert mend(data).is_sound
    assert contents(data, ORDERS) == [b"before", b"after"]
    assert contents(data, MAIL) == []


def test_an_incomplete_group_behind_the_checkpoint_counts_for_nothing(data: Path) -> None:
    with writing(data, crash=True, first=b"before") as log:
        with log.atomic():
            put(log, MAIL, b"moved")
            put(log, ORDERS, b"with it")
        put(log, ORDERS, b"after")

    damage(data, b"moved", b"mOved")
    findings = check(data)

    (place,) = findings.places
    assert place.lost == [(MAIL, 0, 1), (ORDERS, 1, 2)]
    assert mend(data).is_sound
    assert contents(data, ORDERS) == [b"before", b"after"]
    assert contents(data, MAIL) == []


def test_a_damaged_record_inside_a_group_costs_the_rest_of_the_group(data: Path) -> None:
    with writing(data) as log:
        with log.atomic():
            put(log, MAIL, b"kept")
            put(log, ORDERS, b"hit")
        put(log, ORDERS, b"after")
    (file,) = (data / "journal").glob("*.log")
    raw = file.read_bytes()
    at = raw.index(b"hit") - 16
    file.write_bytes(raw[:at] + b"\xff" * 8 + raw[at + 8 :])

    findings = check(data)

    assert [place.lost for place in findings.places] == [[(ORDERS, 0, 1)]]
    assert mend(data).is_sound
    assert contents(data, MAIL) == [b"kept"]
    assert contents(data, ORDERS) == [b"after"]


def test_a_lost_end_of_a_segment_is_damage(data: Path) -> None:
    with writing(data) as log:
        put(log, ORDERS, b"kept")
        put(log, ORDERS, b"lost")
    (file,) = (data / "journal").glob("*.log")
    raw = file.read_bytes()
    at = raw.index(b"lost") - 60
    file.write_bytes(raw[:at] + b"\xff" * (len(raw) - at))

    findings = check(data)

    (place,) = findings.places
    assert (place.remedy, place.lost) == (RepairAction.CUT, [(ORDERS, 1, 2)])
    assert mend(data).is_sound
    assert contents(data, ORDERS) == [b"kept"]


def test_a_damaged_checkpoint_is_made_again(data: Path) -> None:
    with writing(data) as log:
        put(log, ORDERS, b"a", b"b")
        log.settle(ORDERS, [0])
    file = data / "journal" / "checkpoint"
    file.write_bytes(file.read_bytes()[:-1] + b"\xff")

    findings = check(data)

    assert [place.file for place in findings.places] == ["journal/checkpoint"]
    assert mend(data).is_sound
    assert (data / "lost+found" / "checkpoint-0.bin").exists()
    assert contents(data, ORDERS) == [b"b"]


def test_a_damaged_index_is_made_again(data: Path) -> None:
    with writing(data) as log:
        put(log, ORDERS, b"a")
    (file,) = (data / "journal").glob("*.idx")
    file.write_bytes(file.read_bytes()[:-1] + b"\xff")

    assert check(data).segments[0].index == "damaged"
    assert mend(data).segments[0].index == "good"
    assert contents(data, ORDERS) == [b"a"]


def test_an_index_that_hides_messages_is_found_out(data: Path) -> None:
    with writing(data) as log:
        put(log, ORDERS, b"a", b"b")
    (file,) = (data / "journal").glob("*.idx")
    file.write_bytes(index_bytes([], check(data).segments[0].used))

    findings = check(data)

    assert "2 messages of the segment are not in it" in findings.places[0].what
    assert mend(data).is_sound
    assert contents(data, ORDERS) == [b"a", b"b"]


def test_damaged_metadata_is_reported_and_left_unchanged(data: Path) -> None:
    with writing(data) as log:
        put(log, ORDERS, b"a")
    file = data / "meta.db"
    file.write_bytes(b"\xff" * 4096 + file.read_bytes()[4096:])
    before = snapshot(data)

    findings = check(data)
    (line,) = repair(data, findings)

    assert findings.queues is None
    assert "restore a backup" in line
    assert snapshot(data) == before


def test_what_is_readable_of_damaged_metadata_is_accepted_by_a_repair(data: Path) -> None:
    with writing(data) as log:
        put(log, ORDERS, b"a")
    file = data / "meta.db"
    raw = file.read_bytes()
    file.write_bytes(raw[:4096] + b"\xff" * 4096 + raw[8192:])  # the page of vhosts
    before = snapshot(data)

    findings = check(data)

    assert snapshot(data) == before
    assert {place.file for place in findings.places} == {"meta.db"}
    assert any("table vhosts: 0 rows found, expected 1" in one.what for one in findings.places)
    assert mend(data).is_sound
    assert read_declarations(data).vhosts == ["/"]
    assert contents(data, ORDERS) == [b"a"]
    assert [one.name for one in (data / "lost+found").glob("meta.db-rows-*.json")]


def test_orphans_become_a_queue_or_a_topic(data: Path) -> None:
    with writing(data) as log:
        put(log, GONE, b"a", b"b")
        placed = [RecordDestination(GONE + 1, 0, 1)]
        log.append(OutgoingMessages([b"c"], placed, DurabilityLevel.FSYNC))

    findings = mend(data)

    assert (findings.orphans, findings.is_sound) == ({}, True)
    assert findings.queues == {
        ORDERS: ("/", "orders"),
        MAIL: ("/", "mail"),
        GONE: ("/", "orphan.9"),
        GONE + 1: ("/", "topic.orphan.10/middle.0"),
    }


def test_metadata_with_an_unreadable_page_is_reported(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = os.pread

    def pread(fd: int, size: int, offset: int) -> bytes:
        if (offset, os.readlink(f"/proc/self/fd/{fd}")) == (4096, str(data / "meta.db")):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return whole(fd, size, offset)

    monkeypatch.setattr(os, "pread", pread)

    findings = check(data)

    assert findings.queues == {ORDERS: ("/", "orders"), MAIL: ("/", "mail")}
    assert any("table vhosts: 0 rows found, expected 1" in one.what for one in findings.places)


def test_missing_metadata_beside_messages_is_damage(data: Path) -> None:
    with writing(data) as log:
        put(log, ORDERS, b"a")
    (data / "meta.db").unlink()
    before = snapshot(data)

    findings = check(data)
    (line,) = repair(data, findings)

    assert not findings.is_sound
    assert "restore a backup" in line
    for tool in (lambda: compact(data, lambda *_: None), lambda: backup(data, data / "copy")):
        with pytest.raises(StoreError, match=r"meta.db is missing, and journal"):
            tool()
    assert snapshot(data) == before


def test_a_missing_format_file_is_written_again(data: Path) -> None:
    (data / "format").unlink()

    assert [place.file for place in check(data).places] == ["format"]
    assert mend(data).is_sound
    DataDirectory(data).close()


def test_leftovers_are_noted_and_removed(data: Path) -> None:
    with writing(data) as log:
        put(log, ORDERS, b"a")
    (data / "journal" / "checkpoint.new").write_bytes(checkpoint_bytes(Checkpoint()))
    (data / "journal" / f"{77:020d}.idx").write_bytes(b"")

    assert len(check(data).notes) == 2
    assert mend(data).notes == []


# -- the lock ----------------------------------------------------------------------------------


def test_a_directory_in_use_is_refused(data: Path) -> None:
    broker = DataDirectory(data)
    with pytest.raises(StoreError, match="a broker is running"), locked(data):
        pass
    broker.close()
    with locked(data):
        pass


def test_holding_a_copy_leaves_no_trace(data: Path) -> None:
    (data / "lock").unlink()
    with locked(data):
        assert "lock" not in os.listdir(data)


@pytest.mark.parametrize("text", [None, "headrace 99\n"])
def test_what_is_no_data_directory_is_refused(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "format").write_text(text)
    with (
        pytest.raises(StoreError, match=r"not a Headrace data directory|knows 'headrace 1'"),
        locked(tmp_path),
    ):
        pass
