"""Slips of a program: each costs one call, says what is wrong, and leaves the connection alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from headrace.client import Channel, Connection, PreconditionFailed, ResourceExhausted
from headrace.client.aio import connect
from support.brokers import Broker

Slip = Callable[[Any, str], Any]  # a channel of either client, and a queue
DEEP: list[Any] = []
for _ in range(40):
    DEEP = [DEEP]

SLIPS: dict[str, tuple[Slip, type[Exception], str]] = {
    "no body": (lambda c, q: c.basic_publish("", q, None, None), TypeError, "body"),
    "body int": (lambda c, q: c.basic_publish("", q, None, 5), TypeError, "not 5"),
    "body map": (lambda c, q: c.basic_publish("", q, None, {"a": 1}), TypeError, "body"),
    "one of a batch": (
        lambda c, q: c.publish_batch([("", q, None, b"x"), ("", q, None, 1)]),
        TypeError,
        "body",
    ),
    "no key": (lambda c, q: c.basic_publish("", None, None, b""), TypeError, "key"),
    "long key": (lambda c, q: c.basic_publish("", "k" * 256, None, b""), PreconditionFailed, "255"),
    "exchange int": (lambda c, q: c.basic_publish(7, q, None, b""), TypeError, "exchange"),
    "properties": (lambda c, q: c.basic_publish("", q, [1], b""), TypeError, "properties"),
    "header keys": (
        lambda c, q: c.basic_publish("", q, {"headers": {"a": [{1: 2}]}}, b""),
        TypeError,
        "keys in headers",
    ),
    "deep headers": (
        lambda c, q: c.basic_publish("", q, {"headers": {"a": DEEP}}, b""),
        PreconditionFailed,
        "nested",
    ),
    "long header": (
        lambda c, q: c.basic_publish("", q, {"headers": {"a": [0] * 8193}}, b""),
        PreconditionFailed,
        "8193 entries in headers",
    ),
    "too large": (
        lambda c, q: c.basic_publish("", q, None, bytes(65 << 20), retry=True),
        ResourceExhausted,
        "the broker allows 67,108,864",
    ),
    "name int": (lambda c, q: c.queue_declare(5), TypeError, "name must be a string"),
    "flag int": (lambda c, q: c.queue_declare("x", durable=1), TypeError, "durable"),
    "arguments": (lambda c, q: c.queue_declare("x", arguments=[1]), TypeError, "a mapping"),
    "binding key": (lambda c, q: c.queue_bind(q, "amq.direct", "k" * 300), PreconditionFailed, "k"),
    "prefetch text": (lambda c, q: c.basic_qos("5"), TypeError, "prefetch"),
    "prefetch negative": (lambda c, q: c.basic_qos(-1), ValueError, "negative"),
    "no callback": (lambda c, q: c.basic_consume(q, True, None), TypeError, "callable"),
    "consumer tag": (
        lambda c, q: c.basic_consume(q, True, print, consumer_tag="t" * 256),
        PreconditionFailed,
        "consumer_tag",
    ),
}
each_slip = pytest.mark.parametrize(("slip", "error", "text"), SLIPS.values(), ids=SLIPS)


@each_slip
def test_a_slip_costs_one_call(
    connection: Connection, queue: str, slip: Slip, error: type[Exception], text: str
) -> None:
    channel, other = connection.create_channel(), connection.create_channel()
    held = other.queue_declare(exclusive=True).name  # it would go with the connection
    other.basic_publish("", held, None, b"kept")

    with pytest.raises(error, match=text):
        slip(channel, queue)

    assert channel.is_open
    assert channel.basic_publish("", queue, None, b"x") == 1
    assert other.queue_purge(held) == 1


@each_slip
def test_a_slip_costs_one_call_on_asyncio(
    native: Broker, queue: str, slip: Slip, error: type[Exception], text: str
) -> None:
    async def make_it() -> None:
        async with connect(port=native.ports["native"]) as connection:
            channel = await connection.create_channel()
            with pytest.raises(error, match=text):
                await slip(channel, queue)
            assert await channel.basic_publish("", queue, None, b"x") == 1

    asyncio.run(make_it())


@pytest.mark.parametrize("body", [b"bytes", "bytes", bytearray(b"bytes"), memoryview(b"bytes")])
def test_bodies_may_be_anything_that_is_bytes(channel: Channel, queue: str, body: Any) -> None:  # noqa: ANN401
    channel.basic_publish("", queue, None, body)
    assert channel.publish_batch([("", queue, None, body)]) == [1]

    bodies = [channel.basic_get(queue, auto_ack=True) for _ in range(2)]
    assert [one.body for one in bodies if one is not None] == [b"bytes", b"bytes"]


def test_calls_on_something_closed_fail_each_with_an_error_of_its_own(
    connection: Connection, queue: str
) -> None:
    channel = connection.create_channel()
    channel.close()
    found = []
    for _ in range(3):
        with pytest.raises(Exception, match="the channel is closed") as caught:
            channel.basic_get(queue)
        found.append(caught.value)

    assert len({id(one) for one in found}) == 3
    assert len({len(list(frames(one))) for one in found}) == 1  # it does not grow


def frames(error: BaseException) -> Any:  # noqa: ANN401 - of a traceback
    trace = error.__traceback__
    while trace is not None:
        yield trace
        trace = trace.tb_next
