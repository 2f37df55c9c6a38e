"""Contents: building, taking apart, moving to another channel or frame size."""

from __future__ import annotations

import pytest

from headrace.errors import MalformedError
from headrace.wire.amqp.content import (
    body_of,
    body_size,
    fits,
    make_content,
    properties_of,
    rechannel,
    rechannel_all,
    reframe,
    with_properties,
)
from headrace.wire.amqp.properties import HeaderTable, Properties

TEXT = Properties(content_type="text/plain", delivery_mode=2)


def frames(content: bytes) -> list[tuple[int, int, bytes]]:
    """Kind, channel and payload of each frame."""
    found = []
    while content:
        size = int.from_bytes(content[3:7], "big")
        assert content[7 + size] == 0xCE
        found.append((content[0], int.from_bytes(content[1:3], "big"), content[7 : 7 + size]))
        content = content[8 + size :]
    return found


def test_a_content_is_a_header_frame_and_a_body_frame() -> None:
    content = make_content(TEXT, b"hello", channel=258)

    assert frames(content) == [(2, 258, TEXT.encode(5)), (3, 258, b"hello")]


def test_an_empty_body_has_no_frame() -> None:
    content = make_content(TEXT, b"")

    assert frames(content) == [(2, 1, TEXT.encode(0))]
    assert (body_size(content), body_of(content)) == (0, b"")


def test_frame_max_counts_the_whole_frame() -> None:
    content = make_content(TEXT, bytes(300_000), frame_max=131_072)

    assert [len(payload) for _, _, payload in frames(content)[1:]] == [131_064, 131_064, 37_872]
    assert len(frames(make_content(TEXT, bytes(300_000), frame_max=0))) == 2


@pytest.mark.parametrize("frame_max", [0, 9, 12, 4096])
def test_a_content_gives_back_what_it_was_made_of(frame_max: int) -> None:
    content = make_content(TEXT, b"hello world", frame_max=frame_max)

    assert body_size(content) == 11
    assert body_of(content) == b"hello world"
    assert properties_of(content) == TEXT


def test_new_properties_leave_the_body_frames_alone() -> None:
    content = make_content(TEXT, b"hello world", channel=9, frame_max=12)
    other = Properties(headers=HeaderTable.of({"x-death": [{"count": 1}]}))

    changed = with_properties(content, other)

    assert frames(changed)[0] == (2, 9, other.encode(11))
    assert frames(changed)[1:] == frames(content)[1:]


def test_every_frame_gets_the_new_channel() -> None:
    contents = [
        make_content(TEXT, b""),
        make_content(TEXT, b"hello"),
        make_content(TEXT, b"hello world", frame_max=10),
        make_content(TEXT, b"") + b"\x03\x00\x01\x00\x00\x00\x00\xce",  # an empty body frame
    ]

    moved = rechannel_all(contents, 513)

    for before, after in zip(contents, moved, strict=True):
        assert frames(after) == [(kind, 513, payload) for kind, _, payload in frames(before)]
        assert rechannel(before, 513) == after
        assert rechannel(after, 1) == before


def test_fits_checks_the_largest_frame() -> None:
    content = make_content(Properties(), bytes(1000), frame_max=108)

    assert fits(content, 108)
    assert not fits(content, 107)
    assert fits(content, 0)
    assert fits(make_content(Properties(), b"x"), 4096)


def test_reframing_splits_what_is_too_large() -> None:
    content = make_content(TEXT, bytes(range(250)), frame_max=0)

    small = reframe(content, 7, 108)

    assert fits(small, 108)
    assert [len(payload) for _, _, payload in frames(small)[1:]] == [100, 100, 50]
    assert {channel for _, channel, _ in frames(small)} == {7}
    assert (body_of(small), properties_of(small)) == (body_of(content), TEXT)


@pytest.mark.parametrize("frame_max", [0, 4096])
def test_reframing_what_fits_only_changes_the_channel(frame_max: int) -> None:
    content = make_content(TEXT, b"hello world", frame_max=12)

    assert reframe(content, 7, frame_max) == rechannel(content, 7)


def test_a_header_frame_is_never_split() -> None:
    large = Properties(headers=HeaderTable.of({"h": "x" * 5000}))

    small = reframe(make_content(large, bytes(5000)), 7, 4096)

    assert [kind for kind, _, _ in frames(small)] == [2, 3, 3]
    assert properties_of(small) == large


def test_contents_without_a_whole_header_are_malformed() -> None:
    content = make_content(TEXT, b"")
    for length in range(19):
        for take in (body_size, body_of, properties_of, lambda cut: rechannel(cut, 2)):
            with pytest.raises(MalformedError):
                take(content[:length])
    for length in range(19, len(content)):
        for take in (body_of, properties_of, lambda cut: with_properties(cut, TEXT)):
            with pytest.raises(MalformedError):
                take(content[:length])


def test_contents_whose_body_is_cut_are_malformed() -> None:
    content = make_content(TEXT, b"hello world", frame_max=12)
    end_of_header = len(make_content(TEXT, b""))

    for length in range(end_of_header, len(content)):
        with pytest.raises(MalformedError):
            body_of(content[:length])
