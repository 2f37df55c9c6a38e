"""Callbacks in threads and `for delivery in channel.deliveries(queue)`.

A few threads run callbacks: those of one channel in order, those of several at once. An exception
of a callback is logged and settles its message by `on_failure`; it never ends a thread.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from itertools import islice
from queue import Empty, SimpleQueue
from threading import Condition, Lock, Thread, get_ident

from headrace.client.core.callback_failures import BaseConsumerCallback
from headrace.client.core.unsettled import Batch, Delivery, Row, UnsettledDeliveries
from headrace.client.errors import HeadraceError
from headrace.client.properties import received_properties
from headrace.closing import Closing

logger = logging.getLogger(__name__)

_SHARE = 256  # deliveries of one channel before others get their turn


class CallbackQueue:
    """The deliveries of one channel that wait for a thread; at most one thread works on it."""

    def __init__(self, pool: CallbackThreads) -> None:
        self._pool = pool
        self._jobs: deque[Iterator[None]] = deque()
        self._state = Condition()
        self._is_queued = False
        self._worker: int | None = None
        self._stopped = False

    def add(self, job: Iterator[None]) -> None:
        """Every step of a job is one call of a program's function."""
        with self._state:
            if self._stopped:
                return
            self._jobs.append(job)
            if self._is_queued:
                return
            self._is_queued = True
        self._pool.offer(self)

    def is_here(self) -> bool:
        """True in a callback of this channel."""
        return self._worker == get_ident()

    def work(self) -> None:
        """Run a share of the jobs; the rest follows later."""
        with self._state:
            self._worker = get_ident()
        left = _SHARE
        while left > 0 and (job := self._next()) is not None:
            for _ in islice(job, left):
                left -= 1
                if self._stopped:
                    break
            if left <= 0:
                self._jobs.appendleft(job)
        with self._state:
            if self._stopped:
                self._jobs.clear()
            self._worker = None
            self._is_queued = bool(self._jobs)
            again = self._is_queued
            self._state.notify_all()
        if again:
            self._pool.offer(self)

    def _next(self) -> Iterator[None] | None:
        try:
            return self._jobs.popleft()
        except IndexError:
            return None

    def stop(self, timeout: float) -> None:
        """Forget what waits; return when the callback that runs now is done."""
        deadline = time.monotonic() + timeout
        with self._state:
            self._stopped = True
            self._jobs.clear()
            if self._worker == get_ident():
                return  # a callback closes its own channel
            self._state.wait_for(lambda: self._worker is None, deadline - time.monotonic())


class CallbackThreads:
    """The threads. They are started when there is something to do."""

    def __init__(self, threads: int, name: str) -> None:
        self._size = threads
        self._name = name
        self._threads: list[Thread] = []
        self._ready: SimpleQueue[CallbackQueue | None] = SimpleQueue()
        self._lock = Lock()
        self._stopped = False

    def offer(self, callbacks: CallbackQueue) -> None:
        with self._lock:
            if not self._threads and not self._stopped:
                for number in range(self._size):
                    name = f"{self._name}-callbacks-{number}"
                    self._threads.append(Thread(target=self._run, name=name, daemon=True))
                    self._threads[-1].start()
        self._ready.put(callbacks)

    def _run(self) -> None:
        while (callbacks := self._ready.get()) is not None:
            callbacks.work()

    def stop(self, timeout: float) -> None:
        """End the threads; they finish what they are at."""
        with self._lock:
            threads, self._threads = self._threads, []
            self._stopped = True
        for _ in threads:
            self._ready.put(None)
        deadline = time.monotonic() + timeout
        for thread in threads:
            if thread.ident != get_ident():
                thread.join(max(0.0, deadline - time.monotonic()))


class ConsumerCallback(BaseConsumerCallback[None]):
    """Hands the deliveries of one consumer to its callback."""

    def _notify_cancelled(self, error: HeadraceError) -> None:
        assert self._on_cancel is not None
        try:
            self._on_cancel(self.consumer_tag, error)
        except Exception:
            logger.exception("on_cancel of consumer %s failed", self.consumer_tag)

    def _run(self, tag: int, row: Row) -> None:
        unsettled = self._unsettled
        if tag not in unsettled.outstanding:  # of a lost connection: it comes again
            return
        unsettled.current = tag
        try:
            self._callback(self.consumer_tag, received_properties(row, tag), row["body"])
        except BaseException:  # sys.exit() in a callback must not end a thread of ours either
            self._failures.failed(tag, row, self.consumer_tag)
        else:
            self._failures.succeeded(row)
            if self._auto_ack:
                unsettled.ack_unless_settled(tag)


class _StreamEnd:
    def __init__(self, error: HeadraceError | None) -> None:
        self.error = error


class DeliveryStream(Closing):
    """Deliveries of one queue, for one thread at a time.

    It ends when the channel closes, when nothing came for ``idle_timeout`` seconds, or with an
    exception when the broker ends the consumer. Leaving the loop cancels the consumer; what was
    fetched and not handed out goes back to the queue.
    """

    def __init__(
        self,
        unsettled: UnsettledDeliveries,
        consumer_tag: str,
        *,
        auto_ack: bool,
        idle_timeout: float | None,
    ) -> None:
        self.consumer_tag = consumer_tag
        self.cancel: Callable[[], None] | None = None
        self._unsettled = unsettled
        self._auto_ack = auto_ack
        self._idle_timeout = idle_timeout
        self._arrived: SimpleQueue[Batch | _StreamEnd] = SimpleQueue()

    # -- called by the reading thread

    def deliver(self, batch: Batch) -> None:
        self._arrived.put(batch)

    def end(self, error: HeadraceError | None) -> None:
        self._arrived.put(_StreamEnd(error))

    # -- called by the program

    def __iter__(self) -> Iterator[Delivery]:
        with contextlib.closing(self._arrivals()) as arrivals:
            for batch in arrivals:
                yield from self._each(batch)

    def batches(self) -> Generator[list[Delivery], None, None]:
        """The same several at a time, as they came; faster, and for the program to settle.

        Those of the last batch which are not settled when the loop is left go back.
        """
        with contextlib.closing(self._arrivals()) as arrivals:
            for batch in arrivals:
                unsettled, consumer_tag = self._unsettled, self.consumer_tag
                outstanding = unsettled.outstanding
                alive = [
                    Delivery(unsettled, tag, consumer_tag, row)
                    for tag, row in batch.items()
                    if tag in outstanding  # not of a lost connection: it comes again
                ]
                try:
                    if alive:
                        yield alive
                except GeneratorExit:
                    unsettled.requeue(batch)
                    raise

    def _arrivals(self) -> Generator[Batch, None, None]:
        try:
            while True:
                try:
                    batch = self._arrived.get(timeout=self._idle_timeout)
                except Empty:
                    return
                if isinstance(batch, _StreamEnd):
                    self._arrived.put(batch)  # for the next call
                    if batch.error is not None:
                        raise batch.error.again()
                    return
                yield batch
        finally:
            self.close()

    def _each(self, batch: Batch) -> Iterator[Delivery]:
        unsettled, consumer_tag, auto_ack = self._unsettled, self.consumer_tag, self._auto_ack
        outstanding, rest = unsettled.outstanding, iter(batch.items())
        try:
            for tag, row in rest:
                if tag not in outstanding:
                    continue  # of a lost connection: it comes again
                yield Delivery(unsettled, tag, consumer_tag, row)
                if auto_ack:
                    unsettled.ack_unless_settled(tag)
        except GeneratorExit:
            unsettled.requeue(tag for tag, _ in rest)
            raise

    def close(self) -> None:
        """Cancel the consumer; twice does no harm."""
        cancel, self.cancel = self.cancel, None
        if cancel is None:
            return
        with contextlib.suppress(HeadraceError):  # gone is gone
            cancel()
        while not self._arrived.empty():
            batch = self._arrived.get()
            if not isinstance(batch, _StreamEnd):
                self._unsettled.requeue(batch)
        self._arrived.put(_StreamEnd(None))
