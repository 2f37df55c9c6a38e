"""Frames of the native protocol."""

from __future__ import annotations

import pytest

from headrace.wire.native.frames import HEAD, Reader, frame


def test_a_frame_is_type_length_and_payload() -> None:
    assert frame(9, b"abc") == b"\0\0\0\x09\0\0\0\x03abc"


def test_frames_come_out_as_they_went_in() -> None:
    assert Reader().feed(frame(1, b"a") + frame(2, b"") + frame(3, b"c")[:-1]) == [
        (1, b"a"),
        (2, b""),
    ]


def test_a_frame_may_come_byte_by_byte() -> None:
    reader = Reader()
    frames = [one for byte in frame(7, b"payload") for one in reader.feed(bytes([byte]))]

    assert frames == [(7, b"payload")]


@pytest.mark.parametrize("length", [11, 2**31 - 1, -1, -(2**31)])
def test_a_length_out_of_bounds_is_a_fault_at_once(length: int) -> None:
    reader = Reader(frame_max=10)

    assert reader.feed(frame(1, b"good") + HEAD.pack(2, length)) == [(1, b"good")]
    assert reader.fault is not None
    assert f"a frame of {length} bytes" in str(reader.fault)


def test_nothing_is_read_after_a_fault() -> None:
    reader = Reader(frame_max=10)
    reader.feed(HEAD.pack(2, 11))

    assert reader.feed(frame(1, b"good")) == []


def test_the_largest_frame_is_allowed() -> None:
    assert Reader(frame_max=10).feed(frame(1, bytes(10))) == [(1, bytes(10))]


def test_the_limit_may_be_raised_between_frames() -> None:
    reader = Reader(frame_max=1)
    reader.feed(frame(1, b"a"))
    reader.frame_max = 100

    assert reader.feed(frame(2, bytes(50))) == [(2, bytes(50))]


def test_the_first_frame_may_have_to_be_of_one_type() -> None:
    stranger, friend = Reader(first=13), Reader(first=13)

    assert stranger.feed(b"AMQP\0\0\x09\x01") == []
    assert "the first frame has type 0x414d5150" in str(stranger.fault)
    assert friend.feed(frame(13, b"") + frame(1, b"")) == [(13, b""), (1, b"")]
    assert friend.feed(frame(2, b"")) == [(2, b"")]
