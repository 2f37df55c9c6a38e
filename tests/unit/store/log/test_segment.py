"""Walking through a segment's bytes: over damage, and up to a torn tail."""

from __future__ import annotations

import pytest

from headrace.store.log import record as r
from headrace.store.log.segment import (
    Damage,
    base_of,
    index_name,
    segment_name,
    used_length,
    walk,
)
from headrace.wire.record_layout import SETTLED, segment_seed

BASE = 4096
SEED = segment_seed(BASE)
ONE = r.ranges_bytes(SETTLED, [(1, 0, 1)], seed=SEED, time=1)
SIZE = len(ONE)


def positions(data: bytes) -> list[int]:
    return [step.position - BASE for step in walk(data, BASE, SEED) if not isinstance(step, Damage)]


def damage(data: bytes) -> list[tuple[int, int]]:
    return [
        (step.position - BASE, step.size)
        for step in walk(data, BASE, SEED)
        if isinstance(step, Damage)
    ]


def test_records_are_met_in_order() -> None:
    assert positions(ONE * 3 + bytes(500)) == [0, SIZE, 2 * SIZE]


def test_the_walk_can_begin_behind_the_start() -> None:
    assert [step.position for step in walk(ONE * 3, BASE, SEED, SIZE)] == [
        BASE + SIZE,
        BASE + 2 * SIZE,
    ]


@pytest.mark.parametrize("hole", [b"\xff" * SIZE, bytes(SIZE), bytes(8), b"\x01" * 512], ids=len)
def test_damage_in_the_middle_is_skipped_and_reported(hole: bytes) -> None:
    data = ONE + hole + ONE + bytes(100)

    assert positions(data) == [0, SIZE + len(hole)]
    assert damage(data) == [(SIZE, len(hole))]


@pytest.mark.parametrize("tail", [ONE[:-8], ONE[:33], b"\xff" * 80, b"\x01"], ids=len)
def test_a_torn_tail_ends_the_walk_and_is_no_damage(tail: bytes) -> None:
    data = ONE + tail

    assert positions(data + bytes(200)) == [0]
    assert damage(data) == []


def test_an_empty_segment_has_no_records() -> None:
    assert list(walk(b"", BASE, SEED)) == []
    assert list(walk(bytes(1 << 17), BASE, SEED)) == []


@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, 200_000])
def test_the_used_length_of_zeros_is_nothing(size: int) -> None:
    assert used_length(bytes(size)) == 0
    assert used_length(b"\x01" + bytes(size)) == 1
    assert used_length(bytes(size) + b"\x01") == size + 1


def test_names_tell_the_base() -> None:
    assert base_of(segment_name(123)) == 123
    for name in (index_name(123), "checkpoint", "x.log", ".log", segment_name(1) + ".new"):
        assert base_of(name) is None
