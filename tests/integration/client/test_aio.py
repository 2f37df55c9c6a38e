"""The client on asyncio: the same calls, against a broker."""

from __future__ import annotations

import asyncio
import socket
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import closing
from typing import Any

import pytest

from headrace.client import (
    BasicProperties,
    ChannelClosed,
    ConnectionClosed,
    ConsumerCancelled,
    LoginRefused,
    NotFound,
    RequestTimeout,
)
from headrace.client.aio import Channel, connect
from support.brokers import Broker
from support.open_files import descriptors
from support.restartable_broker import Restartable

PERSISTENT = {"delivery_mode": 2}


def run(coroutine: Coroutine[Any, Any, None], limit: float = 60) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(coroutine, limit)
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        assert not rest, "tasks are left"

    asyncio.run(bounded())


async def eventually(condition: Callable[[], bool], limit: float = 30) -> None:
    async with asyncio.timeout(limit):
        while not condition():  # noqa: ASYNC110 - conditions of all kinds
            await asyncio.sleep(0.005)


def with_channel(native: Broker, test: Callable[[Channel, str], Awaitable[None]]) -> None:
    async def main() -> None:
        async with connect(port=native.ports["native"]) as connection:
            channel = await connection.create_channel()
            name = f"aio-{uuid.uuid4().hex[:8]}"
            await channel.queue_declare(name, exclusive=True)
            await test(channel, name)

    run(main())


def test_every_call(native: Broker) -> None:
    async def test(channel: Channel, queue: str) -> None:
        await channel.exchange_declare("aio", "topic", auto_delete=False)
        await channel.exchange_declare("aio-2", "fanout")
        await channel.exchange_bind("aio-2", "aio", "a.#")
        await channel.queue_bind(queue, "aio-2")
        assert await channel.basic_publish("aio", "a.b", PERSISTENT, b"x") == 1
        assert await channel.publish_batch([("aio", "a", None, b"y")] * 3) == [1, 1, 1]
        assert await (await channel.publish_async("", queue, None, b"z")) == 1
        first = await channel.basic_get(queue)
        second = await channel.basic_get(queue)
        assert first and second
        assert (first.body, first.properties.delivery_mode) == (b"x", 2)
        await channel.basic_ack(queue, first.message_id)
        await channel.basic_nack(tag=second.tag)
        with pytest.raises(NotFound):
            await channel.basic_ack(queue, first.message_id)
        assert await channel.queue_purge(queue) == 4
        await channel.exchange_unbind("aio-2", "aio")
        await channel.queue_unbind(queue, "aio-2")
        assert [row async for row in channel.rows("bindings") if row["source"] == "aio"] == []
        await channel.exchange_delete("aio")
        await channel.exchange_delete("aio-2")
        assert await channel.queue_delete(queue) == 0

    with_channel(native, test)


def test_callbacks_may_be_functions_or_coroutines(native: Broker) -> None:
    async def test(channel: Channel, queue: str) -> None:
        seen: list[bytes] = []

        async def slow(consumer_tag: str, properties: BasicProperties, body: bytes) -> None:
            await asyncio.sleep(0)
            seen.append(body)
            if not properties.redelivered:
                raise RuntimeError("on purpose")

        tag = await channel.basic_consume(queue, True, slow)
        await channel.basic_publish("", queue, None, b"1")
        await eventually(lambda: seen == [b"1", b"1"])
        await channel.basic_cancel(tag)
        await channel.basic_consume(queue, True, lambda _t, _p, body: seen.append(body))
        await channel.publish_batch([("", queue, None, b"%d" % n) for n in range(2, 500)])
        await eventually(lambda: seen[1:] == [b"%d" % n for n in range(1, 500)])

    with_channel(native, test)


def test_streams(native: Broker) -> None:
    async def test(channel: Channel, queue: str) -> None:
        await channel.publish_batch([("", queue, None, b"%d" % n) for n in range(1000)])
        seen = []
        async with channel.deliveries(queue) as stream:
            async for delivery in stream:
                seen.append(int(delivery.body))
                await delivery.ack()
                if len(seen) == 600:
                    break
        assert (await channel.queue_declare(queue, exclusive=True)).messages == 400
        async for delivery in channel.deliveries(queue, auto_ack=True, idle_timeout=1):
            seen.append(int(delivery.body))
        assert seen == list(range(1000))
        assert (await channel.queue_declare(queue, exclusive=True)).consumers == 0

    with_channel(native, test)


def test_a_deleted_queue_ends_its_stream(native: Broker) -> None:
    async def test(channel: Channel, queue: str) -> None:
        async with channel.deliveries(queue) as stream:
            await channel.queue_delete(queue)
            with pytest.raises(ConsumerCancelled):
                async for _ in stream:
                    pass

    with_channel(native, test)


def test_many_tasks_share_a_connection(native: Broker) -> None:
    async def test(channel: Channel, queue: str) -> None:
        async def ask(number: int) -> None:
            name = f"aio-task-{number}"
            other = await channel.connection.create_channel()
            assert (await other.queue_declare(name)).name == name
            assert await other.basic_publish("", name, None, name.encode()) == 1
            delivery = await other.basic_get(name, auto_ack=True)
            assert delivery is not None
            assert delivery.body == name.encode()
            await other.queue_delete(name)
            await other.close()
            with pytest.raises(ChannelClosed):
                await other.queue_declare(name)

        await asyncio.gather(*(ask(number) for number in range(100)))

    with_channel(native, test)


def test_failures_to_connect(native: Broker) -> None:
    async def main() -> None:
        with pytest.raises(LoginRefused):
            await connect(port=native.ports["native"], password="wrong")
        with closing(socket.create_server(("127.0.0.1", 0))) as silent:
            port = silent.getsockname()[1]
            with pytest.raises(RequestTimeout):
                await connect(port=port, connect_timeout=0.1, request_timeout=0.1)
        with pytest.raises(ConnectionClosed):
            await connect(port=port)

    run(main())


def test_no_descriptor_is_left(native: Broker) -> None:
    async def main() -> None:
        before = len(descriptors())
        connection = await connect(port=native.ports["native"])
        await connection.create_channel()
        await connection.close()
        await connection.close()
        await asyncio.sleep(0)
        assert len(descriptors()) == before

    run(main())


def test_producer_and_consumer_survive_kills(restartable: Restartable) -> None:
    async def main() -> None:
        confirmed: set[int] = set()
        received: set[int] = set()
        options = {"port": restartable.port, "reconnect_delay": 0.02}
        async with connect(**options) as sending, connect(**options) as receiving:
            channel = await sending.create_channel()
            await channel.queue_declare("work", durable=True)
            consumer = await receiving.create_channel()
            await consumer.basic_consume("work", True, lambda _t, _p, body: received.add(int(body)))
            producing = asyncio.create_task(produce(channel, confirmed))
            for _ in range(2):
                wanted = len(confirmed) + 500
                await eventually(lambda wanted=wanted: len(confirmed) >= wanted)
                await asyncio.to_thread(restartable.crash)
            wanted = len(confirmed) + 500
            await eventually(lambda: len(confirmed) >= wanted)
            producing.cancel()
            await asyncio.gather(producing, return_exceptions=True)
            await eventually(lambda: confirmed <= received)

    async def produce(channel: Channel, confirmed: set[int]) -> None:
        number = 0
        while True:
            batch = range(number, number + 20)
            messages = [("", "work", PERSISTENT, b"%d" % one) for one in batch]
            await channel.publish_batch(messages, retry=True)
            confirmed.update(batch)
            number += 20

    run(main(), limit=100)
