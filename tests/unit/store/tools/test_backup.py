"""A backup is complete or not there, and consistent though the log moves on."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.errors import StoreError
from headrace.model.retention import Retention
from headrace.store.api.message_log import DurabilityLevel, OutgoingMessages, RecordDestination
from headrace.store.api.rows import CursorRow, PinRow, QueueRow, RetryRow
from headrace.store.data_directory import DataDirectory
from headrace.store.disk import RealDisk
from headrace.store.log.commit_log import CommitLog
from headrace.store.sqlite.metadata import SqliteMetadata
from headrace.store.tools import backup as backups
from headrace.store.tools.backup import backup, restore
from headrace.store.tools.compact import compact
from headrace.store.tools.fsck import check
from headrace.store.tools.offline import LogDriver, read_declarations
from headrace.testing import wait_for

QUEUE = 1


def open_log(path: Path, segment_size: int = 8192) -> LogDriver:
    log = CommitLog(RealDisk(path / "journal"), now_ms=lambda: 1000, segment_size=segment_size)
    return LogDriver(log)


def put(driver: LogDriver, *contents: bytes) -> range:
    """Stored, and on disk when this returns."""
    log = driver.log
    first = log.reads.next_offset(QUEUE)
    log.append(
        OutgoingMessages(
            contents,
            [RecordDestination(QUEUE, first, len(contents))],
            DurabilityLevel.FSYNC,
            key="k",
        )
    )
    driver.commit()
    return range(first, first + len(contents))


def contents(path: Path) -> list[bytes]:
    driver = open_log(path)
    found, _ = driver.log.reads.read(QUEUE, 0, 1 << 40, max_bytes=1 << 30)
    driver.log.close()
    return [content for one in found for content in one.contents]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    DataDirectory(path).close()
    metadata = SqliteMetadata(path)
    metadata.start(lambda callback: None, lambda ticket: None, lambda error: None)
    metadata.save(QueueRow(QUEUE, "u1", "/", "orders"))
    metadata.close()
    open_log(path).log.close()
    return path


@pytest.fixture
def driver(data: Path) -> LogDriver:
    return open_log(data)


def test_a_copy_comes_back_whole(data: Path, driver: LogDriver, tmp_path: Path) -> None:
    for number in range(10):
        put(driver, b"%d" % number * 2000)
    driver.log.settle(QUEUE, [0, 5])
    driver.log.close()

    copied = backup(data, tmp_path / "copy")
    restore(tmp_path / "copy", tmp_path / "again")

    again = tmp_path / "again"
    assert copied.segments == len(list((data / "journal").glob("*.log"))) > 2
    assert contents(again) == contents(data)
    assert len(contents(again)) == 8
    assert [queue.name for queue in read_declarations(again).queues] == ["orders"]
    DataDirectory(again).close()
    assert all(one.stat().st_mode & 0o077 == 0 for one in [again, *again.rglob("*")])


def test_a_directory_in_use_is_copied_up_to_the_last_commit(
    data: Path, driver: LogDriver, tmp_path: Path
) -> None:
    broker = DataDirectory(data)
    put(driver, b"a", b"b")
    driver.log.settle(QUEUE, [0])
    driver.commit()

    backup(data, tmp_path / "copy")
    put(driver, b"later")
    driver.log.close()
    broker.close()

    assert check(tmp_path / "copy").is_sound
    assert not check(tmp_path / "copy").is_clean_end
    assert contents(tmp_path / "copy") == [b"b"]


def test_unused_space_takes_no_space_in_the_copy(data: Path, tmp_path: Path) -> None:
    driver = open_log(data, segment_size=1 << 20)
    put(driver, b"small")
    driver.wait_for(lambda: not driver.log.is_writing)

    copied = backup(data, tmp_path / "copy")

    (file,) = (tmp_path / "copy" / "journal").glob("*.log")
    assert file.stat().st_size == 1 << 20
    assert copied.bytes < 1 << 16
    driver.log.close()


def once(action: Callable[[], None]) -> Callable[[], None]:
    left = [action]
    return lambda: left.pop()() if left else None


def test_it_begins_again_when_there_is_a_new_checkpoint(
    data: Path, driver: LogDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise an acknowledgement would be missing: its segment is gone, the message is not."""
    acknowledged = put(driver, b"acknowledged")
    put(driver, b"x" * 6000)
    dead = put(driver, b"y" * 4000)  # in the second segment
    driver.wait_for(lambda: not driver.log.is_writing)
    opened = backups._open_all

    def move_on() -> None:
        driver.log.settle(QUEUE, acknowledged)
        driver.log.settle(QUEUE, dead)
        driver.commit()
        put(driver, b"z" * 6000)  # in the third: the second is sealed and found dead
        driver.wait_for(lambda: not driver.log.is_writing)
        driver.log.checkpoint()  # the second one that finds it dead: it is deleted
        driver.wait_for(lambda: not driver.log.is_writing)
        assert len(driver.log.segments) == 2

    meanwhile = once(move_on)

    def slow(*args: object) -> object:
        meanwhile()
        return opened(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(backups, "_open_all", slow)
    backup(data, tmp_path / "copy")

    assert contents(tmp_path / "copy") == [b"x" * 6000, b"z" * 6000]
    driver.log.close()


def test_it_begins_again_when_a_file_is_gone(
    data: Path, driver: LogDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(driver, b"a")
    listed, extra = os.listdir, [f"{7:020d}.log"]
    monkeypatch.setattr(
        backups.os, "listdir", lambda path: [*listed(path), *(extra and [extra.pop()])]
    )

    backup(data, tmp_path / "copy")

    assert contents(tmp_path / "copy") == [b"a"]
    driver.log.close()


def test_a_copy_made_while_it_is_written_is_a_beginning_of_it(data: Path, tmp_path: Path) -> None:
    """No holes: whatever is in the copy, everything older is there too."""
    stop, confirmed = threading.Event(), [0]

    def write() -> None:
        driver = open_log(data)
        while not stop.is_set():
            confirmed[0] = put(driver, b"%08d" % confirmed[0] * 50)[-1] + 1
        driver.log.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(6):
            safe = confirmed[0]
            copy = tmp_path / f"copy-{number}"
            backup(data, copy)

            findings = check(copy)
            assert findings.places == []
            found = contents(copy)
            assert len(found) >= safe
            assert found == [b"%08d" % one * 50 for one in range(len(found))]
    finally:
        stop.set()
        writer.join()


def test_nothing_is_overwritten(data: Path, tmp_path: Path) -> None:
    backup(data, tmp_path / "copy")

    with pytest.raises(StoreError, match="already exists"):
        backup(data, tmp_path / "copy")
    with pytest.raises(StoreError, match="not empty"):
        restore(tmp_path / "copy", data)


def test_an_empty_directory_may_be_restored_into(data: Path, tmp_path: Path) -> None:
    backup(data, tmp_path / "copy")
    (tmp_path / "mounted" / "lost+found").mkdir(parents=True)

    restore(tmp_path / "copy", tmp_path / "mounted")

    DataDirectory(tmp_path / "mounted").close()


def test_a_damaged_backup_is_refused(data: Path, driver: LogDriver, tmp_path: Path) -> None:
    put(driver, b"original")
    driver.log.close()
    backup(data, tmp_path / "copy")
    (file,) = (tmp_path / "copy" / "journal").glob("*.log")
    file.write_bytes(file.read_bytes().replace(b"original", b"0riginal"))

    with pytest.raises(StoreError, match="is damaged"):
        restore(tmp_path / "copy", tmp_path / "again")
    assert not (tmp_path / "again").exists()


@pytest.fixture
def copy(data: Path, driver: LogDriver, tmp_path: Path) -> Path:
    put(driver, b"original")
    driver.log.close()
    backup(data, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.mark.parametrize("name", ["format", "meta.db", "journal", "journal/checkpoint", "segment"])
def test_restore_follows_no_symbolic_links(copy: Path, tmp_path: Path, name: str) -> None:
    file = next((copy / "journal").glob("*.log")) if name == "segment" else copy / name
    elsewhere = file.rename(tmp_path / "elsewhere")
    file.symlink_to(elsewhere)

    with pytest.raises(StoreError, match=f"{file.name} is a symbolic link"):
        restore(copy, tmp_path / "again")
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize(
    "name", ["format", "meta.db", "journal/checkpoint", f"journal/{7:020d}.log"]
)
def test_restore_does_not_wait_for_a_pipe(copy: Path, tmp_path: Path, name: str) -> None:
    (copy / name).unlink(missing_ok=True)
    os.mkfifo(copy / name)

    with pytest.raises(StoreError, match="is not a regular file"):
        restore(copy, tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_restore_reads_and_writes_only_what_a_sparse_segment_holds(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file,) = (copy / "journal").glob("*.log")
    os.truncate(file, 1 << 40)
    reads, pread = [], os.pread
    monkeypatch.setattr(backups.os, "pread", lambda *args: reads.append(args[1]) or pread(*args))

    copied = restore(copy, tmp_path / "again")

    (again,) = (tmp_path / "again" / "journal").glob("*.log")
    assert again.stat().st_size == 1 << 40
    assert sum(reads) < 1 << 20
    assert copied.bytes < 1 << 16
    os.truncate(again, 4096)
    assert contents(tmp_path / "again") == [b"original"]


def test_restore_refuses_a_file_larger_than_any_segment(copy: Path, tmp_path: Path) -> None:
    (file,) = (copy / "journal").glob("*.log")
    with file.open("r+b") as sparse:
        sparse.seek(1 << 40)
        sparse.write(b"x")

    with pytest.raises(StoreError, match="is larger than any segment"):
        restore(copy, tmp_path / "again")


def test_a_backup_that_fails_leaves_nothing(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(backups, "_copy_metadata", fail)

    with pytest.raises(StoreError, match="No space left"):
        backup(data, tmp_path / "copy")
    assert os.listdir(tmp_path) == ["data"]


def test_compacting_gives_space_back_and_keeps_what_is_alive(data: Path, driver: LogDriver) -> None:
    for number in range(40):
        put(driver, b"%02d" % number * 1000)
    driver.log.settle(QUEUE, [one for one in range(40) if one % 10])
    driver.log.close()
    alive = contents(data)

    before, after = compact(data, lambda done, total: None)

    assert (before.messages, after.messages) == (4, 4)
    assert after.bytes < before.bytes / 4
    assert (after.segments, check(data).is_sound) == (1, True)
    assert contents(data) == alive
    assert len(alive) == 4


def test_compacting_keeps_what_a_queue_retains(tmp_path: Path) -> None:
    data = tmp_path / "data"
    DataDirectory(data).close()
    metadata = SqliteMetadata(data)
    metadata.start(lambda callback: None, lambda ticket: None, lambda error: None)
    metadata.save(QueueRow(QUEUE, "u1", "/", "orders", arguments={"x-retention": "1GB"}))
    metadata.close()
    driver = open_log(data)
    driver.log.space.set_retention(QUEUE, Retention(size=10**9))
    put(driver, b"a", b"b", b"c")
    driver.log.settle(QUEUE, [1])
    driver.log.close()

    compact(data, lambda done, total: None)

    driver = open_log(data)
    found, _ = driver.log.reads.read(QUEUE, 0, 3, with_settled=True)
    assert [content for one in found for content in one.contents] == [b"a", b"b", b"c"]
    driver.log.close()


def test_compacting_twice_changes_nothing_more(data: Path, driver: LogDriver) -> None:
    for number in range(8):
        put(driver, b"%02d" % number * 1000)
    driver.log.settle(QUEUE, [1, 2, 3])
    driver.log.close()

    _, first = compact(data, lambda done, total: None)
    _, second = compact(data, lambda done, total: None)

    assert first == second


def test_compacting_is_no_clean_end(data: Path, driver: LogDriver) -> None:
    """What may have been delivered before a crash is still marked so after it."""
    put(driver, b"a", b"b")
    driver.log.settle(QUEUE, [0])
    driver.commit()
    assert driver.log._writer is not None
    driver.log._writer.stop()
    driver.log.failed = RuntimeError("crashed")
    driver.log.close()

    compact(data, lambda done, total: None)

    assert not check(data).is_clean_end
    assert contents(data) == [b"b"]


# -- positions -------------------------------------------------------------------------------------


def cursor(group: str, floor: int) -> CursorRow:
    return CursorRow("topic-uuid", group, "", 0, 0, floor=floor)


def pin(query: str, offset: int, uuid: str = "u1") -> PinRow:
    return PinRow("/", query, "queue", "orders", uuid, 1 << 20, 1, {"0": offset})


def test_readers_in_a_copy_are_where_they_were_before_the_journal_was_copied(
    data: Path, driver: LogDriver, tmp_path: Path
) -> None:
    put(driver, b"a")
    metadata = SqliteMetadata(data)
    metadata.start(lambda callback: None, lambda ticket: None, lambda error: None)
    retry = RetryRow("topic-uuid", "stays", 0, 0, 7)
    kept, changed = pin("q", 3), pin("other", 3)
    for row in (cursor("stays", 10), cursor("goes", 10), retry, kept, changed):
        metadata.save(row)
    wait_for(lambda: metadata.committed == metadata.issued)

    def meanwhile(done: int, total: int) -> None:
        metadata.save(cursor("stays", 50))
        metadata.delete(retry)
        metadata.save(RetryRow("topic-uuid", "stays", 0, 0, 40))
        metadata.delete_reader("topic-uuid", "goes", "")
        metadata.save(cursor("comes", 60))
        metadata.save(pin("q", 44))
        metadata.save(pin("other", 1, "made again"))
        metadata.save(QueueRow(2, "u2", "/", "new"))
        wait_for(lambda: metadata.committed == metadata.issued)

    backup(data, tmp_path / "copy", meanwhile)
    metadata.close()
    driver.log.close()

    found = read_declarations(tmp_path / "copy")
    assert found.cursors == [cursor("comes", 60), cursor("stays", 10)]
    assert found.retries == [retry]
    assert found.pins == [pin("other", 1, "made again"), kept]
    assert [queue.name for queue in found.queues] == ["orders", "new"]
