"""Retention in the log: settled messages stay readable by offset, until their time is over."""

from __future__ import annotations

import pytest

from headrace.model.retention import Retention
from headrace.store.api.message_log import DurabilityLevel, OutgoingMessages, RecordDestination
from support.faulty_disk import ForgetfulDisk
from support.storage.log_stage import EAGER, LogStage


def kept(stage: LogStage, queue: int = 1) -> list[bytes]:
    """Everything that can be read by offset, settled or not."""
    stop = stage.log.reads.next_offset(queue)
    found, following = stage.log.reads.read(queue, 0, stop, with_settled=True)
    assert following == stop
    return [content for one in found for content in one.contents]


@pytest.fixture
def stage() -> LogStage:
    stage = LogStage(ForgetfulDisk(), segment_size=1024, rule=EAGER)
    stage.log.space.set_retention(1, Retention(ms=10_000))
    return stage


def fill(stage: LogStage, count: int = 8) -> list[bytes]:
    contents = [b"%d" % number * 200 for number in range(count)]
    for content in contents:
        stage.put(content)
        stage.commit()
    return contents


def test_settled_messages_are_not_delivered_but_can_be_read(stage: LogStage) -> None:
    contents = fill(stage)
    stage.log.settle(1, range(8))
    stage.compact()

    assert stage.read() == []
    assert stage.log.reads.live(1) == (0, 0)
    assert kept(stage) == contents


def test_they_go_when_their_time_is_over_and_so_does_the_space(stage: LogStage) -> None:
    fill(stage)
    stage.log.settle(1, range(8))
    stage.compact()
    segments = len(stage.log.segments)

    stage.now += 10_000
    stage.compact()

    assert kept(stage) == []
    assert len(stage.log.segments) < segments


def test_what_is_not_settled_never_goes(stage: LogStage) -> None:
    contents = fill(stage)
    stage.log.settle(1, range(1, 8))
    stage.now += 100_000
    stage.compact()

    assert kept(stage)[0] == contents[0]
    assert [one.contents for one in stage.read()] == [contents[:1]]


def test_bytes_bound_what_is_kept(stage: LogStage) -> None:
    contents = fill(stage)
    stage.log.space.set_retention(1, Retention(size=900))
    stage.log.settle(1, range(8))
    stage.commit()
    stage.compact()

    remaining = kept(stage)
    assert 0 < len(remaining) < 8
    assert remaining == contents[-len(remaining) :]


@pytest.mark.parametrize("clean", [True, False])
def test_retained_messages_survive_a_restart(stage: LogStage, clean: bool) -> None:
    contents = fill(stage)
    stage.log.settle(1, range(8))
    stage.checkpoint()

    _ = stage.restart() if clean else stage.crash()
    stage.log.space.set_retention(1, Retention(ms=10_000))
    stage.log.index.release_settled()
    stage.compact()

    assert stage.read() == []
    assert kept(stage) == contents


def test_without_retention_nothing_is_kept(stage: LogStage) -> None:
    fill(stage)
    stage.log.settle(1, range(8))
    stage.commit()
    stage.log.space.set_retention(1, None)
    stage.compact()

    assert kept(stage) == []
    assert sum(segment.live for segment in stage.log.segments) == 0


def emptied() -> LogStage:
    """A queue of which three messages were settled and are gone."""
    stage = LogStage(ForgetfulDisk(), segment_size=1024, rule=EAGER)
    fill(stage, 3)
    stage.log.settle(1, range(3))
    stage.commit()
    return stage


def test_offsets_of_an_empty_queue_go_on_when_it_gets_a_retention() -> None:
    stage = emptied()
    stage.log.space.set_retention(1, Retention(ms=10_000))
    assert stage.log.reads.next_offset(1) == 3
    assert stage.restart().reads.next_offset(1) == 3


def test_offsets_of_an_empty_queue_go_on_when_it_is_pinned() -> None:
    stage = emptied()
    stage.log.space.set_pin(1, 3)
    assert stage.log.reads.next_offset(1) == 3
    assert stage.restart().reads.next_offset(1) == 3


def test_a_prepared_group_in_an_empty_queue_is_retained_as_well() -> None:
    stage = emptied()
    stage.log.space.set_retention(1, Retention(ms=10_000))
    records = stage.log.prepare()
    records.add(OutgoingMessages([b"x" * 200], [RecordDestination(1, 0, 1)], DurabilityLevel.FSYNC))
    with stage.log.atomic():
        stage.log.append_prepared(records, {1: 3})
    stage.commit()
    stage.log.settle(1, range(3, 4))
    stage.compact()
    assert kept(stage) == [b"x" * 200]
