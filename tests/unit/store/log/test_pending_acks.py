"""Notes and groups: what waits to become a record."""

from __future__ import annotations

from itertools import count

import pytest

from headrace.store.api.message_log import OutgoingMessages, RecordDestination
from headrace.store.log import commit_log
from headrace.store.log import record as r
from headrace.store.log.appender import AtomicGroup, PendingAcks, ranges_of
from headrace.store.log.segment import SegmentRecord, parts_of, walk
from headrace.wire.record_layout import MESSAGES, REQUEUED, SETTLED
from support.faulty_disk import ForgetfulDisk
from support.storage.log_stage import LogStage


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        (range(3, 6), [(3, 6)]),
        (range(0), []),
        (range(0, 4, 2), [(0, 1), (2, 3)]),
        ([5, 3], [(5, 6), (3, 4)]),
    ],
)
def test_offsets_become_ranges(offsets: range | list[int], expected: list[tuple[int, int]]) -> None:
    assert ranges_of(offsets) == expected


def test_settled_ranges_are_joined_by_queue() -> None:
    notes = PendingAcks()
    notes.settled = {1: [(5, 6), (3, 5)], 2: [(6, 7)]}

    assert notes.settled_ranges() == [(1, 3, 6), (2, 6, 7)]


def test_acks_of_a_group_are_added_to_those_of_the_log() -> None:
    acks, other = PendingAcks(), PendingAcks()
    assert not acks
    acks.settled = {1: [(0, 1)]}
    other.settled = {1: [(1, 2)], 2: [(0, 1)]}
    other.requeued = [(1, 2, 3, 1), (2, 1, 2, 1)]

    acks.add(other)

    assert acks.settled_ranges() == [(1, 0, 2), (2, 0, 1)]
    assert acks.requeued == [(1, 2, 3, 1), (2, 1, 2, 1)]
    assert acks


def test_acks_of_a_deleted_queue_are_not_written() -> None:
    stage = LogStage(ForgetfulDisk())
    stage.put(b"a", b"b", to=(1, 2))
    stage.commit()
    for queue in (1, 2):
        stage.log.settle(queue, [0])
        stage.log.requeued(queue, [1], 1)
    stage.log.space.delete_queue(1)
    stage.commit()

    (segment,) = stage.log.segments
    data = segment.read(segment.base, segment.used)
    records = [
        one for one in walk(data, segment.base, segment.seed) if isinstance(one, SegmentRecord)
    ]
    _, settled, requeued = records
    assert list(r.decode_ranges(data, settled.head, settled.at)) == [(2, 0, 1)]
    assert list(r.decode_ranges(data, requeued.head, requeued.at)) == [(2, 1, 2, 1)]


def test_settled_one_by_one_in_order_they_wait_as_one_range() -> None:
    stage = LogStage(ForgetfulDisk())
    for offset in (0, 1, 2, 9):
        stage.log.settle(1, [offset])
    stage.log.settle(1, range(10, 20))

    assert stage.log._pending.settled == {1: [(0, 3), (9, 20)]}


def test_a_wide_range_is_settled_in_the_index_over_several_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """100,000 records of a message each took 0.1 s in one turn."""
    ticks = count()
    monkeypatch.setattr(commit_log, "thread_time", lambda: next(ticks) / 1000)
    stage = LogStage(ForgetfulDisk())
    for _ in range(40_000):
        stage.put(b"a")
    stage.commit()
    stage.log.settle(1, range(40_000))

    stage.log.flush()
    assert 0 < stage.log.reads.live(1)[0] < 40_000
    stage.compact()
    assert stage.log.reads.live(1) == (0, 0)


def test_a_group_is_one_record_and_knows_where_its_messages_are() -> None:
    group = AtomicGroup()
    for number in range(2):
        placed = [RecordDestination(1, number, 1)]
        group.messages.append(OutgoingMessages([b"%d" % number], placed, 2, key="k"))
    group.notes.settled = {2: [(0, 1)]}
    group.notes.requeued = [(3, 0, 1, 1)]

    size = group.measure()
    data = b"".join(group.encode(64, 1000))
    (found,) = walk(data, 0, 64)

    assert isinstance(found, SegmentRecord)
    assert (len(data), found.head.items) == (size, 4)
    inside = list(parts_of(found))
    kinds = [one.head.kind for one in inside]
    assert kinds == [MESSAGES, MESSAGES, SETTLED, REQUEUED]
    assert group.spots == [(one.at, one.head.size) for one in inside[:2]]
