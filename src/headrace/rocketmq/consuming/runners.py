"""Where listeners run: in threads, or as tasks of an event loop."""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from threading import Condition, Lock, Thread, current_thread

from headrace.rocketmq.consuming.listeners import ConsumeContext, ListenerAdapter, ListenerResult
from headrace.rocketmq.message import MessageExt

logger = logging.getLogger(__name__)

_IDLE = 60.0
_LOOK = 0.01
Job = Callable[[], None]
Done = Callable[[ListenerResult, float], None]
Begin = Callable[[], bool]


class ThreadPool:
    """A pool of threads that grows when all are busy: `low` threads stay, at most `high` work.

    Threads of Python take turns, so waking one for every job costs more than most jobs. Here at
    most one thread is being woken at a time: the thread that takes a job while more are waiting
    wakes the next. Quick jobs stay with a few threads; as soon as one blocks, the next is already
    under way.

    Operations on a deque are atomic, and the order of steps keeps jobs from being forgotten: a job
    is added before `_waking` is read, and `_waking` is cleared before jobs are looked for.
    """

    def __init__(self, name: str, low: int, high: int) -> None:
        self._name = name
        self._low, self._high = low, high
        self._jobs: deque[Job] = deque()
        self._parked: deque[Lock] = deque()  # each waiting thread waits for its own lock
        self._waking = False
        self._state = Condition()
        self._threads: set[Thread] = set()
        self._made = 0
        self._stopped = False

    def submit(self, job: Job) -> None:
        """Run a job in some thread; after stop() it is forgotten."""
        if self._stopped:
            return
        self._jobs.append(job)
        self._wake_one()

    @property
    def size(self) -> int:
        return len(self._threads)

    def stop(self, timeout: float) -> bool:
        """Forget what has not begun; wait for the rest. False when some did not end in time."""
        deadline = time.monotonic() + timeout
        with self._state:
            self._stopped = True
            self._jobs.clear()
            others = self._threads - {current_thread()}
            self._wake_all()
            return self._state.wait_for(
                lambda: not (self._threads & others), max(0.0, deadline - time.monotonic())
            )

    # -- waking ------------------------------------------------------------------------------

    def _wake_one(self) -> None:
        if self._waking:
            return
        self._waking = True
        try:
            lock = self._parked.pop()
        except IndexError:
            self._grow()
        else:
            lock.release()

    def _wake_all(self) -> None:
        while self._parked:
            try:
                self._parked.pop().release()
            except IndexError:
                return

    def _grow(self) -> None:
        if len(self._threads) < self._high and self._started():
            return
        self._waking = False  # all are busy, and look for jobs when they are done

    def _started(self) -> bool:
        with self._state:
            if self._stopped or len(self._threads) >= self._high:
                return False
            self._made += 1
            thread = Thread(target=self._run, name=f"{self._name}-{self._made}", daemon=True)
            self._threads.add(thread)
            try:
                thread.start()
            except RuntimeError:  # the system has no more threads; those we have go on
                logger.exception("%s has only %s threads", self._name, len(self._threads) - 1)
                self._threads.discard(thread)
                return False
            return True

    # -- the threads -------------------------------------------------------------------------

    def _run(self) -> None:
        lock = Lock()
        lock.acquire()
        while not self._stopped:
            self._waking = False
            self._work()
            if not self._park(lock):
                break
        with self._state:
            self._threads.discard(current_thread())
            self._state.notify_all()

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.popleft()
            except IndexError:
                return
            if self._jobs:
                self._wake_one()
            try:
                job()
            except BaseException:  # sys.exit() in a listener must not end a thread of ours
                logger.exception("a job of %s failed", self._name)

    def _park(self, lock: Lock) -> bool:
        """Wait to be woken; False when the thread should end."""
        self._parked.append(lock)
        if (self._jobs or self._stopped) and self._unpark(lock):
            return True  # it came in the last moment
        while not lock.acquire(timeout=_IDLE):
            if len(self._threads) > self._low and self._unpark(lock):
                return False
        return True

    def _unpark(self, lock: Lock) -> bool:
        """False when a wake-up is on its way."""
        try:
            self._parked.remove(lock)
        except ValueError:
            return False
        return True


async def until(condition: Callable[[], bool], seconds: float) -> bool:
    """Look again and again; False when it has not become true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        await asyncio.sleep(_LOOK)
    return True


class ListenerRunner(ABC):
    """Where a listener runs; ``adapter`` calls it."""

    def __init__(self, adapter: ListenerAdapter) -> None:
        self._adapter = adapter

    @abstractmethod
    def submit(
        self, messages: list[MessageExt], context: ConsumeContext, begin: Begin, done: Done
    ) -> None:
        """Some time: `begin`, and if that is True, the listener, then `done`."""

    @abstractmethod
    async def call(
        self, messages: list[MessageExt], context: ConsumeContext
    ) -> tuple[ListenerResult, float]:
        """Now, and wait for it; the outcome and the milliseconds it took."""

    @abstractmethod
    async def stop(self, seconds: float) -> bool:
        """Begin nothing more; False when some listeners did not end in time."""


class ThreadRunner(ListenerRunner):
    """Listeners in a pool of threads."""

    def __init__(self, adapter: ListenerAdapter, name: str, low: int, high: int) -> None:
        super().__init__(adapter)
        self._workers = ThreadPool(name, low, high)

    def submit(
        self, messages: list[MessageExt], context: ConsumeContext, begin: Begin, done: Done
    ) -> None:
        def job() -> None:
            if begin():
                start = time.perf_counter()
                outcome = self._adapter.run(messages, context)
                done(outcome, (time.perf_counter() - start) * 1000)

        self._workers.submit(job)

    async def call(
        self, messages: list[MessageExt], context: ConsumeContext
    ) -> tuple[ListenerResult, float]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[tuple[ListenerResult, float]] = loop.create_future()

        def hand_over(outcome: ListenerResult, millis: float) -> None:
            if not future.done():
                future.set_result((outcome, millis))

        def done(outcome: ListenerResult, millis: float) -> None:
            loop.call_soon_threadsafe(hand_over, outcome, millis)

        self.submit(messages, context, lambda: True, done)
        return await future

    async def stop(self, seconds: float) -> bool:
        return await asyncio.to_thread(self._workers.stop, seconds)


class TaskRunner(ListenerRunner):
    """Listeners as tasks; a semaphore limits how many are running."""

    def __init__(self, adapter: ListenerAdapter, high: int) -> None:
        super().__init__(adapter)
        self._room = asyncio.Semaphore(high)
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False

    def submit(
        self, messages: list[MessageExt], context: ConsumeContext, begin: Begin, done: Done
    ) -> None:
        async def job() -> None:
            async with self._room:
                if not self._stopped and begin():
                    done(*await self.call(messages, context))

        task = asyncio.get_running_loop().create_task(job())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def call(
        self, messages: list[MessageExt], context: ConsumeContext
    ) -> tuple[ListenerResult, float]:
        start = time.perf_counter()
        outcome = await self._adapter.run_async(messages, context)
        return outcome, (time.perf_counter() - start) * 1000

    async def stop(self, seconds: float) -> bool:
        self._stopped = True
        if not self._tasks:
            return True
        _, late = await asyncio.wait(set(self._tasks), timeout=seconds)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        return not late
