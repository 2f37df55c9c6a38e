"""The frame reader: any split of the bytes gives the same events; any bytes give no surprise."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import BrokerError, FatalError
from headrace.wire.amqp import methods as m
from headrace.wire.amqp.content import body_of, body_size, make_content
from headrace.wire.amqp.error_codes import reply_of
from headrace.wire.amqp.method_codec import method_frame
from headrace.wire.amqp.properties import HeaderTable, Properties
from headrace.wire.amqp.reader import (
    ACK,
    ACK_UPTO,
    FAULT,
    METHOD,
    PUBLISH,
    TOO_LARGE,
    Event,
    Reader,
)

FRAME_MAX = 4096
MAX_MESSAGE = 20_000


def publish(channel: int, key: str, body: bytes, properties: Properties | None = None) -> bytes:
    method = method_frame(channel, m.BasicPublish(exchange="x", routing_key=key))
    return method + make_content(properties or Properties(), body, channel, FRAME_MAX)


def ack(channel: int, tag: int, multiple: bool = False) -> bytes:
    return method_frame(channel, m.BasicAck(delivery_tag=tag, multiple=multiple))


def flat(events: list[Event]) -> list[object]:
    """Events message by message and tag by tag, so that runs of any length compare equal."""
    result: list[object] = []
    for event in events:
        if event[0] == PUBLISH:
            _, channel, key, flags, mode, contents, size = event
            assert size == sum(map(len, contents))
            result += [("publish", channel, key, flags, mode, body_of(one)) for one in contents]
        elif event[0] == ACK:
            result += [("ack", event[1], tag) for tag in range(event[2], event[3] + 1)]
        else:
            result.append(event)
    return result


def read(wire: bytes, cuts: list[int]) -> list[object]:
    reader = Reader(FRAME_MAX, MAX_MESSAGE, FRAME_MAX - 8)
    result: list[object] = []
    edges = [0, *sorted(cut % (len(wire) + 1) for cut in cuts), len(wire)]
    for start, stop in pairwise(edges):
        result += flat(reader.feed(wire[start:stop]))
    return result


channels = st.integers(1, 3)
properties = st.builds(
    Properties,
    content_type=st.none() | st.text(max_size=9),
    delivery_mode=st.sampled_from([None, 1, 2]),
    message_id=st.none() | st.text("abc", max_size=3),
    headers=st.none()
    | st.builds(HeaderTable.of, st.dictionaries(st.sampled_from("abc"), st.integers(0, 99))),
)
units = st.one_of(
    st.builds(publish, channels, st.sampled_from(["a", "bb"]), st.binary(max_size=40), properties),
    st.builds(publish, channels, st.just("big"), st.integers(4000, 13_000).map(lambda n: b"x" * n)),
    st.builds(ack, channels, st.integers(1, 5), st.booleans()),
    st.just(method_frame(1, m.QueuePurge(queue="q"))),
    st.just(b"\x08\x00\x00\x00\x00\x00\x00\xce"),
)


@given(st.lists(units, max_size=12), st.lists(st.integers(0, 1 << 20), max_size=12))
def test_events_do_not_depend_on_how_the_bytes_arrive(parts: list[bytes], cuts: list[int]) -> None:
    wire = b"".join(parts)

    assert read(wire, cuts) == read(wire, [])


@given(st.lists(units, max_size=4))
def test_events_are_the_same_byte_by_byte(parts: list[bytes]) -> None:
    wire = b"".join(parts)[:3000]

    assert read(wire, list(range(len(wire)))) == read(wire, [])


@given(st.lists(units, max_size=6), st.data())
def test_damaged_streams_give_events_or_one_fault(parts: list[bytes], data: st.DataObject) -> None:
    wire = bytearray(b"".join(parts))
    for _ in range(data.draw(st.integers(0, 4)) if wire else 0):
        wire[data.draw(st.integers(0, len(wire) - 1))] = data.draw(st.integers(0, 255))
    reader = Reader(FRAME_MAX, MAX_MESSAGE, FRAME_MAX - 8)

    events = reader.feed(bytes(wire))

    faults = [event for event in events if event[0] == FAULT]
    assert len(faults) <= 1
    if faults:
        assert events[-1] is faults[0]
        assert isinstance(faults[0][1], FatalError)
        assert reader.feed(b"anything") == []


@given(st.binary(max_size=200))
def test_garbage_is_a_wait_or_a_fault(garbage: bytes) -> None:
    for event in Reader(FRAME_MAX, MAX_MESSAGE).feed(garbage):
        assert event[0] in (PUBLISH, ACK, ACK_UPTO, METHOD, FAULT, TOO_LARGE)


def test_frames_of_channels_may_interleave_inside_a_message() -> None:
    first, second = publish(1, "a", b"x" * 9000), publish(2, "b", b"y" * 9000)
    cut = first.index(b"\x03\x00\x01")
    wire = first[:cut] + second + first[cut:]

    events = read(wire, [])

    assert [event[1:3:1][0] for event in events] == [2, 1]  # type: ignore[index]


def test_other_channel_may_speak_before_a_small_body_follows() -> None:
    whole = publish(1, "a", b"body")
    cut = whole.index(b"\x03\x00\x01")
    reader = Reader(FRAME_MAX, MAX_MESSAGE)

    assert reader.feed(whole[:cut]) == []
    assert [event[0] for event in reader.feed(method_frame(2, m.TxSelect()))] == [METHOD]
    assert [event[0] for event in reader.feed(whole[cut:])] == [PUBLISH]


def test_equal_publishes_are_one_run_and_a_change_begins_another() -> None:
    durable = Properties(delivery_mode=2)
    wire = publish(1, "a", b"1") * 3 + publish(1, "a", b"2", durable) * 2 + publish(1, "b", b"3")

    runs = Reader(FRAME_MAX, MAX_MESSAGE).feed(wire)

    assert [(len(run[5]), run[4]) for run in runs] == [(3, 0), (2, 2), (1, 0)]


def test_message_of_another_size_does_not_break_the_run() -> None:
    wire = publish(1, "a", b"1") + publish(1, "a", b"22") + publish(1, "a", b"")

    (run,) = Reader(FRAME_MAX, MAX_MESSAGE).feed(wire)

    assert [body_size(content) for content in run[5]] == [1, 2, 0]


def test_small_frames_are_joined_to_large_ones() -> None:
    body = bytes(range(256)) * 4
    head = method_frame(1, m.BasicPublish(routing_key="a"))
    wire = head + make_content(Properties(), body, 1, frame_max=9)

    (run,) = Reader(FRAME_MAX, MAX_MESSAGE, FRAME_MAX - 8).feed(wire)

    assert run[5] == [make_content(Properties(), body, 1, FRAME_MAX)]


def test_a_message_above_the_limit_is_reported_at_its_header_and_its_body_is_skipped() -> None:
    reader = Reader(FRAME_MAX, 100)
    whole = publish(1, "a", b"x" * 5000)
    cut = whole.index(b"\x03\x00\x01")

    (event,) = reader.feed(whole[:cut])

    assert event[0] == TOO_LARGE
    assert isinstance(event[2], BrokerError)
    assert reader.feed(whole[cut:]) == []
    assert [one[0] for one in reader.feed(publish(1, "a", b"ok"))] == [PUBLISH]


def test_header_of_an_exabyte_allocates_nothing() -> None:
    head = method_frame(1, m.BasicPublish(routing_key="a"))
    header = struct.pack(">BHIHHQH", 2, 1, 14, 60, 0, 1 << 60, 0) + b"\xce"

    (event,) = Reader(FRAME_MAX, MAX_MESSAGE).feed(head + header)

    assert event[0] == TOO_LARGE


def test_unfinished_messages_of_all_channels_together_are_bounded() -> None:
    reader = Reader(FRAME_MAX, MAX_MESSAGE)
    events: list[Event] = []
    for channel in range(1, 200):
        whole = publish(channel, "a", b"x" * 19_000)
        last_frame = whole.rindex(struct.pack(">BH", 3, channel))
        events += reader.feed(whole[:last_frame])
        if events:
            break

    assert events[0][0] == FAULT
    assert reply_of(events[0][1])[0] == 506
    assert channel < 20


@pytest.mark.parametrize(
    ("kind", "size"), [(1, 4089), (2, 4089), (3, 4097), (1, 2**32 - 1), (3, 2**32 - 1)]
)
@pytest.mark.parametrize("more", [b"", bytes(20)])
def test_frame_above_the_limit_is_refused_from_its_head_alone(
    kind: int, size: int, more: bytes
) -> None:
    (event,) = Reader(FRAME_MAX, MAX_MESSAGE).feed(struct.pack(">BHI", kind, 1, size) + more)

    assert reply_of(event[1])[0] == 501


def test_half_a_message_is_forgotten_with_its_channel() -> None:
    reader = Reader(FRAME_MAX, MAX_MESSAGE)
    whole = publish(1, "a", b"x" * 9000)
    reader.feed(whole[:5000])
    reader.feed(whole[5000:8500])
    reader.forget(1)

    events = reader.feed(whole[8500:])

    assert events[-1][0] == FAULT


def test_keys_in_turn_are_read_like_any_others() -> None:
    parts = [publish(1, key, b"x" * size) for size in (3, 3, 4) for key in ("a", "b", "c")]
    wire = b"".join(parts * 3)

    assert read(wire, []) == read(wire, list(range(0, len(wire), 50)))
    assert len(read(wire, [])) == 27


@given(st.integers(0, 8), st.lists(st.integers(0, 10_000)))
def test_a_body_frame_may_be_as_long_as_frame_max_without_the_bytes_around_it(
    over: int, cuts: list[int]
) -> None:
    body = bytes(FRAME_MAX - 8 + over)
    wire = method_frame(1, m.BasicPublish(exchange="x", routing_key="k"))
    wire += make_content(Properties(), body, 1, frame_max=0)

    [(kind, *_, got)] = read(wire, cuts)

    assert (kind, got) == ("publish", body)
