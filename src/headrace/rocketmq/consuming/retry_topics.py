"""Giving a failed message back to its broker: for another try, or to the dead letters."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

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


class RetrySender:
    """Sends messages back; the ordinary way first, then as a message to the retry topic."""

    def __init__(self, core: ConsumerCore, limit: int) -> None:
        self._core = core
        self.limit = limit if limit >= 0 else _DEFAULT_LIMIT

    async def send_back(self, queue: MessageQueue, message: MessageExt, level: int) -> bool:
        """False when no way worked: the message is still ours."""
        core = self._core
        try:
            address = core.address_of(queue)
            await core.instance.ask(address, self._request(queue, message, level), _SECONDS)
        except RocketMQError as error:
            logger.warning("message %s was not sent back (%s)", message.msg_id, error)
            if not await self._send_again(queue, message, level):
                core.metrics.add("send_back_failures")
                return False
        core.metrics.add("sent_back")
        if level == DEAD_LETTER or message.reconsume_times >= self.limit:
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
        header = SendBack(
            offset=message.commit_log_offset,
            group=self._core.config.consumer_group,
            delay_level=level,
            origin_msg_id=message.offset_msg_id or None,
            origin_topic=in_namespace(self._core.config.namespace, message.topic),
            max_reconsume_times=self.limit,
            broker_name=queue.broker_name,
        )
        return Command(header.CODE, header.ext())

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
            reconsume_times=self.limit + 1 if level == DEAD_LETTER else times,
            max_reconsume_times=self.limit,
        )
        command = Command(RequestCode.SEND_MESSAGE_V2, header.ext_v2(), message.body)
        try:
            await self._core.instance.ask(self._core.address_of(queue), command, _SECONDS)
        except RocketMQError as error:
            logger.warning("message %s was not sent for a retry: %s", message.msg_id, error)
            return False
        return True
