"""Sums of many heads at once are those of each alone."""

from __future__ import annotations

import random
from struct import pack_into
from zlib import crc32

import pytest

pytest.importorskip("pyarrow")

import numpy as np

from headrace.bulk.decode.records import check_heads, crc32_of_rows
from headrace.wire.record_layout import NAMES_AT, SIZE_AT, inner_seed

SEED = 0x1234_5678


@pytest.mark.parametrize("size", [1, 7, 44, 92, 252])
@pytest.mark.parametrize("varied", [0, 3, 1000])
def test_sums_of_rows(size: int, varied: int) -> None:
    choose = random.Random(size)
    first = choose.randbytes(size)
    rows = []
    for _ in range(100):
        row = bytearray(first)
        for _ in range(varied):
            row[choose.randrange(size)] = choose.randrange(256)
        rows.append(bytes(row))
    matrix = np.frombuffer(b"".join(rows), np.uint8).reshape(100, size)
    assert crc32_of_rows(matrix, SEED).tolist() == [crc32(row, SEED) for row in rows]


def test_damaged_heads_are_found_among_many_of_all_sizes() -> None:
    choose = random.Random(1)
    data, at, sound = bytearray(), [], []
    for n in range(500):
        head_size = choose.choice((NAMES_AT + 32, NAMES_AT + 40, 320, NAMES_AT + 8 * (n % 50)))
        head = bytearray(choose.randbytes(head_size))
        pack_into("<II", head, SIZE_AT, head_size + 8, head_size)
        seed = inner_seed(SEED) if n % 7 == 0 else SEED
        pack_into("<I", head, 0, crc32(memoryview(head)[4:], seed))
        is_sound = n % 11 != 0
        if not is_sound:
            head[choose.randrange(NAMES_AT - 8, head_size)] ^= 1 << choose.randrange(8)
        at.append(len(data))
        sound.append(is_sound)
        data += head + bytes(8)
    pack_into("<I", data, at[3] + SIZE_AT, 1 << 30)  # it would end behind the segment
    sound[3] = False
    pack_into("<I", data, at[4] + SIZE_AT + 4, 0xFFFFFFFF)
    sound[4] = False
    found = np.frombuffer(bytes(data), np.uint8)
    assert check_heads(found, found.view(np.uint32), SEED, np.array(at)).tolist() == sound
