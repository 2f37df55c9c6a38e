"""The generator's bytes are read by a foreign codec; confirms and acks are counted exactly."""

from __future__ import annotations

import struct

import pika.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.bench.load import contents, frames


def decoded(data: bytes) -> list[object]:
    found: list[object] = []
    while data:
        size, frame = pika.frame.decode_frame(data)
        found.append(frame)
        data = data[size:]
    return found


def confirm(tag: int, *, multiple: bool = False) -> bytes:
    return frames.method(1, 60, 80, struct.pack(">QB", tag, multiple))


def test_a_publish_is_read_by_a_foreign_codec() -> None:
    content = contents.plain(100, persistent=True)
    data = frames.publish("logs", "a.b", content.properties, content.body, channel=3)

    method, header, body = decoded(data)

    assert (method.method.exchange, method.method.routing_key) == ("logs", "a.b")
    assert (header.body_size, header.properties.delivery_mode) == (100, 2)
    assert body.fragment == b"x" * 100
    assert {frame.channel_number for frame in (method, header, body)} == {3}


def test_a_delivery_is_decoded_by_another_codec_with_its_tag_at_the_stated_offset() -> None:
    data = frames.delivery("c000", 77, "x", "key", b"\x00\x00", b"abc", channel=9)
    at = frames.delivery_number_offset("c000")

    method, *_ = decoded(data)

    assert method.method.delivery_tag == 77
    assert int.from_bytes(data[at : at + 8], "big") == 77


def test_a_body_larger_than_a_frame_is_split() -> None:
    data = frames.content(1, b"\x00\x00", b"x" * 300_000)

    header, *bodies = decoded(data)

    assert header.body_size == sum(len(body.fragment) for body in bodies) == 300_000
    assert len(bodies) == 3


def test_field_tables_have_the_types_of_task_headers() -> None:
    values = {"a": None, "b": True, "c": -5, "d": {"e": "text"}, "f": [None, 1]}
    header = frames.frame(
        frames.HEADER, 1, struct.pack(">HHQH", 60, 0, 0, 0x2000) + frames.table(values)
    )

    (found,) = decoded(header)

    assert found.properties.headers == values


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
        frames.ConfirmCounter().feed(frames.method(1, 60, 120, struct.pack(">QB", 1, 0)))


def test_a_close_is_explained_with_its_text() -> None:
    close = struct.pack(">H", 404) + frames.short("NOT_FOUND - no queue") + b"\x00" * 4

    assert frames.explain_close(frames.method(1, 20, 40, close)) == ": NOT_FOUND - no queue"
    assert frames.explain_close(b"nothing") == ""
