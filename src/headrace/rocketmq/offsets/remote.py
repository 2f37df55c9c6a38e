"""Offsets in the brokers, for groups that share their messages, and the requests for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from headrace.rocketmq.errors import (
    BrokerError,
    OffsetStoreError,
    RocketMQError,
)
from headrace.rocketmq.net.client_instance import ClientInstance
from headrace.rocketmq.net.connection_pool import ResponseWaiter
from headrace.rocketmq.offsets.offset_store import NOT_FOUND, OffsetEntry, TableOffsetStore
from headrace.wire.remoting.codes import RequestCode, ResponseCode
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
from headrace.wire.remoting.headers.route import take_topic_list
from headrace.wire.remoting.message_queue import MessageQueue
from headrace.wire.remoting.names import is_retry_topic


class OffsetGateway(Protocol):
    """The way to the brokers. Both calls block; never call them from an event loop."""

    def query_offset(self, queue: MessageQueue) -> int:
        """The stored offset, -1 when the group has none."""

    def commit_offsets(self, entries: Sequence[OffsetEntry]) -> list[OffsetEntry]:
        """Send them all, then wait for the answers; those that were stored."""


class RemoteOffsetStore(TableOffsetStore):
    """A cache in front of the brokers, with commits in batches."""

    def __init__(
        self,
        gateway: OffsetGateway,
        *,
        persist_batch_size: int = 10,
        max_cache_size: int = 10_000,
        max_retry_times: int = 3,
    ) -> None:
        super().__init__(max_cache_size)
        self._gateway = gateway
        self._batch = persist_batch_size
        self._tries = max_retry_times + 1

    def load(self) -> None:
        """Nothing to do: offsets are asked for when they are needed."""

    def persist_all(self) -> None:
        waiting = self._unsaved()
        failed: OffsetStoreError | None = None
        for start in range(0, len(waiting), self._batch):
            try:
                self._save(waiting[start : start + self._batch])
            except OffsetStoreError as error:
                failed = error  # the other queues may be on brokers that answer
        if failed is not None:
            raise failed

    def _save(self, entries: list[OffsetEntry]) -> None:
        problem: Exception | None = None
        for _ in range(self._tries):
            try:
                stored = self._gateway.commit_offsets(entries)
            except (RocketMQError, OSError) as error:
                problem = error
                continue
            self._saved_all(stored)
            done = {entry.queue for entry in stored}
            entries = [entry for entry in entries if entry.queue not in done]
            if not entries:
                return
        queues = ", ".join(
            f"{one.queue.topic}@{one.queue.broker_name}:{one.queue.queue_id}" for one in entries
        )
        raise OffsetStoreError(
            f"offsets of {queues} were not stored after {self._tries} tries "
            f"({problem or 'the broker refused them'}); they are kept and tried again"
        ) from problem

    def _stored_offset(self, queue: MessageQueue) -> int:
        offset = self._query(queue)
        if offset != NOT_FOUND:
            self._learn(queue, offset)
        return offset

    def _query(self, queue: MessageQueue) -> int:
        problem: Exception | None = None
        for _ in range(self._tries):
            try:
                return self._gateway.query_offset(queue)
            except (RocketMQError, OSError) as error:
                problem = error
        raise OffsetStoreError(
            f"the offset of {queue} could not be read after {self._tries} tries ({problem})"
        ) from problem


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

    def _offset(self, queue: MessageQueue, header: Header) -> int:
        address = self._instance.address_of(queue.broker_name)
        answer = self._instance.remoting.ask_blocking(address, header.command(), self._seconds)
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
        header = QueryConsumerOffset(
            self._group, queue.topic, queue.queue_id, set_zero_if_not_found=False
        )
        try:
            offset = self._offset(queue, header)
        except BrokerError as error:
            if error.code != ResponseCode.QUERY_NOT_FOUND:
                raise
            return NOT_FOUND
        return offset if offset or self._has_offsets(queue) else NOT_FOUND

    def _has_offsets(self, queue: MessageQueue) -> bool:
        """Brokers of 4.9 answer 0 for a group without offsets while a topic is young.

        They can only be asked for the offsets of all groups.
        """
        if is_retry_topic(queue.topic):
            return True
        ask, address = (
            self._instance.remoting.ask_blocking,
            self._instance.address_of(queue.broker_name),
        )
        command = Command(RequestCode.QUERY_TOPICS_BY_CONSUMER, {"group": self._group})
        answer = ask(address, command, self._seconds)
        if answer.code == ResponseCode.SUCCESS:
            return queue.topic in take_topic_list(answer.body)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            answer = ask(address, Command(RequestCode.GET_ALL_CONSUMER_OFFSET), self._seconds)
        wanted = f'"{queue.topic}@{self._group}"'.encode()
        return answer.code != ResponseCode.SUCCESS or wanted in answer.body

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
                problem = BrokerError(
                    found.code,
                    found.remark or "",
                    self._instance.address_of(entry.queue.broker_name),
                )
            else:
                problem = found or problem
        if problem is not None and not stored:
            raise problem
        self._stored(len(stored))
        return stored

    def _send_commit(self, entry: OffsetEntry, waiter: ResponseWaiter) -> None:
        queue = entry.queue
        header = UpdateConsumerOffset(self._group, queue.topic, queue.queue_id, entry.offset)
        connection = self._instance.remoting.connection_now(
            self._instance.address_of(queue.broker_name), self._seconds
        )
        connection.call(header.command(), waiter, self._seconds)
