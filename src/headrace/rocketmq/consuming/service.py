"""What concurrent and orderly consumption share: the listener, and failed messages sent back."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from headrace.rocketmq.consuming.process_queue import Assignment
from headrace.rocketmq.consuming.runners import ListenerRunner
from headrace.rocketmq.enums import ConsumeResult
from headrace.rocketmq.errors import RocketMQError
from headrace.rocketmq.message import MessageExt
from headrace.wire.remoting import properties as names
from headrace.wire.remoting.codes import RequestCode, retry_level
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.send import SendBack, SendMessage
from headrace.wire.remoting.message_queue import MessageQueue
from headrace.wire.remoting.names import CLIENT_INNER_PRODUCER, in_namespace, retry_topic
from headrace.wire.remoting.properties import properties_text

if TYPE_CHECKING:
    from headrace.rocketmq.consuming.consumer_core import ConsumerCore

logger = logging.getLogger(__name__)

DEAD_LETTER = -1
_DEFAULT_LIMIT = 16
_SECONDS = 5.0


def batches(messages: list[MessageExt], size: int) -> Iterator[list[MessageExt]]:
    """What listeners get at a time; a message that cannot be read fails alone."""
    batch: list[MessageExt] = []
    for message in messages:
        if batch and (len(batch) >= size or message.body_error or batch[0].body_error):
            yield batch
            batch = []
        batch.append(message)
    if batch:
        yield batch


class ConsumeService(ABC):
    """How messages are consumed: concurrently or in order. ``limit``: tries of a message."""

    is_orderly: ClassVar[bool]
    results: ClassVar[tuple[ConsumeResult, ...]]
    """What a listener may return."""

    def __init__(self, core: ConsumerCore, runner: ListenerRunner, limit: int) -> None:
        self._core = core
        self._runner = runner
        self._limit = limit if limit >= 0 else _DEFAULT_LIMIT

    @abstractmethod
    def start(self) -> None:
        """Begin what is done beside consuming."""

    @abstractmethod
    def arrived(self, a: Assignment, messages: list[MessageExt]) -> None:
        """Messages were pulled."""

    async def took(self, assignments: list[Assignment]) -> list[Assignment]:
        """Queues that were gained; those that can be used at once."""
        return assignments

    async def leave(self, a: Assignment) -> bool:
        """Give up a queue; False while a listener of it is running that must end first."""
        a.update_offset()
        a.drop()
        return True

    async def released(self, a: Assignment) -> None:  # noqa: B027 - most have nothing to release
        """A queue was given up, and its offset is stored."""

    @abstractmethod
    async def stop(self, seconds: float) -> bool:
        """False when some listeners did not end in time."""

    # -- failed messages ---------------------------------------------------------------------

    async def send_back(self, queue: MessageQueue, message: MessageExt, level: int) -> bool:
        """The ordinary way first, then as a message to the retry topic.

        False when no way worked: the message is still ours.
        """
        core = self._core
        try:
            address = core.instance.address_of(queue.broker_name)
            await core.instance.ask(address, self._request(queue, message, level), _SECONDS)
        except RocketMQError as error:
            logger.warning("message %s was not sent back (%s)", message.msg_id, error)
            if not await self._send_again(queue, message, level):
                core.metrics.add("send_back_failures")
                return False
        core.metrics.add("sent_back")
        if level == DEAD_LETTER or message.reconsume_times >= self._limit:
            core.metrics.add("dead_lettered")
            logger.error(
                "message %s of topic %s has failed %s times and goes to the dead letters of %s",
                message.msg_id,
                message.topic,
                message.reconsume_times + 1,
                core.config.consumer_group,
            )
        return True

    def _request(self, queue: MessageQueue, message: MessageExt, level: int) -> Command:
        return SendBack(
            offset=message.commit_log_offset,
            group=self._core.config.consumer_group,
            delay_level=level,
            origin_msg_id=message.offset_msg_id or None,
            origin_topic=in_namespace(self._core.config.namespace, message.topic),
            max_reconsume_times=self._limit,
            broker_name=queue.broker_name,
        ).command()

    async def _send_again(self, queue: MessageQueue, message: MessageExt, level: int) -> bool:
        """The broker has lost the original, or does not find it: send a copy."""
        group = self._core.config.consumer_group
        times = message.reconsume_times + 1
        properties = {
            name: value for name, value in message.properties.items() if name != names.DELAY
        }
        origin = in_namespace(self._core.config.namespace, message.topic)
        properties.setdefault(names.RETRY_TOPIC, origin)
        properties.setdefault(names.ORIGIN_MESSAGE_ID, message.offset_msg_id)
        wait = level if level > 0 else retry_level(message.reconsume_times)
        properties[names.DELAY] = str(wait)
        header = SendMessage(
            producer_group=CLIENT_INNER_PRODUCER,
            topic=retry_topic(group),
            queue_id=0,
            sys_flag=0,
            born_timestamp=message.born_timestamp or time.time_ns() // 1_000_000,
            flag=message.flag,
            properties=properties_text(properties),
            reconsume_times=self._limit + 1 if level == DEAD_LETTER else times,
            max_reconsume_times=self._limit,
        )
        command = Command(RequestCode.SEND_MESSAGE_V2, header.ext_v2(), message.body)
        try:
            address = self._core.instance.address_of(queue.broker_name)
            await self._core.instance.ask(address, command, _SECONDS)
        except RocketMQError as error:
            logger.warning("message %s was not sent for a retry: %s", message.msg_id, error)
            return False
        return True
