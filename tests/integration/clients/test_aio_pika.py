"""aio-pika: connections, publishing, consuming and its ready-made patterns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aio_pika
import pytest
from aio_pika.abc import AbstractIncomingMessage, AbstractRobustChannel
from aio_pika.exceptions import ChannelNotFoundEntity, ChannelPreconditionFailed, DeliveryError
from aio_pika.patterns import RPC, Master

from support.async_waiting import eventually, run
from support.endpoint import Address, Names

pytestmark = pytest.mark.timeout(30)


@asynccontextmanager
async def robust_channel(url: str, **options: bool) -> AsyncIterator[AbstractRobustChannel]:
    connection = await aio_pika.connect_robust(url)
    async with connection:
        yield await connection.channel(**options)


def persistent(body: bytes) -> aio_pika.Message:
    return aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)


async def ready_count(url: str, queue: str) -> int:
    """Messages waiting, asked over another connection: a robust channel answers from memory."""
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        found = await channel.declare_queue(queue, passive=True)
        return found.declaration_result.message_count


async def discard(_message: AbstractIncomingMessage) -> None:
    """A consumer that is not interested."""


def test_an_iterator_consumes_what_was_published_with_confirms(
    amqp_address: Address, names: Names
) -> None:
    async def scenario() -> list[bytes]:
        bodies = []
        async with robust_channel(amqp_address.url) as channel:
            queue = await channel.declare_queue(names.queue(), durable=True)
            for number in range(10):
                await channel.default_exchange.publish(persistent(b"%d" % number), queue.name)
            async with queue.iterator() as messages:
                async for message in messages:
                    async with message.process():
                        bodies.append(message.body)
                    if len(bodies) == 10:
                        break
            assert await ready_count(amqp_address.url, queue.name) == 0
        return bodies

    assert run(scenario()) == [b"%d" % number for number in range(10)]


def test_properties_and_headers_survive(amqp_address: Address, names: Names) -> None:
    sent = aio_pika.Message(
        b"body",
        headers={"text": "x", "number": 5, "nested": {"deep": [1, "two"]}, "flag": False},
        content_type="application/json",
        correlation_id="c",
        message_id="m",
        priority=3,
        expiration=30,
        type="t",
        app_id="a",
    )

    async def scenario() -> AbstractIncomingMessage:
        async with robust_channel(amqp_address.url) as channel:
            queue = await channel.declare_queue(names.queue())
            await channel.default_exchange.publish(sent, queue.name)
            return await queue.get(no_ack=True)

    got = run(scenario())
    assert (got.headers, got.content_type, got.type) == (sent.headers, "application/json", "t")
    assert (got.correlation_id, got.message_id, got.app_id) == ("c", "m", "a")
    assert (got.priority, got.expiration) == (3, 30)


def test_a_failing_process_block_requeues_and_a_rejecting_one_drops(
    amqp_address: Address, names: Names
) -> None:
    async def scenario() -> None:
        async with robust_channel(amqp_address.url) as channel:
            queue = await channel.declare_queue(names.queue())
            await channel.default_exchange.publish(aio_pika.Message(b"work"), queue.name)

            first = await queue.get()
            with pytest.raises(ValueError, match="again"):
                async with first.process(requeue=True):
                    raise ValueError("again")
            second = await queue.get()
            assert (first.redelivered, second.redelivered) == (False, True)
            with pytest.raises(ValueError, match="never"):
                async with second.process():
                    raise ValueError("never")

            assert await queue.get(fail=False) is None

    run(scenario())


def test_reject_with_requeue_brings_the_message_back(amqp_address: Address, names: Names) -> None:
    async def scenario() -> None:
        async with robust_channel(amqp_address.url) as channel:
            queue = await channel.declare_queue(names.queue())
            await channel.default_exchange.publish(aio_pika.Message(b"work"), queue.name)
            await (await queue.get()).reject(requeue=True)
            await (await queue.get()).nack(requeue=True)
            message = await queue.get()
            await message.ack()
            assert message.redelivered

    run(scenario())


def test_an_unroutable_message_is_returned_or_raised(amqp_address: Address, names: Names) -> None:
    absent = names.queue("absent")

    async def scenario() -> None:
        async with robust_channel(amqp_address.url) as channel:
            returned = asyncio.get_running_loop().create_future()
            channel.return_callbacks.add(lambda _channel, message: returned.set_result(message))
            await channel.default_exchange.publish(aio_pika.Message(b"lost"), absent)
            assert (await returned).body == b"lost"
        async with robust_channel(amqp_address.url, on_return_raises=True) as channel:
            with pytest.raises(DeliveryError):
                await channel.default_exchange.publish(aio_pika.Message(b"lost"), absent)

    run(scenario())


def test_publishing_works_without_confirms(amqp_address: Address, names: Names) -> None:
    async def scenario() -> bytes:
        async with robust_channel(amqp_address.url, publisher_confirms=False) as channel:
            queue = await channel.declare_queue(names.queue())
            await channel.default_exchange.publish(aio_pika.Message(b"sent"), queue.name)
            return (await queue.get(no_ack=True)).body

    assert run(scenario()) == b"sent"


def test_a_transaction_commits_or_rolls_back_with_its_block(
    amqp_address: Address, names: Names
) -> None:
    async def scenario() -> None:
        async with robust_channel(amqp_address.url, publisher_confirms=False) as channel:
            queue = await channel.declare_queue(names.queue())
            with pytest.raises(ValueError, match="undo"):
                async with channel.transaction():
                    await channel.default_exchange.publish(aio_pika.Message(b"no"), queue.name)
                    raise ValueError("undo")
            async with channel.transaction():
                await channel.default_exchange.publish(aio_pika.Message(b"yes"), queue.name)

            assert (await queue.get(no_ack=True)).body == b"yes"
            assert await queue.get(fail=False) is None

    run(scenario())


def test_bindings_of_topic_and_headers_exchanges_route(amqp_address: Address, names: Names) -> None:
    async def scenario() -> None:
        async with robust_channel(amqp_address.url) as channel:
            topic = await channel.declare_exchange(
                names.exchange("topic"), aio_pika.ExchangeType.TOPIC, durable=True
            )
            headers = await channel.declare_exchange(
                names.exchange("headers"), aio_pika.ExchangeType.HEADERS
            )
            queue = await channel.declare_queue(names.queue())
            await headers.bind(topic, "stock.#")
            await queue.bind(headers, arguments={"x-match": "any", "a": 1, "b": 2})

            await topic.publish(aio_pika.Message(b"yes", headers={"b": 2}), "stock.eu.x")
            await topic.publish(aio_pika.Message(b"no", headers={"b": 3}), "stock.eu.x")

            assert (await queue.get(no_ack=True)).body == b"yes"
            assert await queue.get(fail=False) is None

    run(scenario())


def test_exclusive_and_auto_delete_queues_go_with_their_users(amqp_address: Address) -> None:
    async def scenario() -> None:
        async with robust_channel(amqp_address.url) as channel:
            exclusive = await channel.declare_queue(exclusive=True)
            lasting = await channel.declare_queue(auto_delete=True)
            tag = await lasting.consume(discard)
            await lasting.cancel(tag)
            with pytest.raises(ChannelNotFoundEntity):
                await ready_count(amqp_address.url, lasting.name)
        with pytest.raises(ChannelNotFoundEntity):
            await ready_count(amqp_address.url, exclusive.name)

    run(scenario())


def test_a_conflicting_declaration_is_a_precondition_failure(
    amqp_address: Address, names: Names
) -> None:
    async def scenario() -> None:
        async with robust_channel(amqp_address.url) as channel:
            queue = await channel.declare_queue(names.queue(), arguments={"x-max-length": 5})
            with pytest.raises(ChannelPreconditionFailed, match="inequivalent arg 'x-max-length'"):
                await channel.declare_queue(queue.name, arguments={"x-max-length": 6})

    run(scenario())


def test_prefetch_spreads_work_over_consumers(amqp_address: Address, names: Names) -> None:
    async def scenario() -> None:
        async with robust_channel(amqp_address.url) as one, robust_channel(amqp_address.url) as two:
            queue = await one.declare_queue(names.queue())
            held: list[asyncio.Queue[AbstractIncomingMessage]] = [asyncio.Queue(), asyncio.Queue()]
            for inbox, channel in zip(held, (one, two), strict=True):
                await channel.set_qos(prefetch_count=2)
                same = await channel.get_queue(queue.name)
                await same.consume(inbox.put)
            for number in range(6):
                await one.default_exchange.publish(aio_pika.Message(b"%d" % number), queue.name)

            async def all_busy() -> bool:
                return [inbox.qsize() for inbox in held] == [2, 2]

            await eventually(all_busy)
            assert await ready_count(amqp_address.url, queue.name) == 2

    run(scenario())


def test_the_rpc_pattern_returns_results_and_errors(amqp_address: Address, names: Names) -> None:
    method = names.queue("multiply")

    async def multiply(*, x: int, y: int) -> int:
        return x * y

    async def scenario() -> None:
        async with (
            robust_channel(amqp_address.url) as server,
            robust_channel(amqp_address.url) as client,
        ):
            rpc_server = await RPC.create(server)
            await rpc_server.register(method, multiply, auto_delete=True)
            rpc = await RPC.create(client)

            assert await rpc.call(method, {"x": 6, "y": 7}) == 42
            with pytest.raises(TypeError):
                await rpc.call(method, {"z": 1})
            await rpc.close()
            await rpc_server.close()

    run(scenario())


def test_the_master_pattern_hands_tasks_to_a_worker(amqp_address: Address, names: Names) -> None:
    tasks = names.queue("tasks")

    async def scenario() -> list[int]:
        done: list[int] = []

        async def work(*, task_id: int) -> None:
            done.append(task_id)

        async with robust_channel(amqp_address.url) as channel:
            master = Master(channel)
            worker = await master.create_worker(tasks, work, auto_delete=True)
            for number in range(5):
                await master.create_task(tasks, {"task_id": number})

            async def all_done() -> bool:
                return len(done) == 5

            await eventually(all_done)
            await worker.close()
        return done

    assert run(scenario()) == [0, 1, 2, 3, 4]
