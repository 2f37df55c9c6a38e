"""The table of segments: by position, and which of them are done with."""

from __future__ import annotations

from array import array

import pytest

from headrace.store.log.segment import Segment, segment_name
from headrace.store.log.segment_list import REMOVED_AT_ONCE, SegmentList
from support.faulty_disk import ForgetfulDisk


@pytest.fixture
def disk() -> ForgetfulDisk:
    return ForgetfulDisk()


def make(disk: ForgetfulDisk, *sizes: int) -> SegmentList:
    segments = SegmentList(disk, [], start=64, size=100)
    for size in sizes:
        segment = segments.new(size)
        segment.create(disk)
        segment.sealed = True
    return segments


def bases(found: list[Segment]) -> list[int]:
    return [segment.base for segment in found]


def test_a_position_belongs_to_the_last_segment_that_begins_before_it(disk: ForgetfulDisk) -> None:
    segments = make(disk, 1, 400, 1)

    assert [segments.at(at).base for at in (64, 163, 164, 563, 564)] == [64, 64, 164, 164, 564]


@pytest.mark.parametrize(
    ("positions", "runs"),
    [
        ([], []),
        ([64, 70, 163], [(64, 0, 3)]),
        ([64, 164, 200, 564, 600], [(64, 0, 1), (164, 1, 3), (564, 3, 5)]),
        ([200, 64, 563, 564, 70], [(164, 0, 1), (64, 1, 2), (164, 2, 3), (564, 3, 4), (64, 4, 5)]),
        ([64, 600, 70], [(64, 0, 1), (564, 1, 2), (64, 2, 3)]),
        ([600, 601, 64, 65], [(564, 0, 2), (64, 2, 4)]),
    ],
)
def test_positions_by_segment_whatever_their_order(
    disk: ForgetfulDisk, positions: list[int], runs: list[tuple[int, int, int]]
) -> None:
    found = make(disk, 1, 400, 1).runs(array("Q", positions))

    assert [(segment.base, low, high) for segment, low, high in found] == runs


def test_positions_are_never_given_twice(disk: ForgetfulDisk) -> None:
    segments = make(disk, 1, 1)
    segments.remove(list(segments))

    assert segments.new(1).base == 264
    assert segments.at(264).base == 264
    assert segment_name(64) not in disk.names()


def test_idle_segments_are_sealed_and_wholly_written(disk: ForgetfulDisk) -> None:
    segments = make(disk, 1, 1, 1)
    segments.at(164).sealed = False
    segments.new(1).sealed = True  # has no file yet

    assert bases(segments.idle(unfinished={264})) == [64]


def test_a_segment_is_dead_when_a_checkpoint_takes_over_what_it_says(disk: ForgetfulDisk) -> None:
    segments = make(disk, 1, 1, 1, 1)
    segments.at(64).live = 1
    segments.at(364).cold = True  # only copies

    assert bases(segments.dead(position=264)) == [164, 364]


def test_each_segment_is_indexed_once(disk: ForgetfulDisk) -> None:
    segments = make(disk, 1)
    segments.index_later(segments.at(64))

    assert segments.has_unindexed
    assert bases(segments.take_unindexed()) == [64]
    assert (segments.has_unindexed, segments.take_unindexed()) == (False, [])


def test_many_dead_segments_are_removed_a_few_at_a_time(disk: ForgetfulDisk) -> None:
    segments = make(disk, *[1] * 4 * REMOVED_AT_ONCE)
    segments.remove(list(segments))
    assert len(list(disk.names())) >= 3 * REMOVED_AT_ONCE

    steps = 1
    while segments.remove_files():
        steps += 1

    assert steps >= 4
    assert list(disk.names()) == []
