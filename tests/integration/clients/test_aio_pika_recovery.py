"""aio-pika's robust connections: what is restored when the TCP connection is cut."""

from __future__ import annotations

import asyncio

import aio_pika
import pytest
from aio_pika.abc import AbstractIncomingMessage, AbstractRobustConnection
from pika.adapters.blocking_connection import BlockingChannel

from support.async_waiting import eventually, run
from support.endpoint import Address, Names
from support.tcp_proxy import TcpProxy

pytestmark = pytest.mark.timeout(30)


async def connect(address: Address) -> AbstractRobustConnection:
    return await aio_pika.connect_robust(f"{address.url}?reconnect_interval=0.1")


async def cut_and_wait(proxy: TcpProxy, connection: AbstractRobustConnection) -> None:
    again = asyncio.Event()
    connection.reconnect_callbacks.add(lambda *_: again.set())
    await asyncio.to_thread(proxy.cut)
    await again.wait()


def test_exchange_queue_binding_and_consumer_come_back_after_a_cut(
    proxy: TcpProxy, proxy_address: Address, names: Names
) -> None:
    async def scenario() -> list[bytes]:
        inbox: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
        async with await connect(proxy_address) as connection:
            channel = await connection.channel()
            # the broker forgets both of these, so the client must declare them again
            exchange = await channel.declare_exchange(
                names.exchange(), aio_pika.ExchangeType.DIRECT, auto_delete=True
            )
            queue = await channel.declare_queue(names.queue(), exclusive=True)
            await queue.bind(exchange, "key")
            await queue.consume(inbox.put, no_ack=True)
            await exchange.publish(aio_pika.Message(b"before"), "key")
            bodies = [(await inbox.get()).body]

            await cut_and_wait(proxy, connection)
            await exchange.publish(aio_pika.Message(b"after"), "key")
            bodies.append((await inbox.get()).body)
        return bodies

    assert run(scenario()) == [b"before", b"after"]


def test_unacked_messages_are_delivered_again_after_a_cut(
    proxy: TcpProxy, proxy_address: Address, names: Names
) -> None:
    async def scenario() -> None:
        inbox: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
        async with await connect(proxy_address) as connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(names.queue(), durable=True)
            await queue.consume(inbox.put)
            await channel.default_exchange.publish(aio_pika.Message(b"held"), queue.name)
            first = await inbox.get()

            await cut_and_wait(proxy, connection)
            second = await inbox.get()
            await second.ack()

            assert (first.body, first.redelivered) == (b"held", False)
            assert (second.body, second.redelivered) == (b"held", True)

    run(scenario())


def test_reconnecting_goes_on_until_the_broker_accepts(
    proxy: TcpProxy, proxy_address: Address
) -> None:
    async def scenario() -> None:
        async with await connect(proxy_address) as connection:
            channel = await connection.channel()
            proxy.refuse()
            again = asyncio.Event()
            connection.reconnect_callbacks.add(lambda *_: again.set())
            await asyncio.to_thread(proxy.cut)

            async def tried_twice() -> bool:
                return proxy.accepted >= 3

            await eventually(tried_twice)
            proxy.accept()
            await again.wait()
            assert (await channel.declare_queue(exclusive=True)).name

    run(scenario())


def test_a_queue_deleted_by_others_spares_the_channel(
    amqp_address: Address, names: Names, channel: BlockingChannel
) -> None:
    name = names.queue()

    async def scenario() -> None:
        async with await connect(amqp_address) as connection:
            mine = await connection.channel()
            queue = await mine.declare_queue(name)
            inbox: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
            await queue.consume(inbox.put)
            channel.queue_delete(name)
            assert (await mine.declare_queue(exclusive=True)).name

    run(scenario())
