"""Records of the commit log: round trips, and no damage to a head goes unnoticed."""

from __future__ import annotations

from zlib import crc32

from hypothesis import given
from hypothesis import strategies as st

from headrace.store.api.message_log import OutgoingMessages, RecordDestination
from headrace.store.log import record as r
from headrace.store.log.segment import Damage, SegmentRecord, parts_of, used_length, walk
from headrace.wire.record_layout import REQUEUED, SETTLED, inner_seed, segment_seed

u64 = st.integers(0, 2**63)
bases = st.integers(0, 2**40).map(lambda number: number * 8)
names = st.text(max_size=40).filter(lambda text: len(text.encode("utf-8", "replace")) < 256)
placed = st.lists(st.builds(RecordDestination, u64, u64, st.integers(0, 9)), max_size=4)
outgoing = st.builds(
    OutgoingMessages,
    st.lists(st.binary(max_size=50), max_size=5),
    placed,
    st.integers(0, 2),
    names.map(lambda text: text.encode("utf-8", "replace").decode()),
    names.map(lambda text: text.encode("utf-8", "replace").decode()),
    st.integers(0, 65535),
    st.none() | st.integers(0, 2**40),
)
settled = st.lists(st.tuples(u64, u64, u64), min_size=1, max_size=4)
returned = st.lists(st.tuples(u64, u64, u64, u64), min_size=1, max_size=4)


def encoded(out: OutgoingMessages, seed: int, time: int = 7) -> bytes:
    parts, size = r.messages_parts(out, seed=seed, time=time)
    data = b"".join(parts)
    assert len(data) == size
    return data


@given(out=outgoing, base=bases, time=st.integers(0, 2**50))
def test_messages_survive_the_round_trip(out: OutgoingMessages, base: int, time: int) -> None:
    data = encoded(out, segment_seed(base), time)
    (step,) = walk(data, base, segment_seed(base))
    assert isinstance(step, SegmentRecord)
    messages = r.decode_messages(step.data, step.head, step.at)

    assert messages is not None
    assert (messages.exchange, messages.key) == (out.exchange, out.key)
    assert (messages.channel_number, messages.ttl_ms, messages.time) == (
        out.channel_number,
        out.ttl_ms,
        time,
    )
    assert messages.placed == tuple(out.placed)
    assert (step.head.level, step.head.items) == (out.level, len(out.contents))
    at = messages.head_size
    for content, length, crc in zip(out.contents, messages.lengths, messages.crcs, strict=True):
        assert data[at : at + length] == content
        assert crc32(content) == crc
        at += length
    assert len(data) % r.ALIGN == 0


@given(ranges=settled, base=bases)
def test_settlements_survive_the_round_trip(ranges: list[tuple[int, int, int]], base: int) -> None:
    (step,) = walk(
        r.ranges_bytes(SETTLED, ranges, seed=segment_seed(base), time=1), base, segment_seed(base)
    )

    assert isinstance(step, SegmentRecord)
    assert list(r.decode_ranges(step.data, step.head, step.at)) == ranges


@given(ranges=returned, base=bases)
def test_returns_survive_the_round_trip(ranges: list[tuple[int, int, int, int]], base: int) -> None:
    (step,) = walk(
        r.ranges_bytes(REQUEUED, ranges, seed=segment_seed(base), time=1), base, segment_seed(base)
    )

    assert isinstance(step, SegmentRecord)
    assert list(r.decode_ranges(step.data, step.head, step.at)) == ranges


@given(out=outgoing, base=bases, other=bases)
def test_a_record_is_refused_in_another_segment(
    out: OutgoingMessages, base: int, other: int
) -> None:
    data = encoded(out, segment_seed(base))

    assert bool(list(walk(data, other, segment_seed(other)))) == (
        base == other or not used_length(data)
    )


@given(out=outgoing, base=bases, where=st.integers(0, 1 << 20), bit=st.integers(0, 7))
def test_a_flipped_bit_in_the_head_is_noticed(
    out: OutgoingMessages, base: int, where: int, bit: int
) -> None:
    data = bytearray(encoded(out, segment_seed(base)))
    head = r.read_head(bytes(data))
    assert head is not None
    data[where % head.head_size] ^= 1 << bit

    assert not [
        step
        for step in walk(bytes(data), base, segment_seed(base))
        if isinstance(step, SegmentRecord)
    ]


@given(outs=st.lists(outgoing, min_size=1, max_size=3), ranges=settled, base=bases)
def test_a_group_holds_its_records_and_hides_them_from_a_walk(
    outs: list[OutgoingMessages], ranges: list[tuple[int, int, int]], base: int
) -> None:
    inner = inner_seed(segment_seed(base))
    records = [encoded(out, inner) for out in outs]
    records.append(r.ranges_bytes(SETTLED, ranges, seed=inner, time=1))
    body = b"".join(records)
    data = r.group_head(body, len(records), seed=segment_seed(base), time=1) + body
    (step,) = walk(data, base, segment_seed(base))
    assert isinstance(step, SegmentRecord)

    assert r.group_is_good(data, step.head)
    assert [data[part.at : part.at + part.head.size] for part in parts_of(step)] == records
    assert not list(walk(bytes(r.HEAD_SIZE) + body, base, segment_seed(base)))


@given(
    contents=st.lists(st.binary(min_size=1, max_size=30), min_size=1, max_size=3),
    base=bases,
    where=st.integers(0, 1 << 20),
    bit=st.integers(0, 7),
)
def test_a_flipped_bit_anywhere_in_a_group_is_noticed(
    contents: list[bytes], base: int, where: int, bit: int
) -> None:
    out = OutgoingMessages(
        contents, [RecordDestination(1, 0, len(contents))], 2, exchange="x", key="k"
    )
    body = encoded(out, inner_seed(segment_seed(base)))
    data = bytearray(r.group_head(body, 1, seed=segment_seed(base), time=1) + body)
    data[where % len(data)] ^= 1 << bit
    steps = [
        step
        for step in walk(bytes(data), base, segment_seed(base))
        if isinstance(step, SegmentRecord)
    ]

    assert not [step for step in steps if r.group_is_good(bytes(data), step.head, step.at)]


@given(data=st.binary(max_size=400), base=bases)
def test_garbage_is_no_record(data: bytes, base: int) -> None:
    assert not [
        step for step in walk(data, base, segment_seed(base)) if not isinstance(step, Damage)
    ]


@given(front=st.binary(max_size=70), zeros=st.integers(0, 200_000))
def test_the_used_length_is_without_the_zeros_at_the_end(front: bytes, zeros: int) -> None:
    assert used_length(front + bytes(zeros)) == len(front.rstrip(b"\x00"))
