"""The Journal contract, on every disk: what is appended is found again, what is settled is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from uuid import uuid4

import pytest

from headrace.errors import StoreError
from headrace.store.api.message_log import DurabilityLevel, OutgoingMessages, RecordDestination
from headrace.store.disk import Disk, RealDisk
from support.faulty_disk import ForgetfulDisk
from support.mariadb import MariaDb
from support.storage.log_stage import EAGER, LogStage
from support.storage.shard_owner import SharedLogStage

DISKS: dict[str, Callable[[Path], Disk]] = {
    "memory": lambda directory: ForgetfulDisk(),
    "files": RealDisk,
}


@pytest.fixture(params=[*DISKS, "shared"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LogStage]:
    if request.param == "shared":  # every restart is a take-over by another node
        server: MariaDb = request.getfixturevalue("mariadb_server")
        database = f"journal_{uuid4().hex[:12]}"
        server.create_database(database)
        stage: LogStage = SharedLogStage(tmp_path, server.url(database))
    else:
        stage = LogStage(DISKS[request.param](tmp_path / "journal"))
    yield stage
    stage.log.close()


Again = Callable[[LogStage], object]
again = pytest.mark.parametrize(
    "again", [LogStage.restart, LogStage.crash], ids=["restart", "crash"]
)


def total_size(disk: Disk) -> int:
    files = [disk.open(name) for name in disk.names() if name.endswith(".log")]
    size = sum(file.size() for file in files)
    for file in files:
        file.close()
    return size


# -- what is appended ----------------------------------------------------------------------------


def test_messages_are_readable_before_they_are_written(stage: LogStage) -> None:
    stage.put(b"a", b"bb")

    assert stage.held() == {0: b"a", 1: b"bb"}


def test_nothing_is_durable_before_the_commit_is_called_back(stage: LogStage) -> None:
    position = stage.put(b"a")
    stage.log.flush()
    stage.writer.work()
    assert stage.log.durable < position

    stage.writer.call_back()

    assert stage.log.durable >= position


def test_positions_rise_and_one_commit_serves_all_who_wait(stage: LogStage) -> None:
    stage.put(b"the first of a segment, which is followed by a checkpoint")
    stage.commit()
    before = stage.log.commits
    positions = [stage.put(b"a", to=[queue]) for queue in (1, 2, 3)]
    stage.commit()

    assert positions == sorted(set(positions))
    assert stage.log.durable >= positions[-1]
    assert stage.log.commits == before + 1


@again
def test_a_message_is_found_again_with_everything_about_it(stage: LogStage, again: Again) -> None:
    stage.now = 123456
    stage.put(b"a", b"", b"c" * 10_000, ttl_ms=0)
    stage.commit()

    again(stage)

    (one,) = stage.read()
    assert (one.exchange, one.key, one.channel_number, one.ttl_ms) == ("ex", "key", 3, 0)
    assert (one.time, one.deliveries, list(one.offsets)) == (123456, 0, [0, 1, 2])
    assert one.contents == [b"a", b"", b"c" * 10_000]


@again
def test_queues_are_counted(stage: LogStage, again: Again) -> None:
    stage.put(b"a" * 100, b"b" * 100, to=[1, 2])
    stage.log.settle(2, [0])
    stage.commit()

    again(stage)

    assert [stage.log.reads.live(queue)[0] for queue in (1, 2, 3)] == [2, 1, 0]
    assert stage.log.reads.live(1)[1] >= 200 / 2


@again
def test_a_message_that_goes_to_many_queues_is_stored_once(stage: LogStage, again: Again) -> None:
    queues = range(1, 11)
    stage.put(b"x" * 3000, to=queues)
    stage.commit()

    again(stage)

    assert [stage.held(queue) for queue in queues] == [{0: b"x" * 3000}] * 10
    assert total_size(stage.disk) <= 4096


def test_what_is_not_committed_is_not_found_after_a_crash(stage: LogStage) -> None:
    stage.put(b"a")
    stage.commit()
    stage.put(b"b")

    stage.crash()

    assert stage.held() == {0: b"a"}


def test_readers_by_offset_see_what_a_sync_covers(stage: LogStage) -> None:
    stage.put(b"the first of a segment, which is followed by a checkpoint")
    stage.commit()
    position = stage.put(b"a", level=DurabilityLevel.OS)
    stage.commit()
    assert stage.log.durable >= position  # confirmed
    assert stage.log.reads.readable_range(1, stage.log.synced).end == 1

    stage.log.flush(sync=True)
    stage.commit()

    assert stage.log.reads.readable_range(1, stage.log.synced).end == 2


def test_what_was_settled_before_a_sync_does_not_raise_the_end(stage: LogStage) -> None:
    stage.put(b"the first of a segment, which is followed by a checkpoint")
    stage.commit()
    stage.put(b"a", level=DurabilityLevel.OS)
    stage.log.settle(1, [1])
    stage.commit()
    assert stage.log.reads.readable_range(1, stage.log.synced).end == 1

    stage.put(b"b")
    stage.commit()

    assert stage.log.reads.readable_range(1, stage.log.synced).end == 3


@pytest.mark.parametrize("seed", range(5))
def test_a_sync_covers_segments_that_were_filled_without_one(seed: int) -> None:
    disk = ForgetfulDisk()
    stage = LogStage(disk)
    for _ in range(4):
        stage.put(b"x" * 3000, level=DurabilityLevel.OS)
        stage.commit()
    stage.put(b"y")
    stage.commit()

    after = LogStage(disk.crash(Random(seed)))

    assert set(after.held()) == set(range(5))


def test_what_was_written_without_a_sync_gets_one_when_tidying(stage: LogStage) -> None:
    stage.put(b"a", level=DurabilityLevel.OS)
    stage.commit()

    stage.log.compact_step()
    stage.commit()

    assert stage.log.reads.readable_range(1, stage.log.synced).end == 1


# -- what becomes of it --------------------------------------------------------------------------


@again
def test_settled_messages_do_not_come_back(stage: LogStage, again: Again) -> None:
    stage.put(*[b"%d" % number for number in range(6)])
    stage.log.settle(1, [4, 1])
    stage.log.settle(1, range(1, 3))
    stage.commit()

    again(stage)

    assert stage.held() == {0: b"0", 3: b"3", 5: b"5"}


@again
def test_returned_messages_know_how_often_they_were_delivered(
    stage: LogStage, again: Again
) -> None:
    stage.put(b"a", b"b", b"c")
    stage.log.requeued(1, [0, 1], 1)
    stage.commit()
    stage.log.requeued(1, [1], 2)
    stage.commit()

    again(stage)

    assert {one.deliveries: list(one.offsets) for one in stage.read()} == {1: [0], 2: [1], 0: [2]}


@again
def test_offsets_are_never_used_again(stage: LogStage, again: Again) -> None:
    stage.put(b"a", b"b")
    stage.log.settle(1, [0, 1])
    stage.commit()

    again(stage)

    assert stage.log.reads.next_offset(1) == 2
    assert stage.held() == {}


@again
def test_offsets_go_on_when_all_segments_are_gone(stage: LogStage, again: Again) -> None:
    stage.put(b"a", b"b")
    stage.log.settle(1, [0, 1])
    stage.restart()
    stage.compact()
    stage.commit()
    assert not [name for name in stage.disk.names() if name.endswith(".log")]

    again(stage)
    stage.put(b"c")
    stage.commit()
    stage.log.settle(1, [2])
    stage.put(b"d")
    stage.commit()
    stage.crash()

    assert stage.held() == {3: b"d"}


def test_forgotten_queues_hold_nothing(stage: LogStage) -> None:
    stage.put(b"a", to=[1, 2])
    stage.log.settle(1, [0])
    stage.log.space.delete_queue(1)
    stage.commit()

    assert stage.log.reads.live(1) == (0, 0)
    assert stage.held(1) == {}
    assert stage.held(2) == {0: b"a"}


def test_queues_that_are_not_declared_are_dropped_at_start(stage: LogStage) -> None:
    stage.put(b"a", to=[1, 2])
    stage.commit()
    stage.crash()

    stage.log.index.retain_only({2, 3})

    assert stage.log.reads.live(1) == (0, 0)
    assert stage.held(2) == {0: b"a"}


# -- groups --------------------------------------------------------------------------------------


def move(stage: LogStage, offset: int, source: int, target: int, content: bytes) -> None:
    with stage.log.atomic():
        stage.put(content, to=[target])
        stage.log.settle(source, [offset])


@again
def test_a_move_takes_the_message_from_one_queue_to_the_other(
    stage: LogStage, again: Again
) -> None:
    stage.put(b"a", b"b")
    move(stage, 0, 1, 2, b"a")
    stage.commit()

    again(stage)

    assert (stage.held(1), stage.held(2)) == ({1: b"b"}, {0: b"a"})


def test_a_move_that_is_not_committed_did_not_happen(stage: LogStage) -> None:
    stage.put(b"a")
    stage.commit()
    move(stage, 0, 1, 2, b"a")

    stage.crash()

    assert (stage.held(1), stage.held(2)) == ({0: b"a"}, {})


def test_a_group_is_waited_for_as_a_whole(stage: LogStage) -> None:
    with stage.log.atomic():
        first = stage.put(b"a")
        with stage.log.atomic():  # joins the outer one
            second = stage.put(b"b", to=[2])
    assert stage.log.durable < min(first, second)

    stage.commit()

    assert stage.log.durable >= max(first, second)


@again
def test_a_group_may_be_larger_than_a_segment(stage: LogStage, again: Again) -> None:
    with stage.log.atomic():
        for number in range(5):
            stage.put(b"%d" % number * 2000, to=[number])
        stage.log.requeued(9, [3], 1)
    stage.commit()

    again(stage)

    assert [stage.held(number) for number in range(5)] == [
        {0: b"%d" % number * 2000} for number in range(5)
    ]


@again
def test_settlements_alone_make_no_group(stage: LogStage, again: Again) -> None:
    stage.put(b"a", b"b")
    with stage.log.atomic():
        stage.log.settle(1, [0])
        stage.log.requeued(1, [1], 4)
    stage.commit()

    again(stage)

    assert [(list(one.offsets), one.deliveries) for one in stage.read()] == [([1], 4)]


# -- reading -------------------------------------------------------------------------------------


def test_reading_stops_at_about_the_bytes_asked_for_and_goes_on_from_there(
    stage: LogStage,
) -> None:
    for letter in (b"a", b"b", b"c"):
        stage.put(letter * 100)
    stage.commit()

    first, following = stage.log.reads.read(1, 0, 3, max_bytes=150)
    rest, end = stage.log.reads.read(1, following, 3, max_bytes=150)

    assert [one.contents[0][:1] for one in first + rest] == [b"a", b"b", b"c"]
    assert (following, end) == (2, 3)


def test_a_range_is_read_and_nothing_around_it(stage: LogStage) -> None:
    stage.put(*[b"%d" % number for number in range(9)])
    stage.log.settle(1, [4])
    stage.commit()

    found, following = stage.log.reads.read(1, 3, 6)

    assert [(list(one.offsets), one.contents) for one in found] == [([3], [b"3"]), ([5], [b"5"])]
    assert following == 6


def test_settled_messages_can_be_read_while_their_segment_is_there(stage: LogStage) -> None:
    stage.put(b"a", b"b")
    stage.log.settle(1, [1])
    stage.commit()

    (one,), _ = stage.log.reads.read(1, 0, 2, with_settled=True)

    assert one.contents == [b"a", b"b"]


def test_an_unknown_queue_is_empty(stage: LogStage) -> None:
    assert stage.log.reads.read(7, 0, 5) == ([], 5)
    assert (stage.log.reads.live(7), stage.log.reads.next_offset(7)) == ((0, 0), 0)


def test_messages_are_found_by_time(stage: LogStage) -> None:
    for now in (1000, 2000, 1500, 3000):  # the clock goes back once, the store time does not
        stage.now = now
        stage.put(b"x")
    stage.commit()
    index = stage.log.index.queues[1]

    times = [one.time for one in stage.read()]

    assert times == [1000, 2000, 2000, 3000]
    assert [index.first_at(at) for at in (0, 1000, 1001, 2000, 2001, 9999)] == [0, 0, 1, 1, 3, 4]


# -- space ---------------------------------------------------------------------------------------


@again
def test_a_record_larger_than_a_segment_gets_one_of_its_own(stage: LogStage, again: Again) -> None:
    stage.put(b"a")
    stage.put(b"b" * 20_000)
    stage.put(b"c")
    stage.commit()
    sizes = [segment.capacity for segment in stage.log.segments]

    again(stage)

    assert max(sizes) > 20_000
    assert stage.held() == {0: b"a", 1: b"b" * 20_000, 2: b"c"}


def test_dead_segments_go_when_no_kept_checkpoint_needs_them(stage: LogStage) -> None:
    stage.put(b"a" * 3000)
    stage.put(b"b" * 3000)
    stage.commit()
    before = set(stage.disk.names())

    stage.log.settle(1, [0])
    stage.commit()
    assert before <= set(stage.disk.names())

    stage.checkpoint()
    assert before <= set(stage.disk.names())  # the checkpoint before this one needs it

    stage.checkpoint()
    assert not any(name.startswith(f"{0:020d}") for name in stage.disk.names())
    assert stage.crash() and stage.held() == {1: b"b" * 3000}


@again
def test_compaction_keeps_the_live_messages_and_frees_the_rest(
    stage: LogStage, again: Again
) -> None:
    stage.log.compactor.rule = EAGER
    for number in range(80):
        stage.put(b"%02d" % number * 100, to=[1, 2])
    stage.commit()
    alive = {number: b"%02d" % number * 100 for number in range(0, 80, 20)}
    for queue in (1, 2):
        stage.log.settle(queue, [number for number in range(80) if number % 20])
    stage.commit()
    before = total_size(stage.disk)

    stage.compact()

    assert (stage.held(1), stage.held(2)) == (alive, alive)
    assert total_size(stage.disk) < before / 2
    again(stage)
    assert (stage.held(1), stage.held(2)) == (alive, alive)


# -- ends ----------------------------------------------------------------------------------------


def test_only_an_orderly_end_is_clean(stage: LogStage) -> None:
    assert not stage.log.report.clean

    assert stage.restart().report.clean
    assert not stage.crash().report.clean


def test_after_a_failed_sync_nothing_more_is_taken(stage: LogStage) -> None:
    stage.log.failed = OSError("gone")

    with pytest.raises(StoreError, match="gone"):
        stage.put(b"a")
    stage.log.flush()
    assert not stage.log.compact_step()
    stage.log.close()
    stage.log.close()


def test_levels_below_fsync_do_not_sync(stage: LogStage) -> None:
    stage.put(b"the first of a segment, which is followed by a checkpoint")
    stage.commit()
    syncs = []
    stage.writer.on_submit = lambda job: syncs.append(job.sync)
    for level in (DurabilityLevel.OS, DurabilityLevel.FSYNC, DurabilityLevel.OS):
        stage.put(b"a", level=level)
        stage.commit()

    assert syncs == [False, True, False]


def test_queues_with_fewer_messages_of_a_batch_get_its_first_ones(stage: LogStage) -> None:
    stage.log.append(
        OutgoingMessages(
            [b"a", b"b", b"c"],
            [RecordDestination(1, 0, 3), RecordDestination(2, 7, 2)],
            DurabilityLevel.FSYNC,
        )
    )
    stage.commit()
    stage.crash()

    assert stage.held(1) == {0: b"a", 1: b"b", 2: b"c"}
    assert stage.held(2) == {7: b"a", 8: b"b"}
