"""The producer that blocks, which any number of threads may use, and the producer for asyncio."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from threading import BoundedSemaphore

from headrace.rocketmq.config import ProducerConfig
from headrace.rocketmq.consuming.runners import ThreadPool
from headrace.rocketmq.errors import (
    ConfigurationError,
    RequestTimeoutError,
    RocketMQError,
)
from headrace.rocketmq.message import Message, MessageExt
from headrace.rocketmq.metrics import Health, ProducerMetrics, State
from headrace.rocketmq.net.client_instance import client_id
from headrace.rocketmq.net.lifecycle import AsyncClient, BlockingClient, Client, Lifecycle
from headrace.rocketmq.net.routes import KnownTopic
from headrace.rocketmq.producing.producer_core import ProducerCore
from headrace.rocketmq.producing.send import Chooser, SendAttempts, by_key, to_queue
from headrace.rocketmq.producing.send_requests import EncodedSend, SendResult
from headrace.rocketmq.producing.trace import MessageTrace
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.message_queue import MessageQueue
from headrace.wire.remoting.names import in_namespace

logger = logging.getLogger(__name__)

Callback = Callable[[SendResult | None, Exception | None], None]


class BaseProducer(Client):
    """A producer without its way to wait."""

    def __init__(self, config: ProducerConfig) -> None:
        if not isinstance(config, ProducerConfig):
            raise ConfigurationError(f"{config!r} is no ProducerConfig")
        self.config = config
        self.client_id = client_id(config.instance_name)
        self.metrics = ProducerMetrics()
        group = config.producer_group
        self._life = Lifecycle(f"{type(self).__name__} of group {group!r}", f"rocketmq-{group}")
        self._core: ProducerCore | None = None

    @property
    def running(self) -> bool:
        return self._life.state is State.RUNNING

    def health(self) -> Health:
        if self._core is None or not self.running:
            state = self._life.state
            return Health(state, ok=False, problems=(f"the producer is {state.value}",))
        problems = self._core.instance.problems
        texts = problems.texts()
        return Health(State.RUNNING, not texts, texts, last_heartbeat=problems.last_heartbeat)

    def _running(self) -> ProducerCore:
        self._life.check_running()
        assert self._core is not None
        return self._core

    async def _open(self, loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
        """NameServerError when no name server answers."""
        group = in_namespace(self.config.namespace, self.config.producer_group)
        config = replace(self.config, producer_group=group)
        self._core = core = ProducerCore(loop, config, self.client_id, self.metrics)
        await core.start()
        if config.enable_msg_trace:
            core.trace = MessageTrace(loop, config, group, "PRODUCE")
            await core.trace.start()
        return core.instance.remoting.abandon

    async def _close(self) -> None:
        assert self._core is not None
        await self._core.stop()

    async def _abort(self) -> None:
        if self._core is not None:
            if self._core.trace is not None:
                await self._core.trace.stop()
            await self._core.instance.close()
            self._core = None


class Producer(BlockingClient, BaseProducer):
    """Sends messages and waits for the broker, or not."""

    def __init__(self, config: ProducerConfig) -> None:
        super().__init__(config)
        self._room = BoundedSemaphore(config.max_pending)
        self._callbacks = ThreadPool(f"rocketmq-{config.producer_group}-callback", 1, 4)

    def _drain(self) -> None:
        deadline = time.monotonic() + self.config.send_timeout / 1000
        for _ in range(self.config.max_pending):
            if not self._room.acquire(timeout=max(0.0, deadline - time.monotonic())):
                logger.warning("%s is shut down with sends under way", self._life.what)
                return

    def _stop_threads(self) -> None:
        self._callbacks.stop(self.config.send_timeout / 1000)

    # -- sends -------------------------------------------------------------------------------

    def send(
        self,
        message: Message,
        *,
        timeout: float | None = None,
        queue: MessageQueue | None = None,
    ) -> SendResult:
        """Returns when the broker has the message. `timeout` (seconds) is for all attempts."""
        return self._send(self._running().encode(message), timeout, to_queue(queue))

    def send_by_key(
        self, message: Message, key: str, *, timeout: float | None = None
    ) -> SendResult:
        """Messages of one key go to one queue, in the order of the calls. One try only."""
        return self._send(self._running().encode(message), timeout, by_key(key))

    def send_batch(
        self,
        messages: Sequence[Message],
        *,
        timeout: float | None = None,
        queue: MessageQueue | None = None,
    ) -> SendResult:
        """Many messages of one topic in one request."""
        return self._send(self._running().batch(messages), timeout, to_queue(queue))

    def send_async(
        self,
        message: Message,
        callback: Callback | None = None,
        *,
        timeout: float | None = None,
        queue: MessageQueue | None = None,
        key: str | None = None,
    ) -> Future[SendResult]:
        """Returns at once; the future, and `callback(result, error)`, get the outcome.

        Waits when max_pending messages are under way.
        """
        core = self._running()
        choose = to_queue(queue) if key is None else by_key(key)
        sent = core.encode(message)
        known = self._topic(core, sent.topic)
        future: Future[SendResult] = Future()
        if not self._room.acquire(timeout=core.seconds(timeout)):
            raise RequestTimeoutError(
                f"{self.config.max_pending} messages are under way and none was answered in "
                "time; the message was not sent"
            )
        future.add_done_callback(lambda done: self._settled(done, callback))
        attempts = core.attempts(
            sent, known, timeout, choose, self.config.retry_times_when_send_async_failed
        )
        AsyncSend(core, attempts, future).begin()
        return future

    def send_oneway(self, message: Message, *, queue: MessageQueue | None = None) -> None:
        """Sends without waiting for a response."""
        core = self._running()
        sent = core.encode(message)
        known = self._topic(core, sent.topic)
        attempts = core.attempts(sent, known, None, to_queue(queue))
        chosen, left = attempts.next(time.monotonic())
        connection = core.instance.remoting.connection_now(core.address(chosen), left)
        connection.post(sent.command(chosen))
        self.metrics.add("one_way")

    def request(self, message: Message, *, timeout: float | None = None) -> MessageExt:
        """Send a message and wait for the reply of a consumer, RequestTimeoutError without one."""
        core = self._running()
        assert self._thread is not None
        return self._thread.run(core.request(message, core.seconds(timeout)))

    def reply(
        self, request: MessageExt, body: bytes, *, properties: Mapping[str, str] | None = None
    ) -> SendResult:
        """In a listener: answer a message that was sent with request()."""
        return self._send(self._running().reply(request, body, properties), None, None)

    def recall(self, topic: str, handle: str) -> str:
        """Stop the delivery of a timed message by its `recall_handle`; returns its id."""
        core = self._running()
        assert self._thread is not None
        return self._thread.run(core.recall(topic, handle))

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be written."""
        known = self._topic(self._running(), in_namespace(self.config.namespace, topic))
        return [replace(one, topic=topic) for one in known.write_queues]

    # -- within ------------------------------------------------------------------------------

    def _topic(self, core: ProducerCore, topic: str) -> KnownTopic:
        known = core.topic_now(topic)
        if known is None:
            assert self._thread is not None
            known = self._thread.run(core.find_topic(topic))
        return known

    def _send(self, sent: EncodedSend, timeout: float | None, choose: Chooser | None) -> SendResult:
        core = self._running()
        known = self._topic(core, sent.topic)
        return core.send_blocking(core.attempts(sent, known, timeout, choose))

    def _settled(self, done: Future[SendResult], callback: Callback | None) -> None:
        self._room.release()
        if callback is None:
            return
        error = done.exception()
        result = done.result() if error is None else None
        self._callbacks.submit(lambda: callback(result, _plain(error)))


def _plain(error: BaseException | None) -> Exception | None:
    return error if error is None or isinstance(error, Exception) else RocketMQError(repr(error))


class AsyncSend:
    """One send of send_async(): the first try straight to the socket, the others on the loop."""

    def __init__(
        self, core: ProducerCore, attempts: SendAttempts, future: Future[SendResult]
    ) -> None:
        self._core = core
        self._attempts = attempts
        self._future = future
        self._address = ""

    def begin(self) -> None:
        attempts, core = self._attempts, self._core
        try:
            queue, left = attempts.next(time.monotonic())
            self._address = core.address(queue)
            connection = core.instance.remoting.connection_now(self._address, left)
            connection.call(attempts.message.command(queue), self._answered, left, lazy=True)
        except RocketMQError as error:
            attempts.failed(error, time.monotonic())
            self._retry()

    def _answered(self, found: Command | RocketMQError) -> None:
        """In the loop's thread."""
        now = time.monotonic()
        result = None
        if isinstance(found, Command):
            try:
                result = self._attempts.answered(found, self._address, now)
            except Exception as error:
                self._future.set_exception(error)
                return
        else:
            self._attempts.failed(found, now)
        if result is None:
            self._retry()
            return
        self._core.succeeded(self._attempts, result, self._address, now)
        self._future.set_result(result)

    def _retry(self) -> None:
        core = self._core
        again = core.send(self._attempts)
        task = asyncio.run_coroutine_threadsafe(again, core.instance.remoting.loop)
        task.add_done_callback(self._retried)

    def _retried(self, task: Future[SendResult]) -> None:
        if task.cancelled():
            self._future.set_exception(RocketMQError("the producer was shut down"))
        elif (error := task.exception()) is not None:
            self._future.set_exception(error)
        else:
            self._future.set_result(task.result())


class AsyncProducer(AsyncClient, BaseProducer):
    """Sends messages from the event loop it was started on."""

    async def send(self, message: Message, *, queue: MessageQueue | None = None) -> SendResult:
        """Returns when the broker has the message; send_timeout is for all attempts."""
        return await self._send(self._running().encode(message), to_queue(queue))

    async def send_by_key(self, message: Message, key: str) -> SendResult:
        """Messages of one key go to one queue. Await each, or their order is not certain."""
        return await self._send(self._running().encode(message), by_key(key))

    async def send_batch(
        self, messages: Sequence[Message], *, queue: MessageQueue | None = None
    ) -> SendResult:
        """Many messages of one topic in one request."""
        return await self._send(self._running().batch(messages), to_queue(queue))

    async def send_oneway(self, message: Message) -> None:
        """Sends without waiting for a response."""
        core = self._running()
        sent = core.encode(message)
        attempts = core.attempts(sent, await self._topic(core, sent.topic), None)
        queue, _ = attempts.next(time.monotonic())
        await core.instance.remoting.post(core.address(queue), sent.command(queue))
        self.metrics.add("one_way")

    async def request(
        self,
        message: Message,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - it travels with the request
    ) -> MessageExt:
        """Send a message and wait for the reply of a consumer, RequestTimeoutError without one."""
        core = self._running()
        return await core.request(message, core.seconds(timeout))

    async def reply(
        self, request: MessageExt, body: bytes, *, properties: Mapping[str, str] | None = None
    ) -> SendResult:
        """In a listener: answer a message that was sent with request()."""
        return await self._send(self._running().reply(request, body, properties), None)

    async def recall(self, topic: str, handle: str) -> str:
        """Stop the delivery of a timed message by its `recall_handle`; returns its id."""
        return await self._running().recall(topic, handle)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be written."""
        known = await self._topic(self._running(), in_namespace(self.config.namespace, topic))
        return [replace(one, topic=topic) for one in known.write_queues]

    async def _topic(self, core: ProducerCore, topic: str) -> KnownTopic:
        return core.topic_now(topic) or await core.find_topic(topic)

    async def _send(self, sent: EncodedSend, choose: Chooser | None) -> SendResult:
        core = self._running()
        known = await self._topic(core, sent.topic)
        return await core.send(core.attempts(sent, known, None, choose))
