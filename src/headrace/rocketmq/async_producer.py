"""The producer for asyncio."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from headrace.rocketmq.message import Message, MessageExt
from headrace.rocketmq.net.lifecycle import AsyncClient
from headrace.rocketmq.net.routes import KnownTopic
from headrace.rocketmq.producing.base_producer import BaseProducer
from headrace.rocketmq.producing.producer_core import ProducerCore
from headrace.rocketmq.producing.send import Chooser, queue_by_key, to_queue
from headrace.rocketmq.producing.send_requests import EncodedSend, SendResult
from headrace.wire.remoting.message_queue import MessageQueue
from headrace.wire.remoting.names import in_namespace


class AsyncProducer(AsyncClient, BaseProducer):
    """Sends messages from the event loop it was started on."""

    async def send(self, message: Message, *, queue: MessageQueue | None = None) -> SendResult:
        """Returns when the broker has the message; send_timeout is for all attempts."""
        return await self._send(self._running().encode(message), to_queue(queue))

    async def send_by_key(self, message: Message, key: str) -> SendResult:
        """Messages of one key go to one queue. Await each, or their order is not certain."""
        sent = self._running().encode(message)
        return await self._send(sent, lambda queues: queue_by_key(queues, str(key)))

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
