"""The native codec: any split gives the same frames, any bytes no surprise, messages survive."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Any

import msgpack
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import BrokerError, CommandInvalid
from headrace.wire.amqp.content import body_of, make_frames
from headrace.wire.native import deliveries
from headrace.wire.native.frames import Frame, Reader, frame
from headrace.wire.native.payloads import Op, Request, pack, unpack
from headrace.wire.native.properties import PropertyEncoder, encode_properties

FRAME_MAX = 1000

texts = st.text(st.characters(codec="utf-8"), max_size=60)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | texts
    | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
property_maps = st.fixed_dictionaries(
    {},
    optional={
        "content_type": texts,
        "content_encoding": texts,
        "headers": st.dictionaries(texts, values, max_size=4),
        "delivery_mode": st.integers(1, 2),
        "priority": st.integers(0, 255),
        "correlation_id": texts,
        "reply_to": texts,
        "expiration": texts,
        "message_id": texts,
        "timestamp": st.integers(0, 2**53).map(lambda seconds: seconds * 1000),
        "type": texts,
        "user_id": texts,
        "app_id": texts,
    },
)
frames = st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), st.binary(max_size=60)), max_size=8)


@given(frames, st.lists(st.integers(0, 600)))
def test_every_split_of_the_stream_gives_the_same_frames(
    sent: list[Frame], cuts: list[int]
) -> None:
    data = b"".join([frame(*one) for one in sent])
    reader = Reader(FRAME_MAX)
    edges = sorted({0, len(data), *[cut for cut in cuts if cut < len(data)]})
    received = [one for start, end in pairwise(edges) for one in reader.feed(data[start:end])]

    assert received == sent
    assert reader.fault is None


@given(st.binary(max_size=300))
def test_any_bytes_give_frames_or_one_fault(data: bytes) -> None:
    reader = Reader(FRAME_MAX)
    taken = sum(8 + len(payload) for _, payload in reader.feed(data))

    if reader.fault is not None:
        length = struct.unpack_from(">i", data, taken + 4)[0]
        assert not 0 <= length <= FRAME_MAX
        assert reader.feed(frame(1, b"")) == []


@given(st.binary(max_size=200) | values.map(lambda value: bytes(msgpack.packb(value))))
def test_any_payload_gives_a_request_or_a_protocol_error(payload: bytes) -> None:
    try:
        Request(1, unpack(payload))
    except CommandInvalid:
        pass


@given(st.dictionaries(texts, values, max_size=5))
def test_maps_survive(fields: dict[str, Any]) -> None:
    assert unpack(pack(fields)) == fields


@given(property_maps, st.binary(max_size=300), st.integers(9, 400), st.integers(1, 2**63))
def test_a_message_survives_its_storage(
    properties: dict[str, Any], body: bytes, frame_max: int, tag: int
) -> None:
    content = make_frames(encode_properties(properties).header(len(body)), body, 1, frame_max)
    assert body_of(content) == body

    packed, name, cut = deliveries.PackedProperties().split(content)
    shared = deliveries.common("x", "k", "q", redelivered=False)
    data = deliveries.push_frame(1, "c", [deliveries.entry(shared, packed, name or "id", cut, tag)])
    pushed = msgpack.unpackb(data[8:])

    expected = {"delivery_mode": 1, "message_id": name or "id", **properties, "routing_key": "k"}
    if not expected["message_id"]:
        expected["message_id"] = "id"
    assert pushed["properties"] == expected
    assert (pushed["body"], pushed["tag"]) == (body, tag)


@given(st.dictionaries(texts | st.sampled_from(["type", "headers", "priority"]), values))
def test_any_map_of_properties_is_taken_or_refused(properties: dict[str, Any]) -> None:
    encoder = PropertyEncoder()
    for _ in range(2):
        try:
            encoder.encode(properties)
        except BrokerError:
            pass


def test_operations_have_numbers_of_their_own() -> None:
    assert len({int(op) for op in Op}) == len(Op)
