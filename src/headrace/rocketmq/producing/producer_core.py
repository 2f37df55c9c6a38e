"""What blocking and asyncio producers share: routes, attempts, heartbeats, transactions."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import uuid4

from headrace.rocketmq.config import ProducerConfig
from headrace.rocketmq.errors import (
    BodyError,
    InvalidMessageError,
    RequestTimeoutError,
    RocketMQError,
    TopicNotFoundError,
)
from headrace.rocketmq.message import Message, MessageExt, inflate_body
from headrace.rocketmq.metrics import ProducerMetrics
from headrace.rocketmq.net import checks
from headrace.rocketmq.net.client_instance import ClientInstance, MessageIds
from headrace.rocketmq.net.connection import Connection
from headrace.rocketmq.net.routes import KnownTopic, route_by_template
from headrace.rocketmq.producing.send import BrokerFaults, Chooser, SendAttempts
from headrace.rocketmq.producing.send_requests import (
    EncodedSend,
    SendResult,
    broker_of_handle,
    encode_batch,
    encode_message,
    encode_reply,
)
from headrace.wire.remoting import properties as names
from headrace.wire.remoting.codes import RequestCode, ResponseCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.groups import Heartbeat
from headrace.wire.remoting.headers.send import PushReply, RecallMessage
from headrace.wire.remoting.message_queue import MessageQueue
from headrace.wire.remoting.names import CLIENT_INNER_PRODUCER, in_namespace
from headrace.wire.remoting.properties import take_properties

if TYPE_CHECKING:
    from headrace.rocketmq.producing.trace import MessageTrace

logger = logging.getLogger(__name__)

_IDS = MessageIds()
_REFRESH_GAP = 1.0


class ProducerCore:
    """One producer while it runs. Sending may happen in any thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        config: ProducerConfig,
        client_id: str,
        metrics: ProducerMetrics,
    ) -> None:
        self.config = config
        self.metrics = metrics
        groups = (config.producer_group, CLIENT_INNER_PRODUCER)
        self.instance = ClientInstance(
            loop,
            client_id,
            config.name_servers,
            heartbeat=lambda: Heartbeat(client_id, groups),
            request_timeout=config.request_timeout / 1000,
            credentials=config.credentials,
            tls=checks.tls_context(config.tls),
        )
        self.trace: MessageTrace | None = None
        self._replies = PendingReplies(self.instance)
        self._faults = BrokerFaults(by_latency=config.send_latency_fault_enable)
        self._next_queue: dict[str, itertools.count[int]] = {}
        self._refreshed_at: dict[str, float] = {}

    # -- start and stop ----------------------------------------------------------------------

    async def start(self) -> None:
        """An unreachable name server is an error now, not at the first send."""
        template = await self.instance.fetch_route(self.config.create_topic_key)
        if template is not None:
            await self.instance.learn(self.config.create_topic_key, template)
        spawn, every = self.instance.spawn, self.instance.every
        spawn(every(self.config.heartbeat_interval, self.instance.beat))
        spawn(every(self.config.poll_route_interval, self._poll))

    async def stop(self) -> None:
        if self.trace is not None:
            await self.trace.stop()
        await self.instance.unregister(producer=self.config.producer_group)
        await self.instance.close()

    async def _poll(self) -> None:
        for topic in self.instance.routes.topics():
            try:
                await self.find_topic(topic)
            except TopicNotFoundError:
                self.instance.routes.forget(topic)

    # -- topics ------------------------------------------------------------------------------

    def topic_now(self, topic: str) -> KnownTopic | None:
        """What is known without asking."""
        known = self.instance.routes.get(topic)
        return known if known is not None and known.write_queues else None

    async def find_topic(self, topic: str) -> KnownTopic:
        """Ask the name server; a topic that does not exist is sent like its template.

        A restarted name server knows no route until brokers register again: the last known route
        is used as long as its brokers answer.
        """
        route = await self.instance.fetch_route(topic)
        known = self.topic_now(topic)
        if route is None and known is not None and self.instance.brokers_answer(topic):
            return known
        if route is None and topic != self.config.create_topic_key:
            route = await self.instance.fetch_route(self.config.create_topic_key)
            if route is not None:
                route = route_by_template(route, self.config.default_topic_queue_nums)
        if route is not None:
            await self.instance.learn(topic, route)
        known = self.topic_now(topic)
        if route is None or known is None:
            raise TopicNotFoundError(
                f"no broker has a queue of topic {topic!r} that can be written; create the topic, "
                "or let brokers create topics (autoCreateTopicEnable)"
            )
        return known

    def refresh_route(self, topic: str) -> None:
        """From any thread, after a failure: the broker may have moved. At most once a second."""
        now = time.monotonic()
        if now - self._refreshed_at.get(topic, 0.0) < _REFRESH_GAP:
            return
        self._refreshed_at[topic] = now
        spawn, attempt = self.instance.spawn, self.instance.attempt
        loop = self.instance.remoting.loop
        loop.call_soon_threadsafe(lambda: spawn(attempt(lambda: self.find_topic(topic))))

    # -- sends -------------------------------------------------------------------------------

    def encode(self, message: Message, *, transaction: bool = False) -> EncodedSend:
        if not isinstance(message, Message):
            raise InvalidMessageError(f"{message!r} is no Message")
        return encode_message(self.config, message, _IDS.next(), transaction=transaction)

    def reply(
        self, request: MessageExt, body: bytes, properties: Mapping[str, str] | None
    ) -> EncodedSend:
        return encode_reply(self.config, request, body, properties, _IDS.next())

    async def request(self, message: Message, seconds: float) -> MessageExt:
        """Send a message and wait for the reply of a consumer. On the loop."""
        properties, reply = self._replies.open(seconds)
        sent = encode_message(self.config, message, _IDS.next(), extra=properties)
        try:
            async with asyncio.timeout(seconds):
                known = self.topic_now(sent.topic) or await self.find_topic(sent.topic)
                addresses = [one.master for one in known.route.brokers if one.master]
                if not {*addresses} <= {*self.instance.remoting.addresses()}:
                    await self.instance.beat()  # any broker of the cluster may push the reply
                await self.send(self.attempts(sent, known, seconds))
                found = await reply
        except TimeoutError:
            raise RequestTimeoutError(
                f"no reply to message {sent.msg_id} within {seconds:g} s"
            ) from None
        finally:
            reply.cancel()
        if found.body_error:
            raise BodyError(found.body_error)
        return found

    def batch(self, messages: Sequence[Message]) -> EncodedSend:
        return encode_batch(self.config, messages, [_IDS.next() for _ in messages])

    def attempts(
        self,
        sent: EncodedSend,
        known: KnownTopic,
        seconds: float | None,
        choose: Chooser | None = None,
        retries: int | None = None,
    ) -> SendAttempts:
        config, now = self.config, time.monotonic()
        turn = self._next_queue.get(sent.topic)
        if turn is None:
            turn = self._next_queue.setdefault(
                sent.topic, itertools.count(random.randrange(1 << 20))
            )
        return SendAttempts(
            sent,
            known.write_queues,
            self._faults,
            place=next(turn),
            most=1 + (config.retry_times_when_send_failed if retries is None else retries),
            started=now,
            deadline=now + self.seconds(seconds),
            fixed=choose(known.write_queues) if choose is not None else None,
            strict_store=config.retry_another_broker_when_not_store_ok,
        )

    def seconds(self, seconds: float | None) -> float:
        return self.config.send_timeout / 1000 if seconds is None else seconds

    def address(self, queue: MessageQueue) -> str:
        found = self.instance.routes.master(queue.broker_name)
        if found is None:
            raise TopicNotFoundError(
                f"no address of the master of broker {queue.broker_name!r} is known; is it running?"
            )
        return found

    async def recall(self, topic: str, handle: str) -> str:
        """Stop the delivery of a timed message; its id. BrokerError when it is too late."""
        broker, topic = broker_of_handle(handle), in_namespace(self.config.namespace, topic)
        await self.find_topic(topic)
        address = self.address(MessageQueue(topic, broker, 0))
        header = RecallMessage(self.config.producer_group, topic, handle, broker)
        answer = await self.instance.ask(address, header.command())
        return answer.ext.get("msgId", "")

    async def send(self, attempts: SendAttempts) -> SendResult:
        """On the loop: send until it succeeds or cannot succeed."""
        result = None
        while result is None:
            queue, left = self._next(attempts)
            found: Command | RocketMQError
            address = ""
            try:
                address, command = self.address(queue), attempts.message.command(queue)
                found = await self.instance.remoting.ask(address, command, left)
            except RocketMQError as error:
                found = error
            result = self._settle(attempts, found, address)
        return result

    def send_blocking(self, attempts: SendAttempts) -> SendResult:
        """In a thread of the program: the same, without a detour over the loop."""
        result = None
        while result is None:
            queue, left = self._next(attempts)
            found: Command | RocketMQError
            address = ""
            try:
                address, command = self.address(queue), attempts.message.command(queue)
                found = self.instance.remoting.ask_blocking(address, command, left)
            except RocketMQError as error:
                found = error
            result = self._settle(attempts, found, address)
        return result

    def _next(self, attempts: SendAttempts) -> tuple[MessageQueue, float]:
        """The queue of the next attempt, and the seconds it may take; SendError after the last."""
        now = time.monotonic()
        try:
            return attempts.next(now)
        except RocketMQError:
            self.metrics.add("failed", attempts.message.count)
            if self.trace is not None:
                self.trace.sent(attempts.message, None, "", (now - attempts.started) * 1000)
            raise

    def succeeded(
        self, attempts: SendAttempts, result: SendResult, address: str, now: float
    ) -> None:
        millis = (now - attempts.started) * 1000
        self.metrics.sent(millis, attempts.message.count)
        if self.trace is not None:
            self.trace.sent(attempts.message, result, address, millis)

    def _settle(
        self, attempts: SendAttempts, found: Command | RocketMQError, address: str
    ) -> SendResult | None:
        """The result of an attempt; None when the message is to be sent again."""
        now = time.monotonic()
        result = None
        if isinstance(found, Command):
            result = attempts.answered(found, address, now)
        else:
            attempts.failed(found, now)
        if result is not None:
            self.succeeded(attempts, result, address, now)
        else:
            self.metrics.add("retries")
            self.refresh_route(attempts.message.topic)
        return result


class PendingReplies:
    """Brokers push replies to the client that sent the request."""

    def __init__(self, instance: ClientInstance) -> None:
        self._client_id = instance.client_id
        self._waiting: dict[str, asyncio.Future[MessageExt]] = {}
        instance.handlers[RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT] = self._pushed

    def open(self, seconds: float) -> tuple[dict[str, str], asyncio.Future[MessageExt]]:
        """The properties of a request, and its reply."""
        number = str(uuid4())
        future: asyncio.Future[MessageExt] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        future.add_done_callback(lambda done: self._waiting.pop(number, None))
        properties = {
            names.CORRELATION_ID: number,
            names.REPLY_TO_CLIENT: self._client_id,
            names.TTL: str(int(seconds * 1000)),
        }
        return properties, future

    async def _pushed(self, connection: Connection, command: Command) -> Command:
        header = PushReply.take(command.ext)
        properties = take_properties(header.properties)
        message = MessageExt(
            header.topic,
            command.body,
            properties,
            "",
            header.queue_id,
            0,
            0,
            flag=header.flag,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            store_timestamp=header.store_timestamp,
        )
        inflate_body(message)
        number = properties.get(names.CORRELATION_ID, "")
        future = self._waiting.get(number)
        if future is None or future.done():
            logger.warning("reply %s is late, or belongs to a request of another client", number)
        else:
            future.set_result(message)
        return command.answer(ResponseCode.SUCCESS)
