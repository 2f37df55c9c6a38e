"""pika's callback adapters, SelectConnection and AsyncioConnection, driven by the same scripts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pika
import pytest
from pika.adapters.asyncio_connection import AsyncioConnection
from pika.channel import Channel
from pika.connection import Connection
from pika.frame import Method

from support.endpoint import Address, Names
from support.tcp_proxy import TcpProxy

pytestmark = pytest.mark.timeout(30)
LIMIT = 15.0
REPLY_TO = "amq.rabbitmq.reply-to"
# A step starts an operation and hands it the callback with which the script goes on.
Step = Callable[[Callable[..., None]], Any]
Script = Callable[[Any], Generator[Step, Any, None]]


class Driver:
    """Runs a script on a connection: each step's callback resumes it."""

    def __init__(self, adapter: str) -> None:
        self._asyncio = adapter == "asyncio"
        self._loop: Any = asyncio.new_event_loop() if self._asyncio else None
        self._error: BaseException | None = None
        self._finished = False
        self.connection: Connection = None

    def run(self, url: str, script: Script) -> None:
        self._script = script
        options = {"on_open_callback": self._opened, "on_open_error_callback": self._failed}
        if self._asyncio:
            options["custom_ioloop"] = self._loop
        adapter = AsyncioConnection if self._asyncio else pika.SelectConnection
        self.connection = adapter(pika.URLParameters(url), **options)
        self._loop = self.connection.ioloop
        self._loop.call_later(LIMIT, lambda: self._failed(None, TimeoutError("script too slow")))
        self._turn()
        if self.connection.is_open:
            self.connection.add_on_close_callback(lambda *_: self._loop.stop())
            self.connection.close()
            self._turn()
        assert self._finished or self._error, "the loop stopped before the script ended"
        if self._error:
            raise self._error

    def close(self) -> None:
        self._loop.close()

    def _turn(self) -> None:
        (self._loop.run_forever if self._asyncio else self._loop.start)()

    def _opened(self, connection: Connection) -> None:
        self._generator = self._script(connection)
        self._resume()

    def _failed(self, _connection: object, error: BaseException) -> None:
        self._error = error
        self._loop.stop()

    def _resume(self, *values: object) -> None:
        value = values[0] if len(values) == 1 else values or None
        try:
            step = self._generator.send(value)
            step(self._resume)
        except StopIteration:
            self._finished = True
            self._loop.stop()
        except BaseException as error:
            # an assertion inside a callback must fail the test, not vanish in the loop
            self._failed(None, error)


@pytest.fixture(params=["select", "asyncio"])
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    driver = Driver(request.param)
    yield driver
    driver.close()


def open_channel(connection: Connection) -> Step:
    return lambda resume: connection.channel(on_open_callback=resume)


def declare(channel: Channel, queue: str, **options: bool) -> Step:
    return lambda resume: channel.queue_declare(queue, callback=resume, **options)


def closed(thing: Connection | Channel) -> Step:
    return lambda resume: thing.add_on_close_callback(resume)


def test_a_published_message_is_consumed_and_acked(
    driver: Driver, amqp_address: Address, names: Names
) -> None:
    queue = names.queue()

    def script(connection: Connection) -> Generator[Step, Any, None]:
        channel = yield open_channel(connection)
        declared = yield declare(channel, queue, durable=True)
        assert declared.method.queue == queue
        channel.basic_publish("", queue, b"hello")

        _, method, _, body = yield lambda resume: channel.basic_consume(queue, resume)
        channel.basic_ack(method.delivery_tag)

        left = yield declare(channel, queue, passive=True)
        assert (body, left.method.message_count) == (b"hello", 0)

    driver.run(amqp_address.url, script)


def test_nack_requeues_and_reject_drops(
    driver: Driver, amqp_address: Address, names: Names
) -> None:
    queue = names.queue()

    def script(connection: Connection) -> Generator[Step, Any, None]:
        channel = yield open_channel(connection)
        yield declare(channel, queue)
        channel.basic_publish("", queue, b"again")

        _, first, _, _ = yield lambda resume: channel.basic_get(queue, resume)
        channel.basic_nack(first.delivery_tag, requeue=True)
        _, second, _, _ = yield lambda resume: channel.basic_get(queue, resume)
        channel.basic_reject(second.delivery_tag, requeue=False)

        left = yield declare(channel, queue, passive=True)
        assert (first.redelivered, second.redelivered) == (False, True)
        assert left.method.message_count == 0

    driver.run(amqp_address.url, script)


def test_every_publish_is_confirmed(driver: Driver, amqp_address: Address, names: Names) -> None:
    queue, count = names.queue(), 25

    def script(connection: Connection) -> Generator[Step, Any, None]:
        channel = yield open_channel(connection)
        yield declare(channel, queue, durable=True)
        highest = []

        def confirmed(resume: Callable[..., None]) -> None:
            def on_confirm(frame: Method) -> None:
                assert isinstance(frame.method, pika.spec.Basic.Ack)
                highest.append(frame.method.delivery_tag)
                if max(highest) == count:
                    resume()

            def on_select(_frame: Method) -> None:
                for _ in range(count):
                    channel.basic_publish("", queue, b"x", pika.BasicProperties(delivery_mode=2))

            channel.confirm_delivery(on_confirm, callback=on_select)

        yield confirmed
        stored = yield declare(channel, queue, passive=True)
        assert stored.method.message_count == count

    driver.run(amqp_address.url, script)


def test_an_unroutable_message_returns_before_its_confirm(
    driver: Driver, amqp_address: Address, names: Names
) -> None:
    absent, events = names.queue("absent"), []

    def script(connection: Connection) -> Generator[Step, Any, None]:
        channel = yield open_channel(connection)
        channel.add_on_return_callback(lambda _c, method, _p, body: events.append(body))

        def confirmed(resume: Callable[..., None]) -> None:
            channel.confirm_delivery(resume)
            channel.basic_publish("", absent, b"lost", mandatory=True)

        frame = yield confirmed
        events.append(frame.method.NAME)
        assert events == [b"lost", "Basic.Ack"]

    driver.run(amqp_address.url, script)


def test_direct_reply_to_answers_on_the_asking_channel(
    driver: Driver, amqp_address: Address, names: Names
) -> None:
    queue = names.queue("rpc")

    def script(connection: Connection) -> Generator[Step, Any, None]:
        client = yield open_channel(connection)
        server = yield open_channel(connection)
        yield declare(server, queue)

        def answer(
            _channel: Channel, _method: object, request: pika.BasicProperties, body: bytes
        ) -> None:
            server.basic_publish("", request.reply_to, body[::-1])

        server.basic_consume(queue, answer, auto_ack=True)

        def asked(resume: Callable[..., None]) -> None:
            client.basic_consume(REPLY_TO, resume, auto_ack=True)
            client.basic_publish("", queue, b"abc", pika.BasicProperties(reply_to=REPLY_TO))

        _, _, _, body = yield asked
        assert body == b"cba"

    driver.run(amqp_address.url, script)


def test_a_transaction_commits_what_it_published(
    driver: Driver, amqp_address: Address, names: Names
) -> None:
    queue = names.queue()

    def script(connection: Connection) -> Generator[Step, Any, None]:
        channel = yield open_channel(connection)
        yield declare(channel, queue)
        yield lambda resume: channel.tx_select(callback=resume)
        channel.basic_publish("", queue, b"undone")
        yield lambda resume: channel.tx_rollback(callback=resume)
        channel.basic_publish("", queue, b"done")
        yield lambda resume: channel.tx_commit(callback=resume)

        _, _, _, body = yield lambda resume: channel.basic_get(queue, resume, auto_ack=True)
        assert body == b"done"

    driver.run(amqp_address.url, script)


def test_the_broker_cancels_a_consumer_whose_queue_goes(
    driver: Driver, amqp_address: Address, names: Names
) -> None:
    queue = names.queue()

    def script(connection: Connection) -> Generator[Step, Any, None]:
        channel = yield open_channel(connection)
        yield declare(channel, queue)

        def cancelled(resume: Callable[..., None]) -> None:
            channel.add_on_cancel_callback(resume)
            tag = channel.basic_consume(queue, lambda *_: None, callback=lambda _: None)
            tags.append(tag)
            channel.queue_delete(queue, callback=lambda _: None)

        tags: list[str] = []
        frame = yield cancelled
        assert [frame.method.consumer_tag] == tags

    driver.run(amqp_address.url, script)


def test_a_closed_channel_can_be_opened_again(
    driver: Driver, amqp_address: Address, names: Names
) -> None:
    absent = names.queue("absent")

    def script(connection: Connection) -> Generator[Step, Any, None]:
        channel = yield open_channel(connection)
        channel.queue_declare(absent, passive=True)
        _, reason = yield closed(channel)
        assert reason.reply_code == 404

        channel = yield open_channel(connection)
        declared = yield declare(channel, "", exclusive=True)
        assert declared.method.queue.startswith("amq.gen-")

    driver.run(amqp_address.url, script)


def test_heartbeats_keep_a_silent_connection_open(driver: Driver, amqp_address: Address) -> None:
    def script(connection: Connection) -> Generator[Step, Any, None]:
        yield lambda resume: connection.ioloop.call_later(3.2, resume)
        assert connection.is_open
        channel = yield open_channel(connection)
        assert channel.is_open

    driver.run(f"{amqp_address.url}?heartbeat=1", script)


def test_a_cut_is_reported_as_a_closed_connection(
    driver: Driver, proxy: TcpProxy, proxy_address: Address
) -> None:
    def script(connection: Connection) -> Generator[Step, Any, None]:
        yield open_channel(connection)
        proxy.cut()
        _, reason = yield closed(connection)
        assert isinstance(reason, pika.exceptions.AMQPConnectionError)

    driver.run(proxy_address.url, script)
