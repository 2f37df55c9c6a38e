"""Contents go through the broker as they came: properties, headers, bodies, frame sizes."""

import struct

import pytest

from support.amqp_codec import (
    BODY,
    HEADER,
    METHOD,
    Typed,
    header_payload,
    long_string,
    method_payload,
    properties_bytes,
    short_string,
    table,
)
from support.amqp_types import RawChannel, RawConnect

FIELD_VALUES = {
    "t-true": b"t\x01",
    "t-false": b"t\x00",
    "b": b"b\x80",
    "B": b"B\xff",
    "s": b"s\x80\x01",
    "u": b"u\xff\xfe",
    "I": b"I\x80\x00\x00\x01",
    "i": b"i\xff\xff\xff\xfe",
    "l": b"l\x80" + bytes(6) + b"\x01",
    "L": b"L\x7f" + b"\xff" * 7,
    "f": b"f" + struct.pack(">f", 1.25),
    "d": b"d" + struct.pack(">d", -0.1),
    "D": b"D\x02\x00\x00\x30\x39",
    "S": b"S" + long_string("text"),
    "S-empty": b"S" + long_string(""),
    "S-utf8": b"S" + long_string("größe 日本"),
    "S-binary": b"S" + long_string(b"\xff\xfe\x00\x80"),
    "x": b"x" + long_string(b"\x00\x01\xff"),
    "A-empty": b"A" + long_string(b""),
    "A": b"A" + long_string(b"b\x01" + b"V" + b"S" + long_string("in") + b"u\x00\x07"),
    "F-empty": b"F" + table({}),
    "F": b"F" + table({"inner": Typed("s", -5), "more": Typed("F", {"deep": None})}),
    "T": b"T" + struct.pack(">Q", 1234567890),
    "V": b"V",
}

ALL_PROPERTIES = {
    "content_type": "application/json",
    "content_encoding": "gzip",
    "headers": {"h": 1},
    "delivery_mode": 2,
    "priority": 9,
    "correlation_id": "correlation",
    "reply_to": "reply",
    "expiration": "60000",
    "message_id": "message",
    "timestamp": 1234567890,
    "type": "kind",
    "user_id": "guest",
    "app_id": "application",
    "cluster_id": "cluster",
}


def _echo(channel: RawChannel, queue: str, properties: bytes) -> bytes:
    """Flags and values as they come back."""
    channel.publish("", queue, b"x", properties)
    got = channel.get(queue)
    assert got is not None
    return got.content.raw_properties


@pytest.mark.parametrize("code", FIELD_VALUES)
def test_header_value_comes_back_byte_for_byte(
    raw_channel: RawChannel, queue: str, code: str
) -> None:
    properties = properties_bytes(headers=short_string("key") + FIELD_VALUES[code])

    assert _echo(raw_channel, queue, properties) == properties


def test_all_field_values_together_come_back_byte_for_byte(
    raw_channel: RawChannel, queue: str
) -> None:
    body = b"".join(short_string(key) + value for key, value in FIELD_VALUES.items())
    properties = properties_bytes(headers=body)

    assert _echo(raw_channel, queue, properties) == properties


def test_all_fourteen_properties_come_back(raw_channel: RawChannel, queue: str) -> None:
    properties = properties_bytes(**ALL_PROPERTIES)

    assert _echo(raw_channel, queue, properties) == properties


@pytest.mark.parametrize("single", ALL_PROPERTIES)
def test_single_property_comes_back(raw_channel: RawChannel, queue: str, single: str) -> None:
    properties = properties_bytes(**{single: ALL_PROPERTIES[single]})

    assert _echo(raw_channel, queue, properties) == properties


def test_no_property_at_all_comes_back_as_none(raw_channel: RawChannel, queue: str) -> None:
    assert _echo(raw_channel, queue, b"\x00\x00") == b"\x00\x00"


@pytest.mark.parametrize(
    "properties",
    [
        {"content_type": ""},
        {"headers": {}},
        {"priority": 0},
        {"timestamp": 0},
        {"correlation_id": "c" * 255},
        {"timestamp": 2**64 - 1},
        {"priority": 255},
    ],
    ids=lambda properties: str(properties)[:30],
)
def test_extreme_property_comes_back(
    raw_channel: RawChannel, queue: str, properties: dict[str, object]
) -> None:
    raw = properties_bytes(**properties)

    assert _echo(raw_channel, queue, raw) == raw


def test_header_name_used_twice_comes_back(raw_channel: RawChannel, queue: str) -> None:
    body = 2 * (short_string("twice") + b"b\x01")
    properties = properties_bytes(headers=body)

    assert _echo(raw_channel, queue, properties) == properties


def test_delivery_to_a_consumer_is_the_same_as_get(raw_channel: RawChannel, queue: str) -> None:
    properties = properties_bytes(**ALL_PROPERTIES)
    raw_channel.publish("", queue, b"body", properties)
    raw_channel.call("basic.consume", queue=queue)

    delivery = raw_channel.read()
    assert delivery.content.raw_properties == properties
    assert delivery.body == b"body"


# -- bodies


def test_empty_body_has_no_body_frame(raw_channel: RawChannel, queue: str) -> None:
    raw_channel.publish("", queue, b"")

    got = raw_channel.get(queue)
    assert (got.body, got.content.frame_sizes) == (b"", [])


def test_zero_length_body_frames_are_harmless(raw_channel: RawChannel, queue: str) -> None:
    client = raw_channel.client
    raw_channel.send("basic.publish", routing_key=queue)
    client.send_frame(HEADER, 1, header_payload(4, {}))
    for piece in (b"", b"ab", b"", b"cd"):
        client.send_frame(BODY, 1, piece)

    assert raw_channel.get(queue).body == b"abcd"


def test_body_of_300000_bytes_comes_in_the_largest_frames(
    raw_channel: RawChannel, queue: str
) -> None:
    body = bytes(range(250)) * 1200
    raw_channel.publish("", queue, body)

    got = raw_channel.get(queue)
    assert got.body == body
    assert got.content.frame_sizes == [131072, 131072, 37872 + 8]


def test_body_in_many_small_frames_comes_as_one(raw_channel: RawChannel, queue: str) -> None:
    raw_channel.send("basic.publish", routing_key=queue)
    raw_channel.client.send_frame(HEADER, 1, header_payload(100, {}))
    for number in range(100):
        raw_channel.client.send_frame(BODY, 1, bytes([number]))

    got = raw_channel.get(queue)
    assert got.body == bytes(range(100))
    assert got.content.frame_sizes == [108]


@pytest.mark.parametrize("size", [131063, 131064, 131065, 262128, 262129])
def test_body_around_the_frame_size_comes_whole(
    raw_channel: RawChannel, queue: str, size: int
) -> None:
    body = b"z" * size
    raw_channel.publish("", queue, body)

    got = raw_channel.get(queue)
    assert got.body == body
    assert max(got.content.frame_sizes) <= 131072


@pytest.mark.parametrize("sizes", [[131065], [131072], [131072, 131072, 1], [131070, 3]])
def test_body_frames_that_forget_the_bytes_around_them_are_taken_and_cut_anew(
    raw_channel: RawChannel, queue: str, sizes: list[int]
) -> None:
    raw_channel.send("basic.publish", routing_key=queue)
    raw_channel.client.send_frame(HEADER, 1, header_payload(sum(sizes), {}))
    for size in sizes:
        raw_channel.client.send_frame(BODY, 1, b"z" * size)

    got = raw_channel.get_soon(queue)
    assert got.body == b"z" * sum(sizes)
    assert max(got.content.frame_sizes) <= 131072


def test_receiver_with_small_frames_gets_small_frames(
    raw: RawConnect, raw_channel: RawChannel, queue: str
) -> None:
    body = bytes(range(256)) * 40
    raw_channel.publish("", queue, body)
    small = raw(frame_max=4096).open_channel()

    got = small.get_soon(queue)
    assert got.body == body
    assert got.content.frame_sizes == [4096, 4096, 10240 - 2 * 4088 + 8]


def test_consumer_with_small_frames_gets_small_frames(
    raw: RawConnect, raw_channel: RawChannel, queue: str
) -> None:
    small = raw(frame_max=4096).open_channel()
    small.call("basic.consume", queue=queue, no_ack=True)
    body = b"q" * 10000
    raw_channel.publish("", queue, body)

    delivery = small.read()
    assert delivery.body == body
    assert max(delivery.content.frame_sizes) == 4096


def test_receiver_with_large_frames_gets_large_frames(
    raw: RawConnect, raw_channel: RawChannel, queue: str
) -> None:
    small = raw(frame_max=4096).open_channel()
    small.publish("", queue, b"q" * 10000)

    got = raw_channel.get_soon(queue)
    assert got.content.frame_sizes == [10008]


def test_binary_body_comes_back(raw_channel: RawChannel, queue: str) -> None:
    body = bytes(range(256)) + b"\xce" * 20 + b"AMQP\x00\x00\x09\x01"
    raw_channel.publish("", queue, body)

    assert raw_channel.get(queue).body == body


def test_many_publishes_in_one_write_stay_apart(raw_channel: RawChannel, queue: str) -> None:
    data = b"".join(
        raw_channel.publish_bytes("", queue, str(number).encode(), {"message_id": str(number)})
        for number in range(50)
    )
    raw_channel.client.send(data)

    for number in range(50):
        got = raw_channel.get(queue)
        assert got.body == str(number).encode()
        assert got.content.properties["message_id"] == str(number)


def test_publish_sent_byte_by_byte_is_understood(raw_channel: RawChannel, queue: str) -> None:
    for byte in raw_channel.publish_bytes("", queue, b"slowly", {"type": "t"}):
        raw_channel.client.send(bytes([byte]))

    assert raw_channel.get(queue).body == b"slowly"


def test_messages_with_different_properties_in_a_row_do_not_mix(
    raw_channel: RawChannel, queue: str
) -> None:
    sent = [
        {"delivery_mode": 1},
        {"delivery_mode": 2},
        {},
        {"headers": {"a": 1}},
        {"priority": 3, "headers": {}},
        {"delivery_mode": 2, "headers": {"b": "x" * 500}},
    ]
    raw = [properties_bytes(**properties) for properties in sent]
    raw_channel.client.send(
        b"".join(raw_channel.publish_bytes("", queue, b"x", one) for one in raw)
    )

    assert [raw_channel.get(queue).content.raw_properties for _ in raw] == raw


def test_method_frame_may_come_alone(raw_channel: RawChannel, queue: str) -> None:
    raw_channel.client.send_frame(METHOD, 1, method_payload("basic.publish", routing_key=queue))
    raw_channel.client.open_channel(2)
    raw_channel.client.send_frame(HEADER, 1, header_payload(0, {}))

    assert raw_channel.get(queue).body == b""
