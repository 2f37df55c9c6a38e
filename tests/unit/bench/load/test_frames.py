"""Acks are cut and confirms counted exactly; the frames come from a foreign codec."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pika.frame import Method
from pika.spec import Basic, Channel

from headrace.bench.load import frames


def confirm(tag: int, *, multiple: bool = False) -> bytes:
    return Method(1, Basic.Ack(tag, multiple)).marshal()


def test_the_tag_of_a_delivery_is_at_the_stated_offset() -> None:
    data = Method(9, Basic.Deliver("c000", 77, False, "x", "key")).marshal()
    at = frames.delivery_number_offset("c000")

    assert int.from_bytes(data[at : at + 8], "big") == 77


@pytest.mark.parametrize(
    ("first", "last"), [(1, 3), (65_530, 65_540), (1 << 24, (1 << 24) + 2), (5, 140_000)]
)
def test_acks_carry_every_tag_once_and_in_order(first: int, last: int) -> None:
    block = frames.AckBlock(7)

    data = b"".join(bytes(piece) for piece in block.cut(first, last))

    rows = list(struct.iter_unpack(">BHIIQBB", data))
    assert [row[4] for row in rows] == list(range(first, last + 1))
    assert {row[:4] + row[5:] for row in rows} == {(1, 7, 13, 60 << 16 | 80, 0, 0xCE)}


def test_acks_may_be_cut_again_below_a_boundary() -> None:
    block = frames.AckBlock(1)
    above = b"".join(bytes(piece) for piece in block.cut(70_000, 70_000))

    below = b"".join(bytes(piece) for piece in block.cut(2, 2))

    assert (above[11:19], below[11:19]) == (struct.pack(">Q", 70_000), struct.pack(">Q", 2))


@given(st.permutations(range(1, 21)), st.integers(0, 20), st.integers(1, 60))
def test_confirms_are_counted_once_in_any_order_and_any_cut(
    order: list[int], up_to: int, step: int
) -> None:
    cut = len(order) // 2
    data = b"".join(map(confirm, order[:cut]))
    data += confirm(up_to, multiple=True) if up_to else b""
    data += b"".join(confirm(tag) for tag in order[cut:] if tag > up_to)
    confirms = frames.ConfirmCounter()

    for start in range(0, len(data), step):
        confirms.feed(data[start : start + step])

    assert confirms.count == 20


def test_a_refused_publish_fails_the_measurement() -> None:
    with pytest.raises(ValueError, match="refused"):
        frames.ConfirmCounter().feed(Method(1, Basic.Nack(1)).marshal())


def test_a_close_is_explained_with_its_text() -> None:
    close = Method(1, Channel.Close(404, "NOT_FOUND - no queue", 0, 0)).marshal()

    assert frames.explain_close(close) == ": NOT_FOUND - no queue"
    assert frames.explain_close(b"nothing") == ""
