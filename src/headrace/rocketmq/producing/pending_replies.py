"""Requests that wait for a reply from a consumer. Only in the loop's thread."""

from __future__ import annotations

import asyncio
import logging
from uuid import uuid4

from headrace.rocketmq.message import MessageExt, inflate_body
from headrace.rocketmq.net.client_instance import ClientInstance
from headrace.rocketmq.net.connection import Connection
from headrace.wire.remoting import properties as names
from headrace.wire.remoting.codes import RequestCode, ResponseCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.send import PushReply
from headrace.wire.remoting.properties import take_properties

logger = logging.getLogger(__name__)


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
