"""Records: cut short at each byte, moved to another segment, with heads that lie."""

from __future__ import annotations

import pytest

from headrace.store.api.message_log import OutgoingMessages, RecordDestination
from headrace.store.log import record as r
from headrace.store.log.segment import walk
from headrace.wire.record_layout import REQUEUED, SETTLED, inner_seed, segment_seed

BASE = 1 << 20
SEED = segment_seed(BASE)
INNER = inner_seed(SEED)
OUT = OutgoingMessages(
    [b"first", b"second"],
    [RecordDestination(1, 10, 2), RecordDestination(2, 0, 1)],
    2,
    exchange="ex",
    key="key",
    channel_number=1,
    ttl_ms=5,
)


def messages(seed: int = SEED) -> bytes:
    return b"".join(r.messages_parts(OUT, seed=seed, time=99)[0])


RECORDS = {
    "messages": messages(),
    "settled": r.ranges_bytes(SETTLED, [(1, 2, 3), (4, 5, 6)], seed=SEED, time=1),
    "returned": r.ranges_bytes(REQUEUED, [(1, 2, 3, 4)], seed=SEED, time=1),
    "group": r.group_head(messages(INNER), 1, seed=SEED, time=1) + messages(INNER),
}
every = pytest.mark.parametrize("data", RECORDS.values(), ids=RECORDS)


@every
def test_a_record_is_found_where_it_begins(data: bytes) -> None:
    (step,) = walk(data + bytes(64), BASE, SEED)

    assert (step.position, step.at, step.head.size) == (BASE, 0, len(data))


@every
def test_a_record_cut_at_any_byte_is_none(data: bytes) -> None:
    assert [cut for cut in range(len(data)) if list(walk(data[:cut], BASE, SEED))] == []


@every
def test_a_record_whose_head_is_cut_by_zeros_is_none(data: bytes) -> None:
    head = r.read_head(data)
    assert head is not None
    whole = data[: head.head_size].rstrip(b"\x00")
    shortened = [data[:cut] + bytes(len(data) - cut) for cut in range(len(whole))]

    assert [one for one in shortened if list(walk(one, BASE, SEED))] == []


@every
def test_every_flipped_bit_of_a_head_is_noticed(data: bytes) -> None:
    head = r.read_head(data)
    assert head is not None
    unnoticed = []
    for bit in range(head.head_size * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        unnoticed += [bit] * len(list(walk(bytes(damaged), BASE, SEED)))

    assert unnoticed == []


@every
@pytest.mark.parametrize("base", [0, BASE - 8, BASE + 8, BASE << 1, BASE + (1 << 32)])
def test_a_record_moved_to_another_segment_is_refused(data: bytes, base: int) -> None:
    assert list(walk(data, base, segment_seed(base))) == []


def test_records_of_a_torn_group_are_not_taken_for_records() -> None:
    group = RECORDS["group"]

    assert list(walk(bytes(r.HEAD_SIZE) + group[r.HEAD_SIZE :], BASE, SEED)) == []


def test_a_group_with_a_changed_byte_is_not_good() -> None:
    data = bytearray(RECORDS["group"])
    data[-9] ^= 1
    head = r.read_head(bytes(data))
    assert head is not None

    assert r.head_is_good(bytes(data), head, SEED)
    assert not r.group_is_good(bytes(data), head)


def test_names_that_are_not_utf8_survive() -> None:
    name = b"\xff\xfe".decode("utf-8", "surrogateescape")
    out = OutgoingMessages([b""], [RecordDestination(1, 0, 1)], 1, exchange=name, key=name)
    data = b"".join(r.messages_parts(out, seed=0, time=0)[0])
    head = r.read_head(data)
    assert head is not None
    decoded = r.decode_messages(data, head)

    assert decoded is not None
    assert (decoded.exchange, decoded.key, decoded.ttl_ms) == (name, name, None)


def test_a_head_whose_parts_do_not_add_up_is_not_decoded() -> None:
    data = messages()
    head = r.read_head(data)
    assert head is not None

    assert r.decode_messages(data, head._replace(items=3)) is None
