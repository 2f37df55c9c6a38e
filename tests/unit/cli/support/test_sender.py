"""Lines of a stream, as many at a time as are there."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.support.sender import lines_of, repeated


class Dripping(io.BytesIO):
    """Gives its bytes in pieces of the sizes told, then all of the rest."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        super().__init__(data)
        self._sizes = sizes

    def read1(self, size: int | None = -1) -> bytes:
        return super().read1(self._sizes.pop(0) if self._sizes else size)


@given(
    st.lists(st.binary(max_size=8).filter(lambda line: b"\n" not in line)),
    st.lists(st.integers(1, 10)),
    st.booleans(),
)
def test_lines_are_the_same_in_whatever_pieces_they_come(
    lines: list[bytes], sizes: list[int], ends_with_newline: bool
) -> None:
    data = b"\n".join(lines) + (b"\n" if ends_with_newline and lines else b"")
    wanted = lines if ends_with_newline or not lines or lines[-1] else lines[:-1]
    assert [line for chunk in lines_of(Dripping(data, sizes)) for line in chunk] == wanted


def test_batches_are_not_larger_than_a_request() -> None:
    chunks = list(lines_of(io.BytesIO(b"x\n" * 2500)))
    assert [len(chunk) for chunk in chunks] == [1000, 1000, 500]


@given(st.integers(1, 5000))
def test_a_body_is_repeated_as_often_as_asked(count: int) -> None:
    chunks = list(repeated(b"x", count))
    assert sum(map(len, chunks)) == count
    assert max(map(len, chunks)) <= 1000
