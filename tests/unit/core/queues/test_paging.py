"""The tail of a queue: stored and transient messages in one order, and what is brought back."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from headrace.core.queues.paging import QueuePaging
from headrace.core.queues.prepared_puts import PreparedPuts
from headrace.model.backlog import Backlog
from headrace.model.message import PAGED_OUT, PublishedRun, Route, Run
from headrace.store.api.message_log import DurabilityLevel, OutgoingMessages, RecordDestination
from headrace.store.log.segment import segment_name
from headrace.store.paging_files import Scratch
from support.faulty_disk import ForgetfulDisk
from support.storage.log_stage import LogStage

ROUTE = Route("ex", "key")
QUEUE = 1


class TailStage:
    """A tail over a log and a scratch directory, and messages for it."""

    def __init__(self, directory: Path) -> None:
        self.disk = ForgetfulDisk()
        self.journal = LogStage(self.disk, segment_size=1 << 16)
        self.scratch = Scratch(directory)
        self.paging = self.new_paging()
        self.next = 0

    def new_paging(self) -> QueuePaging:
        return QueuePaging(self.scratch, self.journal.log, QUEUE, lambda stored: stored.ttl_ms)

    def run(self, *contents: bytes, stored: bool, priority: int = 0) -> Run:
        """Messages with the next offsets, in the log too if they are to be stored."""
        first, self.next = self.next, self.next + len(contents)
        if stored:
            self.journal.log.append(
                OutgoingMessages(
                    list(contents),
                    [RecordDestination(QUEUE, first, len(contents))],
                    DurabilityLevel.FSYNC,
                    exchange="ex",
                    key="key",
                    channel_number=3,
                )
            )
        size = sum(map(len, contents))
        offsets = range(first, self.next)
        return Run(ROUTE, list(contents), offsets, size, persistent=stored, priority=priority)

    def push(self, *contents: bytes, stored: bool) -> None:
        self.paging.push(self.run(*contents, stored=stored))

    def pull_all(self) -> list[Run]:
        runs: list[Run] = []
        while self.paging.count:
            runs += self.paging.pull()
        return runs


def messages(runs: Iterable[Run]) -> list[tuple[int, bytes]]:
    return [pair for run in runs for pair in zip(run.offsets, run.contents, strict=True)]


@pytest.fixture
def stage(tmp_path: Path) -> TailStage:
    return TailStage(tmp_path)


def test_stored_and_transient_messages_keep_their_order(stage: TailStage) -> None:
    stage.push(b"a", b"b", stored=True)
    stage.push(b"c", stored=False)
    stage.push(b"d", stored=True)
    stage.push(b"e", stored=True)
    stage.push(b"f", b"g", stored=False)
    assert (stage.paging.count, stage.paging.size) == (7, 7)

    runs = stage.pull_all()

    assert messages(runs) == list(enumerate([b"a", b"b", b"c", b"d", b"e", b"f", b"g"]))
    assert [run.persistent for run in runs] == [True, False, True, True, False]
    assert (stage.paging.count, stage.paging.size) == (0, 0)


def test_what_is_pulled_is_as_it_was(stage: TailStage) -> None:
    stage.push(b"a", stored=True)
    (run,) = stage.paging.pull()

    assert (run.route.exchange, run.route.key, run.channel_number) == ("ex", "key", 3)
    assert (run.deliveries, run.expires, run.size) == (0, None, 1)


def test_contents_of_transient_messages_leave_the_memory(stage: TailStage) -> None:
    run = stage.run(b"a", b"b", b"c", stored=False)
    run.split(1)

    stage.paging.push(run)
    assert run.contents is PAGED_OUT

    assert messages(stage.paging.pull()) == [(1, b"b"), (2, b"c")]


def test_without_room_in_scratch_messages_stay_in_memory(
    stage: TailStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(contents: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(stage.scratch, "write", full)
    stage.push(b"a", stored=False)
    monkeypatch.undo()
    stage.push(b"b", stored=False)

    assert messages(stage.pull_all()) == [(0, b"a"), (1, b"b")]


def test_without_scratch_and_journal_it_is_a_plain_queue(stage: TailStage) -> None:
    paging = QueuePaging(None, None, 0, lambda stored: None)
    paging.push(stage.run(b"a", stored=False))
    paging.push(Run(ROUTE, [b"b"], range(1, 2), 1, persistent=True))

    assert messages(paging.pull() + paging.pull()) == [(0, b"a"), (1, b"b")]


def test_a_large_span_is_pulled_piece_by_piece(stage: TailStage) -> None:
    for number in range(20):
        stage.push(b"%02d" % number * 20_000, stored=True)
    first = stage.paging.pull()

    assert 0 < len(first) < 20
    assert stage.paging.count == 20 - len(first)
    rest = stage.pull_all()
    assert [offset for offset, _ in messages(first + rest)] == list(range(20))


def test_settled_messages_of_a_span_are_not_pulled(stage: TailStage) -> None:
    run = stage.run(b"a", b"b", b"c", stored=True)
    stage.journal.log.settle(QUEUE, [1])
    stage.journal.commit()
    stage.paging.restore(stage.journal.log, clean=True)

    assert messages(stage.paging.pull()) == [(0, b"a"), (2, b"c")]
    assert len(run) == 3


def test_what_is_restored_comes_before_what_is_new(stage: TailStage) -> None:
    stage.run(b"old", stored=True)
    stage.journal.restart()
    stage.paging = stage.new_paging()
    assert stage.paging.restore(stage.journal.log, clean=True) == 1
    stage.push(b"new", stored=True)
    stage.push(b"newer", stored=False)

    assert messages(stage.pull_all()) == [(0, b"old"), (1, b"new"), (2, b"newer")]


def test_nothing_restored_is_nothing_there(stage: TailStage) -> None:
    assert stage.paging.restore(stage.journal.log, clean=True) == 0

    assert (stage.paging.count, stage.paging.size) == (0, 0)


def test_messages_from_before_a_crash_are_suspected_of_having_been_delivered(
    stage: TailStage,
) -> None:
    stage.push(b"a", b"b", stored=True)
    stage.journal.log.requeued(QUEUE, [0], 4)
    stage.journal.commit()
    stage.paging.suspect_below = 2
    stage.push(b"c", stored=True)

    assert {run.offsets[0]: run.deliveries for run in stage.pull_all()} == {0: 4, 1: 1, 2: 0}


def test_stashed_messages_are_loaded_again(stage: TailStage) -> None:
    stage.run(b"a", b"b", stored=True)
    stage.run(b"x", stored=False)
    stage.run(b"c", b"d", stored=True)
    stashed = Run(ROUTE, PAGED_OUT, [1, 3], 2, persistent=True, deliveries=2)

    loaded = stage.paging.load(stashed)

    assert messages(loaded) == [(1, b"b"), (3, b"c")]
    assert {run.deliveries for run in loaded} == {2}
    assert all(run.route is ROUTE for run in loaded)


def test_a_damaged_message_is_left_out_and_not_counted_any_more(stage: TailStage) -> None:
    stage.push(b"good", b"damaged", b"good", stored=True)
    stage.journal.commit()
    data = stage.disk.contents(segment_name(0))
    data[data.index(b"damaged")] ^= 1

    backlog = Backlog(stage.paging)
    taken = [backlog.take(1), backlog.take(1)]

    assert messages(taken) == [(0, b"good"), (2, b"good")]
    assert (backlog.count, stage.journal.log.reader.damaged) == (0, 1)


def test_clearing_returns_the_offsets_and_frees_the_files(stage: TailStage) -> None:
    stage.push(b"a", b"b", stored=True)
    stage.push(b"c", stored=False)

    runs = stage.paging.clear()

    assert [list(run.offsets) for run in runs] == [[0, 1], [2]]
    assert [run.persistent for run in runs] == [True, False]
    assert (stage.paging.count, stage.paging.size) == (0, 0)
    stage.scratch.close()


def test_stored_messages_with_a_priority_are_kept_apart_from_spans(stage: TailStage) -> None:
    run = stage.run(b"a", stored=True, priority=5)
    stage.paging.push(run)

    (pulled,) = stage.paging.pull()

    assert (pulled.priority, pulled.contents) == (5, [b"a"])


def test_stored_messages_of_a_group_are_not_copied(
    stage: TailStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal has them: a large transaction would be written twice, and in one loop step."""
    copied: list[int] = []
    write = stage.scratch.write

    def noting(contents: list[bytes]) -> object:
        copied.append(len(contents))
        return write(contents)

    monkeypatch.setattr(stage.scratch, "write", noting)
    stage.push(b"before", stored=True)
    with stage.journal.log.atomic():
        for number in range(10):
            stage.push(b"%d" % number * 100, stored=True)
            if number == 5:
                stage.push(b"transient", stored=False)
        assert messages(stage.paging.pull()) == [(0, b"before")]
        assert [offset for offset, _ in messages(stage.paging.pull())] == [1]  # from memory

    assert copied == [1]  # the transient one
    assert not stage.paging._grouped
    stage.push(b"after", stored=True)
    found = messages(stage.pull_all())
    assert [offset for offset, _ in found] == list(range(2, 13))
    assert found[5] == (7, b"transient")
    assert (stage.paging.count, stage.paging.size) == (0, 0)


def test_a_queue_cleared_inside_a_group_is_empty_behind_it(stage: TailStage) -> None:
    with stage.journal.log.atomic():
        stage.push(b"a", stored=True)
        assert [list(run.offsets) for run in stage.paging.clear()] == [[0]]
    assert stage.paging.count == 0
    stage.push(b"b", stored=True)
    assert messages(stage.pull_all()) == [(1, b"b")]


def test_prepared_messages_come_behind_what_is_there(stage: TailStage) -> None:
    stage.push(b"a", stored=True)
    stage.journal.commit()
    prepared = stage.new_paging()
    for offset, content in enumerate((b"b", b"c")):
        prepared.push(Run(ROUTE, [content], range(offset, offset + 1), 1, expires=offset))
    assert prepared.count == 2
    prepared.place(1, 100)
    stage.paging.adopt(prepared)
    stage.next = 3
    stage.push(b"d", stored=False)

    assert stage.paging.count == 4
    runs = stage.pull_all()
    assert messages(runs) == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]
    assert [run.expires for run in runs] == [None, 100, 101, None]
    assert stage.scratch._active is not None and not stage.scratch._active.users


def test_what_is_prepared_and_discarded_frees_its_place(stage: TailStage) -> None:
    prepared = PreparedPuts(stage.new_paging, Run, 0, None, lambda ttl: ttl)
    for _ in range(3):
        prepared.add(PublishedRun(ROUTE, [b"x", b"y"], 2))
    assert (prepared.count, prepared.paged[0].count) == (6, 6)
    assert stage.scratch._active is not None and stage.scratch._active.users == 3

    prepared.discard()

    assert not stage.scratch._active.users


def test_stored_messages_with_others_between_them_are_not_one_range(stage: TailStage) -> None:
    """Those between them have another priority, and are in another place."""
    stage.push(b"a", stored=True)
    stage.run(b"urgent", stored=True, priority=1)
    stage.push(b"b", stored=True)
    stage.journal.commit()

    assert messages(stage.pull_all()) == [(0, b"a"), (2, b"b")]
