"""Compressed bodies, large headers and large bodies: what they may cost the broker."""

from __future__ import annotations

import socket
import threading
import zlib
from collections.abc import Iterator
from uuid import uuid4

import pytest

from headrace.server.remoting import handlers, send
from headrace.testing import run_broker
from headrace.wire.remoting.codes import RequestCode, ResponseCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.frames import HEAD, HEADER_MAX, Reader, command_bytes
from headrace.wire.remoting.headers.admin import CreateTopic
from headrace.wire.remoting.headers.pull import PullMessage
from headrace.wire.remoting.headers.send import SendMessage
from headrace.wire.remoting.message import BatchElement, batch_bytes
from support.raw_remoting import Link
from support.remoting_bodies import take_messages
from support.remoting_broker import Ours
from support.rocketmq.protocol_checks import accepted

pytestmark = pytest.mark.timeout(60)

COMPRESSED = 1


@pytest.fixture(scope="module")
def site() -> Iterator[Ours]:
    with run_broker(sync=False) as broker:
        yield Ours(broker)


@pytest.fixture
def link(site: Ours) -> Iterator[Link]:
    with Link(site.broker_address) as link:
        yield link


@pytest.fixture
def topic(link: Link) -> str:
    name = f"T{uuid4().hex}"
    accepted(link.ask(CreateTopic(name, 1, 1)))
    return name


@pytest.fixture
def inflated(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The thread and the limit of every inflation."""
    seen: list[tuple[str, int]] = []
    real = send.inflate

    def recording(body: bytes, sys_flag: int, limit: int) -> bytes:
        seen.append((threading.current_thread().name, limit))
        return real(body, sys_flag, limit)

    monkeypatch.setattr(send, "inflate", recording)
    return seen


def compressed(topic: str, size: int, opaque: int = 1) -> Command:
    header = SendMessage("PG", topic, 0, COMPRESSED, 1)
    body = zlib.compress(b"%d" % opaque + bytes(size))
    return Command(RequestCode.SEND_MESSAGE, header.ext(), body, opaque=opaque)


def exchanged(address: str, commands: list[Command]) -> list[Command]:
    """Send all at once; the answers in the order in which they come."""
    host, _, port = address.rpartition(":")
    reader, answers = Reader(), list[Command]()
    with socket.create_connection((host, int(port)), 20) as peer:
        peer.sendall(b"".join(map(command_bytes, commands)))
        while len(answers) < len(commands) and (data := peer.recv(1 << 16)):
            answers += reader.feed(data)
    return answers


def test_large_bodies_are_inflated_in_a_thread(
    site: Ours, topic: str, inflated: list[tuple[str, int]]
) -> None:
    exchanged(site.broker_address, [compressed(topic, 1000), compressed(topic, 4 << 20)])

    (small, _), (_, trial), (large, limit) = inflated
    assert small != large
    assert (trial, limit) == (send.INFLATED_ON_LOOP, 4 << 20)


def test_sends_of_a_connection_keep_their_order(site: Ours, link: Link, topic: str) -> None:
    sizes = [100, 3 << 20, 100, 1 << 20, 0, 300_000]
    commands = [compressed(topic, size, opaque) for opaque, size in enumerate(sizes)]
    plain = SendMessage("PG", topic, 0, 0, 1)
    commands.append(Command(RequestCode.SEND_MESSAGE, plain.ext(), b"last", opaque=99))

    assert {one.code for one in exchanged(site.broker_address, commands)} == {0}
    bodies: list[bytes] = []
    while len(bodies) < len(commands):
        pulled = accepted(link.ask(PullMessage("CG", topic, 0, len(bodies), 32, 0)))
        bodies += [one.body for one in take_messages(pulled.body)]
    assert [body[:4] for body in bodies] == [b"%d" % n + bytes(3) for n in range(4)] + [
        b"4",
        b"5" + bytes(3),
        b"last",
    ]


def test_bombs_are_refused_and_what_follows_is_served(site: Ours, topic: str) -> None:
    answers = exchanged(
        site.broker_address, [compressed(topic, 64 << 20, 1), compressed(topic, 10, 2)]
    )

    assert [(one.opaque, one.code) for one in answers] == [
        (1, ResponseCode.MESSAGE_ILLEGAL),
        (2, 0),
    ]
    assert "more than 4194304 bytes" in str(answers[0].remark)


def test_messages_of_a_batch_cannot_be_compressed(
    link: Link, topic: str, inflated: list[tuple[str, int]]
) -> None:
    header = SendMessage("PG", topic, 0, COMPRESSED, 1, batch=True)
    bombs = batch_bytes([BatchElement(0, zlib.compress(bytes(16 << 20)), b"")] * 50)
    answer = link.ask(header, bombs)

    assert answer.remark == "messages of a batch cannot be compressed"
    assert not inflated


@pytest.mark.parametrize("code", [RequestCode.HEART_BEAT, RequestCode.LOCK_BATCH_MQ])
def test_bodies_of_other_requests_are_small(link: Link, code: int) -> None:
    answer = link.call(code, {}, b"{0:" + b" " * handlers.BODY_MAX + b"1}")

    assert answer.code != 0
    assert f"{handlers.BODY_MAX} are allowed" in str(answer.remark)


def test_headers_are_small(site: Ours) -> None:
    host, _, port = site.broker_address.rpartition(":")
    with socket.create_connection((host, int(port)), 20) as peer:
        peer.sendall(HEAD.pack(HEADER_MAX + 100, HEADER_MAX + 1))
        assert peer.recv(10) == b""
