"""The open segment: records go behind each other, and a full segment is followed by a new one."""

from __future__ import annotations

from headrace.store.log.appender import Appender, Encode
from headrace.store.log.segment import Segment
from headrace.store.log.segment_list import SegmentList
from headrace.wire.record_layout import segment_seed
from support.faulty_disk import ForgetfulDisk

SEED = b"%d" % segment_seed(0)


def make(*, cold: bool = False) -> tuple[Appender, list[Segment]]:
    full: list[Segment] = []
    segments = SegmentList(ForgetfulDisk(), [], start=0, size=64)
    return Appender(segments, full.append, cold=cold), full


def record(size: int) -> Encode:
    """Says for which seed it was made."""
    return lambda seed, synced: ([b"%d" % seed], size)


def test_records_are_encoded_for_the_segment_they_end_up_in() -> None:
    appender, full = make()

    spots = [appender.append(record(size)) for size in (24, 40, 8)]

    assert spots == [(0, 24), (24, 40), (64, 8)]
    assert [(one.segment.base, one.offset, one.buffers) for one in appender.chunks] == [
        (0, 0, [SEED, SEED]),
        (64, 0, [b"%d" % segment_seed(64)]),
    ]
    assert [(one.base, one.sealed, one.used) for one in full] == [(0, True, 64)]


def test_what_was_taken_is_not_written_again() -> None:
    appender, _ = make()
    appender.append(record(8))
    appender.take_chunks()
    appender.append(record(8))

    assert [(one.offset, one.buffers) for one in appender.take_chunks()] == [(8, [SEED])]
    assert appender.chunks == []


def test_copies_go_to_segments_marked_as_cold() -> None:
    appender, _ = make(cold=True)
    appender.append(record(8))

    assert appender.segment is not None
    assert appender.segment.cold


def test_a_segment_can_end_before_it_is_full() -> None:
    appender, full = make()
    appender.append(record(8))

    appender.seal()
    appender.seal()  # there is none

    assert [one.base for one in full] == [0]
    assert appender.append(record(8)) == (64, 8)
