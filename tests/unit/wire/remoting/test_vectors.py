"""Bytes which other implementations understood, as they are written in the reference."""

from __future__ import annotations

import pytest

from headrace.wire.remoting.codes import Language, RequestCode
from headrace.wire.remoting.command import Command, Serialization
from headrace.wire.remoting.frames import Reader, command_bytes
from headrace.wire.remoting.message import BatchElement, batch_bytes, take_batch
from headrace.wire.remoting.message_ids import HostAddress, take_offset_id
from support.remoting_bodies import RemotingMessage, message_bytes, take_messages

ROUTE_JSON = bytes.fromhex("000000810000007d") + (
    b'{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"PYTHON","opaque":1,'
    b'"serializeTypeCurrentRPC":"JSON","version":399}'
)
ROUTE_BINARY = bytes.fromhex(
    "0000002501000021006903018f0000000100000000000000000000000c0005746f7069630000000154"
)
STORED = bytes.fromhex(
    "00000096daa320a73610a68600000003000000000000000000000007"
    "0000000000000400000000000000018bcfe568007f0000010000c350"
    "0000018bcfe568017f00000100002a9f000000000000000000000000"
    "0000000568656c6c6f025431003454414753015461674102554e4951"
    "5f4b4559013746303030303031303030313030303030303030303030"
    "30303030303030413002"
)
BATCHED = bytes.fromhex("0000001f000000000000000000000000000000026869000754414753014102")


def route_request(serialization: Serialization) -> Command:
    return Command(
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        {"topic": "T"},
        opaque=1,
        language=Language.PYTHON,
        version=399,
        serialization=serialization,
    )


@pytest.mark.parametrize(
    ("serialization", "frame"),
    [(Serialization.JSON, ROUTE_JSON), (Serialization.BINARY, ROUTE_BINARY)],
)
def test_a_request_is_the_frame_of_the_reference(
    serialization: Serialization, frame: bytes
) -> None:
    request = route_request(serialization)

    assert command_bytes(request) == frame
    assert Reader().feed(frame) == [request]


def test_a_stored_message_is_that_of_the_reference() -> None:
    message = RemotingMessage(
        "T1",
        b"hello",
        {"TAGS": "TagA", "UNIQ_KEY": "7F0000010001000000000000000000A0"},
        queue_id=3,
        queue_offset=7,
        physical_offset=1024,
        born_timestamp=1700000000000,
        born_host=HostAddress("127.0.0.1", 50000),
        store_timestamp=1700000000001,
        store_host=HostAddress("127.0.0.1", 10911),
        body_crc=0x3610A686,
        store_size=150,
    )

    assert message_bytes(message) == STORED
    assert list(take_messages(STORED)) == [message]
    assert message.offset_id == "7F00000100002A9F0000000000000400"
    assert take_offset_id(message.offset_id) == (HostAddress("127.0.0.1", 10911), 1024)
    assert message.msg_id == "7F0000010001000000000000000000A0"
    assert message.tags == "TagA"


def test_a_batch_is_that_of_the_reference() -> None:
    element = BatchElement(0, b"hi", b"TAGS\x01A\x02")

    assert batch_bytes([element]) == BATCHED
    assert list(take_batch(BATCHED)) == [element]
