"""Staged batches: how much one user may stage, and what that takes of the broker."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from headrace.bulk.client import BulkConnection
from headrace.client.errors import HeadraceError
from headrace.client.settings import Settings
from headrace.core import loop_turn
from headrace.core.loop_turn import LoopTurn
from headrace.core.publication import Publication
from headrace.core.spark_support import staged_batches
from headrace.core.spark_support.staged_batches import StagedBatches
from headrace.server import process
from headrace.server.native import spark_support
from headrace.server.native.session import Session
from headrace.store.log import group_commit
from headrace.testing import run_broker, wait_for
from headrace.wire.native.payloads import Op

MESSAGE = {"exchange": "", "key": "q", "body": b"x"}


@pytest.fixture
def bulk(tmp_path: Path) -> Iterator[BulkConnection]:
    with (
        run_broker(data_dir=tmp_path) as running,
        BulkConnection(Settings(port=running.native_port or 0)) as connection,
    ):
        yield connection


def staged_files(data_dir: Path) -> int:
    """Open files of this process that have no name in the data directory."""
    links = [os.readlink(one) for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
    return sum(link.startswith(str(data_dir)) and link.endswith("(deleted)") for link in links)


def refusal(bulk: BulkConnection, query: str, messages: list[dict[str, object]]) -> str:
    with pytest.raises(HeadraceError) as caught:
        bulk.stage(query, 0, "a", messages)
    return str(caught.value)


def test_a_request_without_messages_opens_nothing(bulk: BulkConnection, tmp_path: Path) -> None:
    assert "no messages to stage" in refusal(bulk, "q", [])
    assert staged_files(tmp_path) == 0


def test_a_batch_has_one_file_however_many_attempts_there_are(
    bulk: BulkConnection, tmp_path: Path
) -> None:
    for n in range(50):
        bulk.stage("sink", 0, f"{n}", [MESSAGE])

    assert staged_files(tmp_path) == 1
    bulk.discard_staged("sink", 0)
    assert staged_files(tmp_path) == 0


def test_pieces_of_attempts_are_published_in_their_order(bulk: BulkConnection) -> None:
    bulk.call(Op.QUEUE_DECLARE, name="q", durable=True)
    for body, attempt in ((b"1", "a"), (b"3", "b"), (b"2", "a")):
        bulk.stage("sink", 0, attempt, [{**MESSAGE, "body": body}])

    assert bulk.publish_staged("sink", 0, ["b", "a"])
    got = [bulk.call(Op.GET, queue="q", auto_ack=True)["message"]["body"] for _ in range(3)]
    assert got == [b"1", b"2", b"3"]


def test_a_user_has_a_limited_number_of_batches(
    bulk: BulkConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged_batches, "MAX_USER_BATCHES", 3)
    for n in range(3):
        bulk.stage(f"q{n}", 0, "a", [MESSAGE])

    assert "3 staged batches, which is the limit" in refusal(bulk, "q3", [MESSAGE])
    bulk.stage("q0", 0, "b", [MESSAGE])
    bulk.discard_staged("q0", 0)
    bulk.stage("q3", 0, "a", [MESSAGE])


def test_a_user_has_a_limited_number_of_bytes(
    bulk: BulkConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged_batches, "MAX_USER_BYTES", 3 * staged_batches.MIN_PIECE)
    for n in range(3):
        bulk.stage(f"q{n}", 0, "a", [MESSAGE])  # tiny, but not free

    assert "bytes staged, which is the limit" in refusal(bulk, "q0", [MESSAGE])
    bulk.discard_staged("q1", 0)
    bulk.stage("q0", 0, "a", [MESSAGE])


def test_files_of_batches_leave_the_reserve_of_descriptors(
    bulk: BulkConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "descriptor_refusal", lambda number: f"{number} is too high")

    assert "is too high" in refusal(bulk, "q", [MESSAGE])
    assert staged_files(tmp_path) == 0


def test_a_batch_is_prepared_over_several_turns(
    bulk: BulkConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every look at the clock shows a millisecond more, so a share is over after a few pieces."""
    bulk.call(Op.QUEUE_DECLARE, name="q", durable=True)
    for n in range(40):
        bulk.stage("sink", 0, "a", [{**MESSAGE, "body": b"%d" % n}])
    turns, used, finish = count(), set[int](), LoopTurn.finish
    now = [0]

    def counted(self: LoopTurn) -> None:
        now[0] = next(turns)
        finish(self)

    prepare = spark_support._prepare

    def noted(session: Session, publication: Publication, data: bytes) -> None:
        used.add(now[0])
        prepare(session, publication, data)

    ticks = count()
    monkeypatch.setattr(LoopTurn, "finish", counted)
    monkeypatch.setattr(spark_support, "_prepare", noted)
    monkeypatch.setattr(loop_turn, "thread_time", lambda: next(ticks) / 1000)

    assert bulk.publish_staged("sink", 0, ["a"])
    assert len(used) > 5
    assert not bulk.publish_staged("sink", 0, ["a"])
    got = [bulk.call(Op.GET, queue="q", auto_ack=True)["message"]["body"] for _ in range(40)]
    assert got == [b"%d" % n for n in range(40)]


def test_a_large_request_is_staged_in_pieces(
    bulk: BulkConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_support, "PIECE", 2)
    pieces: list[int] = []
    prepare = spark_support._prepare

    def noted(session: Session, publication: Publication, data: bytes) -> None:
        pieces.append(len(data))
        prepare(session, publication, data)

    monkeypatch.setattr(spark_support, "_prepare", noted)
    bulk.call(Op.QUEUE_DECLARE, name="q", durable=True)
    bulk.stage("sink", 0, "a", [MESSAGE] * 5)
    assert bulk.publish_staged("sink", 0, ["a"])
    assert len(pieces) == 3


def test_a_batch_discarded_during_its_publication_is_not_published(
    bulk: BulkConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = spark_support._prepare

    def discarded(session: Session, publication: Publication, data: bytes) -> None:
        session.open_vhost.staging.discard("guest/sink", 0)
        prepare(session, publication, data)

    monkeypatch.setattr(spark_support, "_prepare", discarded)
    bulk.call(Op.QUEUE_DECLARE, name="q", durable=True)
    for _ in range(2):
        bulk.stage("sink", 0, "a", [MESSAGE])
    with pytest.raises(HeadraceError, match="discarded"):
        bulk.publish_staged("sink", 0, ["a"])
    assert bulk.call(Op.GET, queue="q", auto_ack=True).get("message") is None


def test_a_repeated_publication_waits_for_the_sync_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_sync, is_published, seen = threading.Event(), StagedBatches.is_published, list[bool]()
    may_sync.set()

    def wait(name: str) -> None:
        if name == "journal.written":
            assert may_sync.wait(60)

    def noted(self: StagedBatches, query: str, batch: int) -> bool:
        seen.append(is_published(self, query, batch))
        return seen[-1]

    monkeypatch.setattr(group_commit, "failpoint", wait)
    monkeypatch.setattr(StagedBatches, "is_published", noted)
    with ExitStack() as stack:
        running = stack.enter_context(run_broker(data_dir=tmp_path))
        settings = Settings(port=running.native_port or 0)
        first, second = (stack.enter_context(BulkConnection(settings)) for _ in range(2))
        pool = stack.enter_context(ThreadPoolExecutor())
        stack.callback(may_sync.set)
        first.call(Op.QUEUE_DECLARE, name="q", durable=True)
        first.stage("sink", 0, "a", [MESSAGE])
        may_sync.clear()
        one = pool.submit(first.publish_staged, "sink", 0, ["a"])
        wait_for(lambda: len(seen) >= 2)  # the second time it was about to be published
        two = pool.submit(second.publish_staged, "sink", 0, ["a"])
        wait_for(lambda: True in seen)

        with pytest.raises(TimeoutError):
            two.result(0.3)
        assert not one.done()
        may_sync.set()
        assert (one.result(60), two.result(60)) == (True, False)
