"""Attacks with many small things at once: pipelined methods, floods of tiny publishes."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import suppress

from headrace.testing.amqp_connection import ConnectionLost
from headrace.wire.amqp import methods as m
from headrace.wire.amqp.content import make_content
from headrace.wire.amqp.method_codec import Method, method_frame
from headrace.wire.amqp.properties import HeaderTable, Properties
from support.attacks import attack
from support.attacks.target import Target, UserLink, declare

Steps = Generator[None, None, None]
SECONDS = 5.0


def _pipeline(link: UserLink, frames: bytes, seconds: float = SECONDS) -> None:
    """Send the same frames again and again, reading answers in another thread."""
    deadline = time.monotonic() + seconds
    done = threading.Event()

    def read() -> None:
        with suppress(OSError):
            while not done.is_set() and link.sock.recv(1 << 20):
                pass

    reader = threading.Thread(target=read)
    reader.start()
    try:
        with suppress(ConnectionLost):
            while time.monotonic() < deadline:
                link.send_bytes(frames)
    finally:
        done.set()
        link.close()
        reader.join()


def _frames(method: Method) -> bytes:
    one = method_frame(1, method)
    return one * ((1 << 18) // len(one))


@attack("pipelined passive declares on one connection, 5 s")
def pipelined_declares(target: Target) -> Steps:
    link = target.amqp()
    declare(link, "q")
    yield
    _pipeline(link, _frames(m.QueueDeclare(queue="q", passive=True)))


@attack("pipelined gets of an empty queue, 5 s")
def pipelined_gets(target: Target) -> Steps:
    link = target.amqp()
    declare(link, "q")
    yield
    _pipeline(link, _frames(m.BasicGet(queue="q")))


@attack("pipelined binds and unbinds, 5 s")
def pipelined_binds(target: Target) -> Steps:
    link = target.amqp()
    declare(link, "q")
    arguments = {"queue": "q", "exchange": "amq.topic", "routing_key": "a.#.b.#.c"}
    pair = method_frame(1, m.QueueBind(**arguments, nowait=True))  # type: ignore[arg-type]
    pair += method_frame(1, m.QueueUnbind(**arguments))  # type: ignore[arg-type]
    yield
    _pipeline(link, pair * ((1 << 18) // len(pair)))


@attack("pipelined durable declares of new queues and deletes, 5 s")
def pipelined_durable(target: Target) -> Steps:
    link = target.amqp()
    frames = b"".join(
        method_frame(1, m.QueueDeclare(queue=f"d{i}", durable=True, nowait=True))
        + method_frame(1, m.QueueDelete(queue=f"d{i}", nowait=True))
        for i in range(2000)
    )
    yield
    _pipeline(link, frames)


@attack("pipelined publishes with other keys and headers each, 5 s")
def pipelined_headers(target: Target) -> Steps:
    link = target.amqp()
    declare(link, "q", x_max_length=1000)
    frames = b"".join(
        method_frame(1, m.BasicPublish(exchange="amq.headers", routing_key=str(i)))
        + make_content(
            Properties(headers=HeaderTable.of({f"h{i}": i, "x": "y" * (i % 50)})), b"x", 1
        )
        for i in range(2000)
    )
    link.call(
        1, m.QueueBind(queue="q", exchange="amq.headers", arguments={"x": "y"}), m.QueueBindOk
    )
    yield
    _pipeline(link, frames)


@attack("one connection consumes, rejects and gets its messages again, 5 s")
def requeue_loop(target: Target) -> Steps:
    link = target.amqp()
    declare(link, "q")
    link.flood("q", 1000)
    link.call(1, m.BasicConsume(queue="q"), m.BasicConsumeOk)
    yield
    _pipeline(link, _frames(m.BasicRecover(requeue=True)))


@attack("100 flooding publishers with a queue each, 5 s", memory_mib=1024)
def many_publishers(target: Target) -> Steps:
    links = [target.amqp() for _ in range(100)]
    frames: list[bytes] = []
    for i, link in enumerate(links):
        declare(link, f"q{i}", x_max_length=1000)
        one = method_frame(1, m.BasicPublish(routing_key=f"q{i}"))
        frames.append((one + make_content(Properties(), bytes(100), 1)) * 500)
        link.sock.setblocking(False)
    yield
    _without_waiting(target, links, frames)


def _without_waiting(
    target: Target, links: list[UserLink], frames: list[bytes], seconds: float = SECONDS
) -> None:
    """Keep all sockets full; what a socket did not take of a frame comes next."""
    deadline = time.monotonic() + seconds
    rests = list(frames)
    while time.monotonic() < deadline:
        for i, link in enumerate(links):
            with suppress(BlockingIOError):
                rests[i] = rests[i][link.sock.send(rests[i]) :] or frames[i]
        time.sleep(0.001)


@attack("2,047 channels opened on each of 20 connections")
def many_channels(target: Target) -> Steps:
    links = [target.amqp() for _ in range(20)]
    yield
    for link in links:
        link.send_bytes(
            b"".join(method_frame(number, m.ChannelOpen()) for number in range(2, 2048))
        )
    for link in links:
        link.barrier()


@attack("20,000 consumers on one queue, then 1,000 messages")
def many_consumers(target: Target) -> Steps:
    link = target.amqp()
    declare(link, "q")
    consumers = [
        method_frame(1, m.BasicConsume(queue="q", consumer_tag=f"c{i}", nowait=True))
        for i in range(20_000)
    ]
    yield
    link.flood_methods(consumers)
    link.flood("q", 1000)
