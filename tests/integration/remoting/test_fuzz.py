"""Frames that were damaged on their way, at both ports: nothing in the broker breaks on them."""

from __future__ import annotations

import logging
import random
import socket
from contextlib import suppress

import pytest

from headrace.wire.remoting.codes import RequestCode
from headrace.wire.remoting.command import ONEWAY, Command, Serialization
from headrace.wire.remoting.frames import command_bytes
from headrace.wire.remoting.headers.admin import CreateTopic
from headrace.wire.remoting.headers.groups import (
    ConsumerGroup,
    GetConsumerList,
    Heartbeat,
    Subscription,
    UnregisterClient,
)
from headrace.wire.remoting.headers.offsets import QueryConsumerOffset, UpdateConsumerOffset
from headrace.wire.remoting.headers.pull import PullMessage
from headrace.wire.remoting.headers.route import GetRouteInfo
from headrace.wire.remoting.headers.send import SendBack, SendMessage
from headrace.wire.remoting.message import BatchElement, batch_bytes
from headrace.wire.remoting.message_queue import LockRequest, MessageQueue
from support.raw_remoting import Link, Site
from support.rocketmq.protocol_checks import BORN, new_topic, read, send

pytestmark = pytest.mark.timeout(120)

CONNECTIONS, FRAMES = 25, 20  # of each of the seeds
TOPIC, GROUP = "T-fuzzed", "G-fuzzed"
SEND = SendMessage("PG", TOPIC, 0, 4, BORN, properties="TAGS\x01a\x02KEYS\x01k\x02DELAY\x011\x02")


def requests() -> list[tuple[int, dict[str, str], bytes]]:
    """Sound ones, of every shape."""
    lock = LockRequest(GROUP, "client-1", (MessageQueue(TOPIC, "headrace", 0),)).encode()
    group = ConsumerGroup(GROUP, (Subscription(TOPIC, "a || b"),))
    beat = Heartbeat("client-1", ("PG",), (group,)).encode()
    batch = batch_bytes([BatchElement(0, b"body", b"TAGS\x01a\x02")] * 5)
    pull = PullMessage(GROUP, TOPIC, 0, 0, 32, 6, 0, 50, "a || b", 1, "TAG")
    headers = [
        GetRouteInfo(TOPIC),
        CreateTopic(TOPIC, 2, 2),
        pull,
        QueryConsumerOffset(GROUP, TOPIC, 0),
        UpdateConsumerOffset(GROUP, TOPIC, 0, 1),
        GetConsumerList(GROUP),
        UnregisterClient("client-1", "PG", GROUP),
        SendBack(0, GROUP, 1, "id", TOPIC),
    ]
    return [
        (RequestCode.SEND_MESSAGE, SEND.ext(), b"body"),
        (RequestCode.SEND_MESSAGE_V2, SEND.ext_v2(), b"body" * 50),
        (RequestCode.SEND_BATCH_MESSAGE, SEND.ext_v2(), batch),
        (RequestCode.HEART_BEAT, {}, beat),
        (RequestCode.LOCK_BATCH_MQ, {}, lock),
        (RequestCode.UNLOCK_BATCH_MQ, {}, lock),
        *((one.CODE, one.ext(), b"") for one in headers),
    ]


def damaged(noise: random.Random, frame: bytes) -> bytes:
    """What may become of a frame."""
    data = bytearray(frame)
    at = noise.randrange(len(data))
    shape = noise.randrange(7)
    if shape == 0:
        data[at] ^= 1 << noise.randrange(8)
    elif shape == 1:
        data[at : at + noise.randrange(1, 9)] = noise.randbytes(noise.randrange(9))
    elif shape == 2:
        del data[at:]
    elif shape == 3:
        data[:4] = noise.choice([0, 3, len(data), 1 << 24, 1 << 31, (1 << 32) - 1]).to_bytes(4)
    elif shape == 4:
        data[4:8] = noise.randrange(1 << 32).to_bytes(4)
    elif shape == 5:
        data = bytearray(noise.randbytes(noise.randrange(1, 200)))
    return bytes(data)  # 6: as it was


def attack(noise: random.Random, address: str) -> None:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), 10) as link, suppress(OSError):
        for number in range(FRAMES):
            code, ext, body = noise.choice(requests())
            command = Command(
                code,
                ext,
                body,
                opaque=number,
                flag=noise.choice([0, 0, ONEWAY, 1]),
                serialization=noise.choice(list(Serialization)),
            )
            frame = command_bytes(command)
            link.sendall(damaged(noise, frame) if noise.random() < 0.5 else frame)
        link.settimeout(0.05)
        while link.recv(1 << 16):
            pass


@pytest.mark.parametrize("seed", range(8))
def test_damaged_frames_disturb_no_other_connection(
    ours: Site, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    noise = random.Random(seed)
    addresses = [ours.broker_address, ours.name_address]
    with caplog.at_level(logging.ERROR):
        for _ in range(CONNECTIONS):
            attack(noise, noise.choice(addresses))

    assert [one.getMessage() for one in caplog.records if one.exc_info] == []
    topic = new_topic(ours)
    with Link(ours.broker_address) as link:
        send(link, topic, b"still here")
        assert [one.body for one in read(link, topic, 1)] == [b"still here"]
