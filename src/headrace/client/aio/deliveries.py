"""Messages on asyncio: deliveries, callbacks in the order of their channel, streams."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from types import CoroutineType

from headrace.client.core.callback_failures import BaseConsumerCallback
from headrace.client.core.unsettled import Batch, ReceivedDelivery, Row, UnsettledDeliveries
from headrace.client.errors import HeadraceError
from headrace.client.properties import received_properties

logger = logging.getLogger(__name__)

_TURN = 0.001  # seconds after which callbacks that never wait let others run


class Delivery(ReceivedDelivery):
    """A message to be settled once, with `await ack()` or `await nack()`."""

    __slots__ = ()

    async def ack(self) -> None:
        """Acknowledge. Sent soon, together with others, and before the channel's next call."""
        self._unsettled.ack(self.tag)

    async def nack(self, requeue: bool = True) -> None:
        """Requeue, or with ``requeue=False`` dead-letter (drop without a dead-letter exchange)."""
        self._unsettled.nack(self.tag, requeue)


class CallbackQueue:
    """One task that runs the callbacks of a channel, one after the other."""

    def __init__(self) -> None:
        self._jobs: deque[Iterator[Awaitable[None]]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._stopped = False

    def add(self, job: Iterator[Awaitable[None]]) -> None:
        """Every step of a job is one call of a program's function."""
        if self._stopped:
            return
        self._jobs.append(job)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        clock = asyncio.get_running_loop().time
        until = clock() + _TURN
        while self._jobs:
            for step in self._jobs.popleft():
                await step
                if self._stopped:
                    break
                if clock() >= until:
                    await asyncio.sleep(0)
                    until = clock() + _TURN
        self._task = None

    def is_here(self) -> bool:
        """True in a callback of this channel."""
        return self._task is not None and self._task is asyncio.current_task()

    async def stop(self, within: float) -> None:
        """Forget what waits; return when the callback that runs now is done."""
        self._stopped = True
        self._jobs.clear()
        task = self._task
        if task is not None and not self.is_here():
            await asyncio.wait({task}, timeout=within)


class ConsumerCallback(BaseConsumerCallback[Awaitable[None]]):
    """Hands the deliveries of one consumer to its callback, a function or a coroutine function."""

    async def _notify_cancelled(self, error: HeadraceError) -> None:
        assert self._on_cancel is not None
        try:
            result = self._on_cancel(self.consumer_tag, error)
            if inspect.isawaitable(result):
                await result
        except Exception:
            logger.exception("on_cancel of consumer %s failed", self.consumer_tag)

    async def _run(self, tag: int, row: Row) -> None:
        unsettled = self._unsettled
        if tag not in unsettled.outstanding:  # of a lost connection: it comes again
            return
        unsettled.current = tag
        try:
            result = self._callback(self.consumer_tag, received_properties(row, tag), row["body"])
            if result is not None and (
                type(result) is CoroutineType or inspect.isawaitable(result)  # the first is quick
            ):
                await result
        except Exception:
            self._failures.failed(tag, row, self.consumer_tag)
        else:
            self._failures.succeeded(row)
            if self._auto_ack:
                unsettled.ack_unless_settled(tag)


class DeliveryStream:
    """Deliveries of one queue: `async for delivery in channel.deliveries(queue)`.

    It ends when the channel closes, when nothing came for ``idle_timeout`` seconds, or with an
    exception when the broker ends the consumer. As a context manager it is cancelled at the end
    of the block; otherwise soon after the loop was left.
    """

    def __init__(
        self,
        unsettled: UnsettledDeliveries,
        consumer_tag: str,
        subscribe: Callable[[DeliveryStream], Awaitable[str]],
        cancel: Callable[[], Awaitable[None]],
        *,
        auto_ack: bool,
        idle_timeout: float | None,
    ) -> None:
        self.consumer_tag = consumer_tag
        self._unsettled = unsettled
        self._subscribe = subscribe
        self._cancel = cancel
        self._auto_ack = auto_ack
        self._idle_timeout = idle_timeout
        self._arrived: deque[tuple[int, Row]] = deque()
        self._news = asyncio.Event()
        self._is_consuming = False
        self._has_ended = False
        self._error: HeadraceError | None = None

    def deliver(self, batch: Batch) -> None:
        self._arrived.extend(batch.items())
        self._news.set()

    def end(self, error: HeadraceError | None) -> None:
        self._has_ended, self._error = True, error
        self._news.set()

    async def start(self) -> None:
        if not self._is_consuming:
            self._is_consuming = True
            await self._subscribe(self)

    async def __aiter__(self) -> AsyncIterator[Delivery]:
        await self.start()
        try:
            while await self._wait():
                tag, row = self._arrived.popleft()
                if tag not in self._unsettled.outstanding:
                    continue  # of a lost connection: it comes again
                yield Delivery(self._unsettled, tag, self.consumer_tag, row)
                if self._auto_ack:
                    self._unsettled.ack_unless_settled(tag)
        finally:
            await self.close()

    async def _wait(self) -> bool:
        """True when there is a delivery, False at the end."""
        while not self._arrived:
            if self._has_ended:
                if self._error is not None:
                    raise self._error.again()
                return False
            self._news.clear()
            try:
                async with asyncio.timeout(self._idle_timeout):
                    await self._news.wait()
            except TimeoutError:
                return False
        return True

    async def close(self) -> None:
        """Cancel the consumer; twice does no harm."""
        if not self._is_consuming or self._has_ended:
            return
        self._has_ended = True
        with contextlib.suppress(HeadraceError):  # gone is gone
            await self._cancel()
        self._unsettled.requeue(tag for tag, _ in self._arrived)
        self._arrived.clear()

    async def __aenter__(self) -> DeliveryStream:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
