"""Violations of the protocol, and the code by which each is answered."""

import struct
from collections.abc import Callable

import pytest

from support.amqp_codec import (
    BODY,
    HEADER,
    HEARTBEAT,
    METHOD,
    PROTOCOL_HEADER,
    frame,
    header_payload,
    method_payload,
    short_string,
)
from support.amqp_types import RawChannel, RawClient, RawConnect
from support.raw_amqp import SocketEnded

# -- before the handshake


@pytest.mark.parametrize(
    "header",
    [
        b"AMQP\x00\x00\x09\x00",
        b"AMQP\x01\x01\x00\x0a",
        b"AMQP\x00\x01\x00\x00",
        b"AMQP\x03\x01\x00\x00",
        b"GET / HTTP/1.1\r\n\r\n",
        b"XXXXXXXX",
    ],
    ids=repr,
)
def test_other_protocol_header_is_answered_with_ours(raw_socket: RawConnect, header: bytes) -> None:
    client = raw_socket()
    client.send(header)

    assert client.read_bytes(8) == PROTOCOL_HEADER
    with pytest.raises(SocketEnded):
        client.read_bytes(1)


# -- frames


def _publish(queue: str = "nowhere") -> bytes:
    return frame(METHOD, 1, method_payload("basic.publish", routing_key=queue))


def _header(size: int = 1) -> bytes:
    return frame(HEADER, 1, header_payload(size, {}))


def _purge() -> bytes:
    return frame(METHOD, 1, method_payload("queue.purge", queue="nowhere"))


CONNECTION_VIOLATIONS = {
    "bad end octet": (frame(METHOD, 1, method_payload("tx.select"))[:-1] + b"\x00", 501),
    "unknown frame type": (frame(7, 1, b"what"), 501),
    "frame too big, from its first bytes": (struct.pack(">BHI", METHOD, 1, 131073), 501),
    "body without method": (frame(BODY, 1, b"x"), 505),
    "header without method": (_header(), 505),
    "method instead of header": (_publish() + _purge(), 505),
    "body instead of header": (_publish() + frame(BODY, 1, b"x"), 505),
    "method instead of body": (_publish() + _header() + _purge(), 505),
    "second header": (_publish() + _header() + _header(), 505),
    "channel not open": (frame(METHOD, 9, method_payload("tx.select")), 504),
    "channel opened twice": (frame(METHOD, 1, method_payload("channel.open")), 504),
    "method on channel 0": (frame(METHOD, 0, method_payload("tx.select")), 504),
    "connection opened twice": (frame(METHOD, 0, method_payload("connection.open")), 504),
}


@pytest.mark.parametrize("violation", CONNECTION_VIOLATIONS)
def test_violation_closes_the_connection_by_its_code(
    raw_channel: RawChannel, violation: str
) -> None:
    data, code = CONNECTION_VIOLATIONS[violation]
    raw_channel.client.send(data)

    raw_channel.client.expect_close(code)


# RabbitMQ itself wavers between a code and a silent end here, so either will do.
ROUGH_VIOLATIONS = {
    "unknown class": frame(METHOD, 1, struct.pack(">HH", 999, 10)),
    "unknown method": frame(METHOD, 1, struct.pack(">HH", 50, 99)),
    "method without arguments": frame(METHOD, 1, struct.pack(">HH", 50, 10)),
    "method of three bytes": frame(METHOD, 1, b"\x00\x32\x00"),
    "empty method": frame(METHOD, 1, b""),
    "short string beyond the frame": frame(
        METHOD, 1, struct.pack(">HHHB", 50, 30, 0, 200) + b"short"
    ),
    "table beyond the frame": frame(
        METHOD, 1, method_payload("queue.declare")[:-4] + struct.pack(">I", 5000)
    ),
    "header of another class": _publish() + frame(HEADER, 1, header_payload(0, {}, class_id=50)),
    "header cut short": _publish() + frame(HEADER, 1, b"\x00\x3c\x00\x00"),
    "property beyond the header": _publish()
    + frame(HEADER, 1, struct.pack(">HHQH", 60, 0, 0, 1 << 15) + b"\xffabc"),
    "field value of unknown type": frame(
        METHOD,
        1,
        method_payload("queue.declare", queue="", arguments=short_string("k") + b"Zwhat"),
    ),
    "server's method": frame(METHOD, 1, method_payload("queue.declare-ok")),
}


def test_heartbeat_on_a_channel_is_unexpected(raw_channel: RawChannel) -> None:
    raw_channel.client.send(frame(HEARTBEAT, 1, b""))

    raw_channel.client.expect_close(505)


@pytest.mark.parametrize("violation", ROUGH_VIOLATIONS)
def test_rough_violation_ends_the_connection(raw_channel: RawChannel, violation: str) -> None:
    raw_channel.client.send(ROUGH_VIOLATIONS[violation])

    _assert_ended(raw_channel.client)


def test_spec_s_signed_short_code_is_not_accepted(raw_channel: RawChannel, queue: str) -> None:
    headers = short_string("key") + b"U\x00\x01"
    raw_channel.publish("", queue, b"x", {"headers": headers})
    raw_channel.send("basic.get", queue=queue)

    _assert_ended(raw_channel.client)


# RabbitMQ 3.10 waits for ever after it.
@pytest.mark.usefixtures("headrace_only")
def test_more_body_than_announced_ends_the_connection(raw_channel: RawChannel) -> None:
    raw_channel.client.send(_publish() + _header(1) + frame(BODY, 1, b"too much"))

    _assert_ended(raw_channel.client)


def test_heartbeat_is_no_violation(raw_channel: RawChannel) -> None:
    raw_channel.client.send_frame(HEARTBEAT, 0, b"")

    raw_channel.round_trip()


def test_heartbeat_between_the_frames_of_a_content_is_no_violation(
    raw_channel: RawChannel, queue: str
) -> None:
    beat = frame(HEARTBEAT, 0, b"")
    raw_channel.client.send(_publish(queue) + beat + _header() + beat + frame(BODY, 1, b"x"))

    assert raw_channel.get(queue).body == b"x"


# -- out of order in the handshake


def _login_twice(client: RawClient) -> None:
    client.start()
    client.login()
    client.login()


def _open_before_tune(client: RawClient) -> None:
    client.start()
    client.send_method(0, "connection.open", vhost="/")


def _channel_before_login(client: RawClient) -> None:
    client.start()
    client.send_method(1, "channel.open")


def _channel_before_open(client: RawClient) -> None:
    client.start()
    client.login()
    client.read_method(0)
    client.send_method(0, "connection.tune-ok", channel_max=2047, frame_max=131072, heartbeat=0)
    client.send_method(1, "channel.open")


@pytest.mark.parametrize(
    "step",
    [_login_twice, _open_before_tune, _channel_before_login, _channel_before_open],
    ids=lambda step: step.__name__,
)
def test_step_out_of_order_ends_the_connection(
    raw_socket: RawConnect, step: Callable[[RawClient], None]
) -> None:
    client = raw_socket()
    step(client)

    _assert_ended(client)


def _assert_ended(client: RawClient) -> None:
    """The connection must end, by a code of the protocol or silently."""
    try:
        client.expect_close(501, 502, 503, 504, 505, 541, 406, limit=8)
    except SocketEnded:
        pass
