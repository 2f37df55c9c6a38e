"""Attacks before and around the login: garbage, lies about sizes, floods of connections."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Generator
from contextlib import suppress

from headrace.testing.amqp_connection import ConnectionLost
from headrace.wire.amqp import methods as m
from headrace.wire.amqp.method_codec import Method, method_frame
from support.attacks import attack
from support.attacks.target import STRANGER, Target, UserLink

Steps = Generator[None, None, None]


@attack("none (control)")
def nothing(target: Target) -> Steps:
    yield
    time.sleep(2)


@attack("garbage, a TLS hello and HTTP on every port, 500 times")
def garbage(target: Target) -> Steps:
    hello = bytes.fromhex("16030100c8010000c40303") + bytes(200)
    yield
    for turn in range(100):
        for port in ("amqp", "native", "http", "namesrv", "remoting"):
            with target.raw(port) as opened, suppress(OSError):
                opened.sendall((bytes(range(256)) * 16, hello, b"GET / HTTP/1.1\r\n\r\n")[turn % 3])


@attack("1,000 sockets that stay silent before the login")
def slow_logins(target: Target) -> Steps:
    yield
    for _ in range(1000):
        with suppress(OSError):
            target.raw().sendall(b"AMQP")


@attack("frames that announce 4 GiB, before and after the login")
def lying_frames(target: Target) -> Steps:
    lie = struct.pack(">BHI", 1, 0, 0xFFFFFFFF) + bytes(100_000)
    yield
    for _ in range(50):
        with target.raw() as opened, suppress(OSError):
            opened.sendall(b"AMQP\x00\x00\x09\x01" + lie)
            opened.recv(4096)
        link = target.amqp()
        with suppress(ConnectionLost):
            link.send_bytes(lie)
            link.poll(5)


@attack("content headers that announce 1 EiB")
def lying_headers(target: Target) -> Steps:
    publish = method_frame(1, m.BasicPublish(routing_key="q"))
    header = struct.pack(">HHQH", 60, 0, 1 << 60, 0)
    frame = struct.pack(">BHI", 2, 1, len(header)) + header + b"\xce"
    yield
    for _ in range(50):
        link = target.amqp()
        with suppress(ConnectionLost):
            link.send_bytes((publish + frame) * 100)
            link.poll(5)


@attack("unfinished bodies: 40 connections with 4 halves each, watermark 150 MiB",
        env={"HEADRACE_MEMORY_HIGH_WATERMARK": "150MiB"})  # fmt: skip
def half_bodies(target: Target) -> Steps:
    size = 16 << 20
    header = struct.pack(">HHQH", 60, 0, size, 0)
    part = bytes(131_064)
    links = [target.amqp() for _ in range(40)]
    for link in links:
        for channel in range(2, 5):
            link.open_channel(channel)
        link.sock.settimeout(0.2)
    yield
    starts = [
        method_frame(channel, m.BasicPublish(routing_key="q"))
        + struct.pack(">BHI", 2, channel, len(header)) + header + b"\xce"
        for channel in range(1, 5)
    ]  # fmt: skip
    for channel, start in enumerate(starts, 1):
        body = struct.pack(">BHI", 3, channel, len(part)) + part + b"\xce"
        for link in links:
            with suppress(OSError):  # a broker that does not read any more is right
                link.sock.sendall(start + body * (size // len(part)))


@attack("tables nested 10,000 deep and names that are not UTF-8")
def nested_tables(target: Target) -> Steps:
    table = b""
    for _ in range(10_000):
        table = b"\x01aF" + struct.pack(">I", len(table)) + table
    deep = table[:100_000]
    yield
    for name in (b"q", b"\xff\xfe"):
        for _ in range(50):
            link = target.amqp()
            arguments = b"\x00\x32\x00\x0a\x00\x00" + bytes([len(name)]) + name + b"\x00"
            payload = arguments + struct.pack(">I", len(deep)) + deep
            with suppress(ConnectionLost):
                link.send_bytes(struct.pack(">BHI", 1, 1, len(payload)) + payload + b"\xce")
                link.poll(5)


@attack("200 wrong passwords at once")
def guessing(target: Target) -> Steps:
    yield
    sockets: list[socket.socket] = []
    for turn in range(200):
        with suppress(OSError):
            opened = target.raw()
            answer = m.ConnectionStartOk({}, "PLAIN", f"\0mallory\0{turn}".encode(), "en_US")
            opened.sendall(b"AMQP\x00\x00\x09\x01" + method_frame(0, answer))
            sockets.append(opened)
    for opened in sockets:
        with suppress(OSError):
            while opened.recv(4096):
                pass


@attack("a user without rights tries every method 20,000 times")
def refused(target: Target) -> Steps:
    methods: list[Method] = [
        m.QueueDeclare(queue="q"), m.QueueDelete(queue="q"), m.QueuePurge(queue="q"),
        m.QueueBind(queue="q", exchange="amq.topic"), m.ExchangeDeclare(exchange="e", type="topic"),
        m.BasicConsume(queue="q"), m.BasicGet(queue="q"),
    ]  # fmt: skip
    link = target.amqp(STRANGER)
    yield
    for _ in range(20_000 // len(methods)):
        for method in methods:
            _refusal(link, method)


def _refusal(link: UserLink, method: Method) -> None:
    with suppress(ConnectionLost):  # how this client sees channel.close
        link.send(1, method)
        link.wait_for(m.ChannelClose, 1)
    link.send(1, m.ChannelCloseOk())
    link.send(1, m.ChannelOpen())
    link.wait_for(m.ChannelOpenOk, 1)


@attack("2,000 connections opened and closed by one user")
def churn(target: Target) -> Steps:
    yield
    deadline = time.monotonic() + 20
    for _ in range(2000):
        target.amqp().close()
        if time.monotonic() > deadline:
            return
