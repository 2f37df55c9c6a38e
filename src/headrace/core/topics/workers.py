"""Threads for engines that block. The loop hands calls over and gets the replies."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from headrace.core.topics.async_engine import EngineReply, Then
from headrace.errors import BrokerError, EngineUnavailable

logger = logging.getLogger(__name__)

T = TypeVar("T")
THREADS = 8
MAX_WAITING = 10_000  # calls that have no thread yet


class EngineThreads:
    """A bounded pool. Threads are made when they are first needed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int = THREADS) -> None:
        self._loop = loop
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="headrace-topics")
        self._waiting = 0
        self._closed = False

    def run(self, engine: str, call: Callable[[], T], then: Then[T]) -> None:
        """Make the call in a thread; reply on the loop. One call too many is refused at once."""
        if self._closed or self._waiting >= MAX_WAITING:
            why = "the broker stops" if self._closed else f"{self._waiting} requests wait already"
            text = f"engine '{engine}' takes no more calls: {why}; nothing was done"
            then(EngineReply(error=EngineUnavailable(text)))
            return
        self._waiting += 1

        def done(future: Future[T]) -> None:
            answer: EngineReply[T] = _answer(engine, future)
            try:
                self._loop.call_soon_threadsafe(deliver, answer)
            except RuntimeError:
                logger.debug("engine '%s': the event loop is closed", engine)

        def deliver(answer: EngineReply[T]) -> None:
            self._waiting -= 1
            if not self._closed:
                then(answer)

        self._pool.submit(call).add_done_callback(done)

    def close(self) -> None:
        """Drop the replies; wait for running calls."""
        self._closed = True
        self._pool.shutdown(wait=True, cancel_futures=True)


def _answer(engine: str, future: Future[T]) -> EngineReply[T]:
    if future.cancelled():
        return EngineReply(error=EngineUnavailable(f"engine '{engine}': the broker stops"))
    error = future.exception()
    if error is None:
        return EngineReply(future.result())
    if isinstance(error, BrokerError):
        return EngineReply(error=error)
    logger.error("engine '%s' failed", engine, exc_info=error)
    text = f"engine '{engine}' failed, the change may have been made: {error}"
    return EngineReply(error=EngineUnavailable(text))
