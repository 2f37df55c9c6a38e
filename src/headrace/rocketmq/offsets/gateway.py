"""Questions about offsets to brokers. They block: never from the thread of the event loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from headrace.rocketmq.errors import BrokerError, RocketMQError, TopicNotFoundError
from headrace.rocketmq.net.client_instance import ClientInstance
from headrace.rocketmq.net.connection_pool import ResponseWaiter
from headrace.rocketmq.offsets.offset_store import NOT_FOUND, OffsetEntry
from headrace.wire.remoting.codes import ResponseCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.fields import Header
from headrace.wire.remoting.headers.offsets import (
    GetMaxOffset,
    GetMinOffset,
    OffsetResult,
    QueryConsumerOffset,
    SearchOffset,
    UpdateConsumerOffset,
)
from headrace.wire.remoting.message_queue import MessageQueue


class BrokerOffsets:
    """An OffsetGateway and QueueBounds for one group."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        seconds: float,
        stored: Callable[[int], None] = lambda count: None,
    ) -> None:
        self._stored = stored
        self._instance = instance
        self._group = group
        self._seconds = seconds

    def _address(self, queue: MessageQueue) -> str:
        address = self._instance.routes.address(queue.broker_name)
        if address is None:
            raise TopicNotFoundError(f"the address of broker {queue.broker_name!r} is not known")
        return address

    def _offset(self, queue: MessageQueue, header: Header) -> int:
        command = Command(header.CODE, header.ext())
        address = self._address(queue)
        answer = self._instance.remoting.ask_blocking(address, command, self._seconds)
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError(answer.code, answer.remark or "", address)
        return OffsetResult.take(answer.ext).offset

    def max_offset(self, queue: MessageQueue) -> int:
        return self._offset(queue, GetMaxOffset(queue.topic, queue.queue_id))

    def min_offset(self, queue: MessageQueue) -> int:
        return self._offset(queue, GetMinOffset(queue.topic, queue.queue_id))

    def offset_by_time(self, queue: MessageQueue, timestamp: int) -> int:
        return self._offset(queue, SearchOffset(queue.topic, queue.queue_id, timestamp))

    def query_offset(self, queue: MessageQueue) -> int:
        header = QueryConsumerOffset(self._group, queue.topic, queue.queue_id)
        try:
            return self._offset(queue, header)
        except BrokerError as error:
            if error.code != ResponseCode.QUERY_NOT_FOUND:
                raise
            return NOT_FOUND

    def commit_offsets(self, entries: Sequence[OffsetEntry]) -> list[OffsetEntry]:
        """All are sent before the first answer is waited for."""
        waiting: list[tuple[OffsetEntry, ResponseWaiter]] = []
        problem: RocketMQError | None = None
        deadline = time.monotonic() + self._seconds
        for entry in entries:
            waiter = ResponseWaiter()
            try:
                self._send_commit(entry, waiter)
            except RocketMQError as error:
                problem = error
            else:
                waiting.append((entry, waiter))
        stored: list[OffsetEntry] = []
        for entry, waiter in waiting:
            waiter.wait(deadline - time.monotonic() + 1.0)
            found = waiter.found
            if isinstance(found, Command) and found.code == ResponseCode.SUCCESS:
                stored.append(entry)
            elif isinstance(found, Command):
                problem = BrokerError(found.code, found.remark or "", self._address(entry.queue))
            else:
                problem = found or problem
        if problem is not None and not stored:
            raise problem
        self._stored(len(stored))
        return stored

    def _send_commit(self, entry: OffsetEntry, waiter: ResponseWaiter) -> None:
        queue = entry.queue
        header = UpdateConsumerOffset(self._group, queue.topic, queue.queue_id, entry.offset)
        connection = self._instance.remoting.connection_now(self._address(queue), self._seconds)
        connection.call(Command(header.CODE, header.ext()), waiter, self._seconds)
