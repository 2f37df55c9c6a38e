"""Start once, stop once, not after a fork; the thread with the event loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from threading import RLock, Thread, get_ident
from typing import Any, Self, TypeVar

import uvloop

from headrace.rocketmq.errors import ForkError, StateError
from headrace.rocketmq.metrics import State

_live: weakref.WeakSet[Lifecycle] = weakref.WeakSet()


class Lifecycle:
    """The state of one producer or consumer."""

    def __init__(self, what: str, thread_name: str) -> None:
        self.what = what
        self.thread_name = thread_name
        self.state = State.CREATED
        self.lock = RLock()
        self.on_fork: Callable[[], None] | None = None
        self._pid = os.getpid()

    def begin(self) -> bool:
        """False when it runs already; an exception when it cannot run any more."""
        self.refuse_fork()
        if self.state in (State.STARTING, State.RUNNING):
            return False
        if self.state is not State.CREATED:
            raise StateError(f"{self.what} was shut down; create a new one")
        self.state = State.STARTING
        self._pid = os.getpid()
        _live.add(self)
        return True

    def started(self, on_fork: Callable[[], None]) -> None:
        self.on_fork = on_fork
        self.state = State.RUNNING

    def failed(self) -> None:
        """start() did not succeed and may be tried again."""
        self.state = State.CREATED
        _live.discard(self)

    def end(self) -> bool:
        """False when there is nothing to stop."""
        if self.state is not State.RUNNING:
            if self.state is State.CREATED:
                self.state = State.STOPPED
            return False
        self.state = State.STOPPING
        return True

    def ended(self) -> None:
        self.state = State.STOPPED
        _live.discard(self)

    def check_running(self) -> None:
        self.refuse_fork()
        if self.state is not State.RUNNING:
            raise StateError(f"{self.what} is {self.state.value}; call start() first")

    def refuse_fork(self) -> None:
        if self.state is State.FORKED or (
            self.state is not State.CREATED and self._pid != os.getpid()
        ):
            raise ForkError(
                f"{self.what} was started in process {self._pid} and does not work in process "
                f"{os.getpid()}, which was forked from it: threads and connections are not "
                "copied. Make and start it in the child, or start processes with 'spawn'"
            )


def _after_fork() -> None:
    """In the child: nothing that was started works here, and that must not go unseen."""
    for one in list(_live):
        if one.state in (State.STARTING, State.RUNNING, State.STOPPING):
            one.state = State.FORKED
            if one.on_fork is not None:
                one.on_fork()
    _live.clear()


os.register_at_fork(after_in_child=_after_fork)


T = TypeVar("T")


class LoopThread:
    """Runs one event loop until it is stopped."""

    def __init__(self, name: str) -> None:
        self.loop = uvloop.new_event_loop()
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Let a coroutine run; its result comes later."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for a coroutine from another thread."""
        if self._thread.ident == get_ident():
            work.close()
            raise StateError("this call would wait for its own thread; call it from another one")
        return self.submit(work).result()

    def stop(self) -> None:
        if self.loop.is_closed():
            return
        self.loop.call_soon_threadsafe(self.loop.stop)
        if self._thread.ident != get_ident():
            self._thread.join()


class Client(ABC):
    """A producer or consumer without its way to wait."""

    _life: Lifecycle

    @abstractmethod
    async def _open(self, loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
        """Connect; returns what a forked child has to call."""

    @abstractmethod
    async def _close(self) -> None: ...

    @abstractmethod
    async def _abort(self) -> None:
        """start() has failed: leave nothing behind."""


class BlockingClient(Client):
    """start() and shutdown() block; a thread with an event loop does the network."""

    _thread: LoopThread | None = None

    def start(self) -> None:
        """Connect; raises the reason when that fails. Twice = no effect."""
        with self._life.lock:
            if not self._life.begin():
                return
            thread = self._thread = LoopThread(self._life.thread_name)
            try:
                on_fork = thread.run(self._open(thread.loop))
            except BaseException:
                thread.run(self._abort())
                thread.stop()
                self._life.failed()
                raise
            self._life.started(on_fork)

    def shutdown(self) -> None:
        """Finish what is under way, then disconnect. Twice = no effect."""
        with self._life.lock:
            if not self._life.end():
                return
            assert self._thread is not None
            self._drain()
            self._thread.run(self._close())
            self._thread.stop()
            self._stop_threads()
            self._life.ended()

    def _drain(self) -> None:
        """Wait for what is under way."""

    def _stop_threads(self) -> None:
        """Stop threads besides that of the loop."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()


class AsyncClient(Client):
    """start() and shutdown() are awaited; everything happens on the loop of start()."""

    async def start(self) -> None:
        """Connect; raises the reason when that fails. Twice = no effect."""
        if not self._life.begin():
            return
        try:
            on_fork = await self._open(asyncio.get_running_loop())
        except BaseException:
            await self._abort()
            self._life.failed()
            raise
        self._life.started(on_fork)

    async def shutdown(self) -> None:
        """Finish what is under way, then disconnect. Twice = no effect."""
        if not self._life.end():
            return
        await self._close()
        self._life.ended()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shutdown()
