"""One sum over contents that lie end to end tells the same as a sum of each."""

from __future__ import annotations

from zlib import crc32

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.bulk.decode.checksums import check, shift

records = st.lists(
    st.lists(st.binary(max_size=60), min_size=1, max_size=12), min_size=1, max_size=4
)


@settings(deadline=None)
@given(st.binary(max_size=50), st.sampled_from([0, 1, 255, 256, 257, 65_535, 65_536, 70_001]))
def test_a_sum_is_shifted_by_what_follows(text: bytes, size: int) -> None:
    rest = bytes(range(256)) * (size // 256 + 1)
    rest = rest[:size]
    shifted = int(shift(np.array([crc32(text)], np.uint32), np.array([size]))[0])
    assert shifted ^ crc32(rest) == crc32(text + rest)


@settings(deadline=None)
@given(records, st.integers(0, 10_000), st.integers(0, 7), st.booleans())
def test_exactly_the_damaged_contents_are_found(
    given_records: list[list[bytes]], place: int, bit: int, is_hurt: bool
) -> None:
    """Records lie apart, as heads stand between them."""
    data, starts, firsts, contents = bytearray(), [], [], []
    for record in given_records:
        data += b"head of a record"
        firsts.append(len(starts))
        for content in record:
            starts.append(len(data))
            data += content
            contents.append(content)
    sums = np.array([crc32(one) for one in contents], np.uint32)
    if is_hurt:
        data[place % len(data)] ^= 1 << bit
    lengths = np.array([len(one) for one in contents])
    found = check(
        np.frombuffer(bytes(data), np.uint8), np.array(starts), lengths, sums, np.array(firsts)
    )
    sound = [
        data[start : start + len(one)] == one for start, one in zip(starts, contents, strict=True)
    ]
    assert found.tolist() == sound
