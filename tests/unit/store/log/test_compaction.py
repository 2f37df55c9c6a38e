"""Compaction: which segments, what is copied, and interruptions at every step."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.store.disk import RealDisk
from headrace.store.log import compaction
from headrace.store.log.compaction import CompactionRule
from headrace.store.log.segment import Segment
from support.faulty_disk import ForgetfulDisk, PowerCut
from support.storage.log_stage import EAGER, LogStage


def segment(*, total: int, live: int, used: int, live_bytes: int) -> Segment:
    made = Segment(0, 1 << 25)
    made.total, made.live, made.used, made.live_bytes = total, live, used, live_bytes
    return made


def test_the_rule_wants_large_segments_that_are_mostly_dead() -> None:
    rule = CompactionRule(messages=100, size=1000, alive=0.5)

    assert rule.fits(segment(total=100, live=40, used=500, live_bytes=200))
    assert rule.fits(segment(total=9, live=8, used=1000, live_bytes=200))
    assert not rule.fits(segment(total=100, live=60, used=500, live_bytes=400))
    assert not rule.fits(segment(total=9, live=1, used=500, live_bytes=100))
    assert not rule.fits(segment(total=100, live=0, used=5000, live_bytes=0))


def test_a_fan_out_that_is_wholly_alive_is_left_alone() -> None:
    stage = LogStage(ForgetfulDisk(), segment_size=8192, rule=CompactionRule(1, 1, 0.5))
    for _ in range(4):
        stage.put(*[b"tiny"] * 100, to=range(100))
    stage.commit()

    assert not stage.log.compactor.step()


def sparse(disk: ForgetfulDisk) -> tuple[LogStage, dict[int, bytes]]:
    """A log with several segments in which little is alive."""
    stage = LogStage(disk, segment_size=1024, rule=EAGER)
    for number in range(12):
        stage.put(*[b"%d.%d" % (number, part) * 30 for part in range(3)], to=[1, 2])
        stage.commit()
    dead = [offset for offset in range(36) if offset % 3 != 1]
    for queue in (1, 2):
        stage.log.settle(queue, dead)
    stage.commit()
    return stage, {3 * number + 1: b"%d.1" % number * 30 for number in range(12)}


def test_copies_keep_their_offsets_and_what_is_known_about_them() -> None:
    stage, alive = sparse(ForgetfulDisk())
    stage.log.requeued(1, [1], 2)
    stage.commit()
    before = {tuple(one.offsets): one[:6] for one in stage.read()}

    stage.compact()

    assert stage.held(1) == stage.held(2) == alive
    assert {tuple(one.offsets): one[:6] for one in stage.read()} == before
    assert stage.log.compactor.moved


@pytest.mark.parametrize("step_bytes", [1, 1 << 20])
@pytest.mark.parametrize("operations", range(1, 40))
def test_a_crash_at_any_operation_of_a_compaction_loses_and_doubles_nothing(
    operations: int, step_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "STEP_BYTES", step_bytes)
    disk = ForgetfulDisk()
    stage, alive = sparse(disk)
    disk.fuse = operations
    try:
        stage.compact()
    except PowerCut:
        pass
    disk.fuse = None

    for again in (stage.crash, stage.restart):
        again()
        assert stage.held(1) == stage.held(2) == alive
        assert [stage.log.reads.live(queue)[0] for queue in (1, 2)] == [len(alive)] * 2
        stage.compact()
        assert stage.held(1) == stage.held(2) == alive


def test_a_segment_that_is_not_written_yet_is_not_read() -> None:
    stage = LogStage(ForgetfulDisk(), segment_size=1024, rule=EAGER)
    stage.put(b"a" * 300)
    stage.commit()
    stage.put(b"b" * 300)
    stage.put(b"c" * 600)  # in the next segment
    stage.log.settle(1, [0])

    stage.compact()
    stage.crash()

    assert stage.held() == {1: b"b" * 300, 2: b"c" * 600}


def test_messages_settled_while_they_are_copied_are_not_brought_back() -> None:
    stage, alive = sparse(ForgetfulDisk())
    stage.log.compact_step()
    stage.log.settle(1, [1])
    stage.log.space.delete_queue(2)
    stage.compact()

    del alive[1]
    assert (stage.held(1), stage.held(2)) == (alive, {})
    stage.restart()
    stage.log.index.retain_only({1})
    assert stage.held(1) == alive


def test_space_comes_back_on_a_real_disk(tmp_path: Path) -> None:
    stage = LogStage(RealDisk(tmp_path), segment_size=4096, rule=EAGER)
    for number in range(100):
        stage.put(b"%d" % number * 200)
        stage.commit()
    stage.log.settle(1, range(99))
    stage.commit()

    stage.compact()
    stage.log.close()

    assert sum(file.stat().st_size for file in tmp_path.glob("*.log")) < 3 * 4096
    stage.open()
    assert stage.held() == {99: b"99" * 200}
    stage.log.close()


@pytest.mark.parametrize("crash", [False, True])
def test_copies_can_be_read_by_offset_as_before(crash: bool, tmp_path: Path) -> None:
    """Their positions lie behind everything that came in since, and they are on disk."""
    stage = LogStage(RealDisk(tmp_path), segment_size=1024, rule=EAGER)
    for number in range(12):
        stage.put(*[b"%d.%d" % (number, part) * 30 for part in range(3)])
        stage.commit()
    stage.log.settle(1, [offset for offset in range(36) if offset % 3 != 2])
    stage.commit()
    if crash:
        stage.crash()

    def seen() -> tuple[int, set[int]]:
        durable = stage.log.durable
        end = stage.log.reads.readable_range(1, durable).end
        located = stage.log.reads.locate(1, 0, end, durable)
        pairs = [
            pair
            for one in located.columns
            for pair in zip(one.low_offsets, one.high_offsets, strict=True)
        ]
        return end, {offset for low, high in pairs for offset in range(low, high)}

    before = seen()
    assert before == (36, set(range(2, 36, 3)))
    stage.compact()
    assert stage.log.compactor.moved
    assert seen() == before
    stage.put(b"later")  # not on disk yet: this one must not be seen
    assert seen() == before
    stage.commit()
    assert seen()[0] == 37
