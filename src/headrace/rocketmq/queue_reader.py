"""Queues read by offset, for programs that keep their positions themselves. Without a group."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from itertools import takewhile
from typing import Self

from headrace.rocketmq.errors import (
    BodyError,
    BrokerError,
    MessagesGoneError,
    RequestTimeoutError,
    TopicNotFoundError,
)
from headrace.rocketmq.message import MessageExt, messages_in
from headrace.rocketmq.net import checks
from headrace.rocketmq.net.client_instance import ClientInstance, client_id
from headrace.rocketmq.net.lifecycle import Lifecycle, LoopThread
from headrace.rocketmq.offsets.offset_store import OffsetEntry
from headrace.rocketmq.offsets.remote import BrokerOffsets
from headrace.wire.remoting.codes import PullFlag, ResponseCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.groups import Heartbeat
from headrace.wire.remoting.headers.pull import PULL_CODES, TAG, PullMessage, PullResult
from headrace.wire.remoting.message_queue import MessageQueue

GROUP = "headrace_reader"
PULL_SIZE = 1024  # brokers give fewer if they want
_AGAIN_SECONDS = 0.05


class QueueReader:
    """Bounds and messages of queues. It blocks; ``with`` closes it. Not for two threads at once.

    ``group`` is the name under which brokers count the pulls, and that of commit().
    """

    def __init__(
        self,
        namesrv_addr: str,
        *,
        group: str = GROUP,
        access_key: str = "",
        secret_key: str = "",
        tls: bool | ssl.SSLContext = False,
        request_timeout: int = 10_000,
    ) -> None:
        servers = checks.addresses_of("namesrv_addr", namesrv_addr)
        checks.check_group("group", group)
        checks.check_keys(access_key, secret_key)
        self._life = Lifecycle("the QueueReader", "rocketmq-reader")
        self._life.begin()
        self._group = group
        self._seconds = request_timeout / 1000
        name = client_id()
        self._thread = LoopThread(self._life.thread_name)
        self._instance = ClientInstance(
            self._thread.loop,
            name,
            servers,
            heartbeat=lambda: Heartbeat(name),
            request_timeout=self._seconds,
            credentials=(access_key, secret_key) if access_key else None,
            tls=checks.tls_context(tls),
        )
        self._broker_offsets = BrokerOffsets(self._instance, group, self._seconds)
        self._life.started(self._instance.remoting.abandon)

    def close(self) -> None:
        """Twice = no effect."""
        if self._life.end():
            self._thread.run(self._instance.close())
            self._thread.stop()
            self._life.ended()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- what there is -----------------------------------------------------------------------

    def queues(self, topic: str) -> list[MessageQueue]:
        """Those that can be read; TopicNotFoundError."""
        self._life.check_running()
        self._thread.run(self._instance.refresh(topic))
        known = self._instance.routes.get(topic)
        assert known is not None, "it was refreshed"
        if not known.read_queues:
            raise TopicNotFoundError(f"topic {topic!r} has no queue that may be read")
        return sorted(known.read_queues)

    def min_offset(self, queue: MessageQueue) -> int:
        """The oldest message that is kept."""
        self._life.check_running()
        return self._broker_offsets.min_offset(queue)

    def max_offset(self, queue: MessageQueue) -> int:
        """The offset which the next message will get."""
        self._life.check_running()
        return self._broker_offsets.max_offset(queue)

    def offset_by_time(self, queue: MessageQueue, timestamp: int) -> int:
        """The first message stored at that time (milliseconds since 1970) or later.

        It is looked for here: brokers of different versions answer the question differently.
        """
        low, high = self.min_offset(queue), self.max_offset(queue)
        while low < high:
            middle = (low + high) // 2
            found = next(self._pull(queue, middle, high, 1), None)
            if not found or found[0].store_timestamp >= timestamp:
                high = middle
            else:
                low = found[0].queue_offset + 1
        return low

    # -- messages ----------------------------------------------------------------------------

    def read(
        self, queue: MessageQueue, start: int, end: int, *, pull_size: int = PULL_SIZE
    ) -> Iterator[list[MessageExt]]:
        """The messages from ``start`` to ``end`` - 1, whose end has to be there already.

        MessagesGoneError when the broker keeps them no more, BodyError for a body that cannot be
        decompressed.
        """
        for batch in self._pull(queue, start, end, pull_size):
            good = list(takewhile(lambda one: not one.body_error, batch))
            if good:
                yield good
            if len(good) < len(batch):
                raise BodyError(batch[len(good)].body_error)

    def _pull(
        self, queue: MessageQueue, start: int, end: int, pull_size: int
    ) -> Iterator[list[MessageExt]]:
        self._life.check_running()
        at, deadline = start, time.monotonic() + self._seconds
        ahead: Future[Command] | None = None
        try:
            while at < end:
                asked = ahead or self._ask(queue, at, pull_size)
                ahead = None
                answer = asked.result()
                if answer.code not in PULL_CODES:
                    raise BrokerError(answer.code, answer.remark or "", queue.broker_name)
                result = PullResult.take(answer.ext)
                if at < result.min_offset:
                    raise MessagesGoneError(queue, at, min(result.min_offset, end))
                following = result.next_begin_offset
                if following <= at or answer.code == ResponseCode.PULL_OFFSET_MOVED:
                    self._wait_again(queue, at, deadline)
                    continue
                if following < end:
                    ahead = self._ask(queue, following, pull_size)
                if answer.code == ResponseCode.SUCCESS:
                    found = messages_in(answer.body, queue.broker_name)
                    wanted = [one for one in found if at <= one.queue_offset < end]
                    if wanted:
                        yield wanted
                at, deadline = following, time.monotonic() + self._seconds
        finally:
            if ahead is not None:
                ahead.cancel()

    def _ask(self, queue: MessageQueue, offset: int, size: int) -> Future[Command]:
        address = self._instance.routes.address(queue.broker_name)
        if address is None:
            raise TopicNotFoundError(
                f"broker {queue.broker_name!r} is not known; ask for queues({queue.topic!r}) first"
            )
        header = PullMessage(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=size,
            sys_flag=int(PullFlag.SUBSCRIPTION),
            subscription="*",
            expression_type=TAG,
            broker_name=queue.broker_name,
        )
        request = self._instance.remoting.ask(address, header.command(), self._seconds)
        return self._thread.submit(request)

    def _wait_again(self, queue: MessageQueue, at: int, deadline: float) -> None:
        """A broker that has just started does not show everything at once."""
        if time.monotonic() > deadline:
            raise RequestTimeoutError(f"{queue}: the broker does not give offset {at}")
        time.sleep(_AGAIN_SECONDS)

    # -- positions ---------------------------------------------------------------------------

    def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Report the group's offsets to brokers: consoles then show its lag."""
        self._life.check_running()
        entries = [OffsetEntry(queue, offset) for queue, offset in offsets.items()]
        try:
            self._commit(entries)
        except BrokerError as error:
            if error.code != ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
                raise
            for entry in {one.queue.broker_name: one for one in entries}.values():
                self._ask(entry.queue, entry.offset, 1).result()  # a pull makes the group
            self._commit(entries)

    def _commit(self, entries: list[OffsetEntry]) -> None:
        """Broker by broker: one that refuses is not hidden by others."""
        brokers = {one.queue.broker_name for one in entries}
        for broker in sorted(brokers):
            self._broker_offsets.commit_offsets(
                [one for one in entries if one.queue.broker_name == broker]
            )
