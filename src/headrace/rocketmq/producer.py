"""The producer that blocks. It may be used by any number of threads."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from threading import BoundedSemaphore

from headrace.rocketmq.config import ProducerConfig
from headrace.rocketmq.consuming.runners import ThreadPool
from headrace.rocketmq.errors import InvalidMessageError, RequestTimeoutError, RocketMQError
from headrace.rocketmq.message import Message, MessageExt
from headrace.rocketmq.net.lifecycle import BlockingClient
from headrace.rocketmq.net.routes import KnownTopic
from headrace.rocketmq.producing.async_send import AsyncSend
from headrace.rocketmq.producing.base_producer import BaseProducer
from headrace.rocketmq.producing.producer_core import ProducerCore
from headrace.rocketmq.producing.send import Chooser, queue_by_key, to_queue
from headrace.rocketmq.producing.send_requests import EncodedSend, SendResult
from headrace.wire.remoting.message_queue import MessageQueue
from headrace.wire.remoting.names import in_namespace

logger = logging.getLogger(__name__)

Callback = Callable[[SendResult | None, Exception | None], None]


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
        return self._send(self._encode(message), timeout, to_queue(queue))

    def send_by_key(
        self, message: Message, key: str, *, timeout: float | None = None
    ) -> SendResult:
        """Messages of one key go to one queue, in the order of the calls. One try only."""
        return self._send(
            self._encode(message), timeout, lambda queues: queue_by_key(queues, str(key))
        )

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
        choose = to_queue(queue) if key is None else (lambda queues: queue_by_key(queues, str(key)))
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

    def _encode(self, message: Message) -> EncodedSend:
        if not isinstance(message, Message):
            raise InvalidMessageError(f"{message!r} is no Message")
        return self._running().encode(message)

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
