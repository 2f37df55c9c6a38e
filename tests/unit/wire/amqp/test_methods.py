"""Methods and their frames, byte for byte."""

from __future__ import annotations

import dataclasses

import pytest

from headrace.errors import FrameError, InternalError, MalformedError
from headrace.wire.amqp.method_codec import METHODS, Method, decode_method, method_frame
from headrace.wire.amqp.methods import (
    AccessRequest,
    BasicDeliver,
    BasicNack,
    BasicQos,
    BasicRecoverAsync,
    ChannelClose,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionStart,
    ExchangeUnbindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueUnbind,
    TxCommitOk,
)

EXAMPLES: list[tuple[Method, bytes]] = [
    (QueueDeclareOk("q", 3, 1), b"\x00\x32\x00\x0b\x01q\x00\x00\x00\x03\x00\x00\x00\x01"),
    (
        QueueDeclare(queue="q", durable=True, auto_delete=True, arguments={"a": None}),
        b"\x00\x32\x00\x0a\x00\x00\x01q\x0a\x00\x00\x00\x03\x01aV",
    ),
    (
        QueueUnbind(0, "q", "e", "k"),
        b"\x00\x32\x00\x32\x00\x00\x01q\x01e\x01k\x00\x00\x00\x00",
    ),
    (
        BasicDeliver("c", 2**63, True, "e", "k"),
        b"\x00\x3c\x00\x3c\x01c\x80\x00\x00\x00\x00\x00\x00\x00\x01\x01e\x01k",
    ),
    (BasicNack(7, multiple=False, requeue=True), b"\x00\x3c\x00\x78" + bytes(7) + b"\x07\x02"),
    (BasicQos(0, 10, True), b"\x00\x3c\x00\x0a\x00\x00\x00\x00\x00\x0a\x01"),
    (BasicRecoverAsync(True), b"\x00\x3c\x00\x64\x01"),
    (AccessRequest("/", read=True), b"\x00\x1e\x00\x0a\x01/\x10"),
    (ChannelOpenOk(), b"\x00\x14\x00\x0b\x00\x00\x00\x00"),
    (
        ConnectionStart(0, 9, {}, b"PLAIN", b"en_US"),
        b"\x00\x0a\x00\x0a\x00\x09\x00\x00\x00\x00\x00\x00\x00\x05PLAIN\x00\x00\x00\x05en_US",
    ),
    (ChannelClose(404, "no", 50, 10), b"\x00\x14\x00\x28\x01\x94\x02no\x00\x32\x00\x0a"),
    (TxCommitOk(), b"\x00\x5a\x00\x15"),
]


@pytest.mark.parametrize(("method", "payload"), EXAMPLES)
def test_a_method_has_its_layout(method: Method, payload: bytes) -> None:
    frame = method_frame(258, method)

    assert frame == b"\x01\x01\x02" + len(payload).to_bytes(4, "big") + payload + b"\xce"
    assert decode_method(payload) == method


@pytest.mark.parametrize(("method", "payload"), EXAMPLES)
def test_a_method_cut_at_any_byte_is_malformed(method: Method, payload: bytes) -> None:
    for length in range(len(payload)):
        with pytest.raises(MalformedError):
            decode_method(payload[:length])


@pytest.mark.parametrize(("method", "payload"), EXAMPLES)
def test_bytes_behind_a_method_are_malformed(method: Method, payload: bytes) -> None:
    with pytest.raises(MalformedError):
        decode_method(payload + b"\x00")


def test_unknown_methods_are_internal_errors_as_in_rabbitmq() -> None:
    for payload in (b"\x00\x32\x00\x63", b"\x00\x63\x00\x0a", b"\xff\xff\xff\xff"):
        with pytest.raises(InternalError):
            decode_method(payload)


def test_every_method_has_defaults_and_knows_its_name_and_ids() -> None:
    for wire_id, cls in METHODS.items():
        method = cls()

        assert decode_method(method_frame(1, method)[7:-1]) == method
        assert cls.wire_id == wire_id
        assert cls.name.replace(".", "").replace("-", "") == cls.__name__.lower()
        assert not hasattr(method, "__dict__")


def test_ids_and_names_are_those_of_the_specification() -> None:
    assert len(METHODS) == 66
    assert (QueueDeclare.class_id, QueueDeclare.method_id) == (50, 10)
    assert QueueDeclare.wire_id == 50 << 16 | 10
    assert QueueDeclare.name == "queue.declare"
    assert BasicRecoverAsync.name == "basic.recover-async"
    assert ExchangeUnbindOk.method_id == 51


def test_a_close_names_the_method_that_caused_it() -> None:
    close = ConnectionClose(reply_code=530, class_id=10, method_id=40)

    assert (close.class_id, close.method_id, close.wire_id) == (10, 40, 10 << 16 | 50)


def test_methods_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        QueueDeclareOk().queue = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("x" * 255, "x" * 255),
        ("x" * 256, "x" * 255),
        ("é" * 128, "é" * 127),
        ("x" * 254 + "é", "x" * 254),
        ("x" * 252 + "\U0001f407", "x" * 252),
        ("x" * 251 + "\U0001f407", "x" * 251 + "\U0001f407"),
        ("\udc80" * 300, "\udc80" * 252),
    ],
)
def test_a_reply_text_is_cut_between_two_characters(text: str, kept: str) -> None:
    payload = method_frame(1, ChannelClose(404, text))[7:-1]

    decoded = decode_method(payload)

    assert isinstance(decoded, ChannelClose)
    assert decoded.reply_text == kept


@pytest.mark.parametrize(
    "method",
    [
        QueueDeclareOk("q" * 256),
        QueueDeclareOk("q", 2**32),
        QueueDeclareOk("q", -1),
        QueueDeclare(arguments={"a": 2**64}),
    ],
)
def test_arguments_without_room_are_malformed(method: Method) -> None:
    with pytest.raises(MalformedError):
        method_frame(1, method)


def test_keys_of_messages_that_are_no_utf8_survive() -> None:
    payload = b"\x00\x3c\x00\x28\x00\x00\x00\x02\xff\xfe\x00"

    assert method_frame(1, decode_method(payload))[7:-1] == payload


def test_names_that_are_no_utf8_are_a_frame_error() -> None:
    with pytest.raises(FrameError, match="Malformed UTF-8"):
        decode_method(b"\x00\x32\x00\x0b\x02\xff\xfe" + bytes(8))
