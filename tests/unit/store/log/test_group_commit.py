"""The writer thread: group commit, failed syncs, full disks, and an orderly end."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, SimpleQueue

import pytest

from headrace.errors import StoreError
from headrace.store.api.message_log import DurabilityLevel, OutgoingMessages, RecordDestination
from headrace.store.disk import RealDisk, RealFile
from headrace.store.log import group_commit
from headrace.store.log.commit_log import CommitLog

PATIENCE = 10


class Threaded:
    """A log with its real writer; callbacks run in wait_until()."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._soon: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.failures: list[Exception] = []
        self.full: list[bool] = []
        self.log = self._open()

    def _open(self) -> CommitLog:
        log = CommitLog(RealDisk(self.directory), lambda: 1, segment_size=4096)
        log.start(
            self._soon.put,
            on_durable=lambda: None,
            on_failure=self.failures.append,
            on_full=self.full.append,
        )
        return log

    def reopen(self) -> CommitLog:
        self.log = self._open()
        return self.log

    def put(self, content: bytes) -> int:
        position = self.log.append(
            OutgoingMessages(
                [content],
                [RecordDestination(1, self.log.reads.next_offset(1), 1)],
                DurabilityLevel.FSYNC,
            )
        )
        self.log.flush()
        return position

    def wait_until(self, condition: Callable[[], object]) -> None:
        while not condition():
            try:
                self._soon.get(timeout=PATIENCE)()
            except Empty:
                raise AssertionError("nothing happened") from None


@pytest.fixture
def threaded(tmp_path: Path) -> Iterator[Threaded]:
    made = Threaded(tmp_path)
    yield made
    made.log.close()


def broken(error: int) -> Callable[..., None]:
    def action(*_: object) -> None:
        raise OSError(error, "made to fail")

    return action


def test_what_is_appended_meanwhile_is_committed_together(threaded: Threaded) -> None:
    for number in range(50):
        position = threaded.put(b"%d" % number)
    threaded.wait_until(lambda: threaded.log.durable >= position)

    assert threaded.log.commits < 50
    assert threaded.log.failed is None


def test_a_failed_sync_ends_it(threaded: Threaded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RealFile, "sync", broken(errno.EIO))
    position = threaded.put(b"a")
    threaded.wait_until(lambda: threaded.failures)

    assert threaded.log.failed is threaded.failures[0]
    assert threaded.log.durable < position


def test_after_a_failed_sync_no_clean_end_is_written_even_before_it_is_reported(
    threaded: Threaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(RealFile, "sync", broken(errno.EIO))
        threaded.put(b"a")
        with pytest.raises(StoreError, match="made to fail"):
            threaded.log.close()  # joins the writer; its callback never ran

    assert threaded.failures == []
    assert not threaded.reopen().report.clean


def test_a_full_disk_is_tried_again_until_there_is_room(
    threaded: Threaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "RETRY_SECONDS", 0.001)
    with monkeypatch.context() as patch:
        patch.setattr(RealDisk, "create", broken(errno.ENOSPC))
        position = threaded.put(b"a")
        threaded.wait_until(lambda: threaded.full == [True])
        assert threaded.log.durable < position
    threaded.wait_until(lambda: threaded.log.durable >= position)

    assert threaded.full == [True, False]
    assert threaded.failures == []


def test_closing_commits_what_was_not_flushed_yet(threaded: Threaded) -> None:
    threaded.put(b"a")
    threaded.put(b"b")
    threaded.log.settle(1, [0])
    threaded.log.close()
    threaded.log.close()

    log = threaded.reopen()
    assert log.report.clean
    assert log.reads.live(1)[0] == 1


def test_a_crash_without_any_record_is_no_clean_end(threaded: Threaded) -> None:
    threaded.put(b"a")
    threaded.log.close()
    assert threaded.reopen().report.clean
    crashed = threaded.log

    log = threaded.reopen()

    assert not log.report.clean
    crashed._writer.stop()  # type: ignore[union-attr]
    for segment in crashed.segments:
        segment.file.close()  # type: ignore[union-attr]
