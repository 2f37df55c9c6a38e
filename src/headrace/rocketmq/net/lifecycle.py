"""Start once, stop once, not after a fork; the thread with the event loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import weakref
from collections.abc import Callable, Coroutine
from threading import RLock, Thread, get_ident
from typing import Any, TypeVar

import uvloop

from headrace.rocketmq.errors import ForkError, StateError
from headrace.rocketmq.metrics import State

logger = logging.getLogger(__name__)

_live: weakref.WeakSet[Lifecycle] = weakref.WeakSet()


class Lifecycle:
    """The state of one producer or consumer."""

    def __init__(self, what: str) -> None:
        self.what = what
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
            raise StateError(f"{self.what} was shut down; make a new one")
        self.state = State.STARTING
        self._pid = os.getpid()
        _live.add(self)
        return True

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

    def run(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Wait for a coroutine from another thread."""
        if self._thread.ident == get_ident():
            work.close()
            raise StateError("this call would wait for its own thread; call it from another one")
        future = self.submit(work)
        try:
            return future.result(timeout)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise

    def stop(self) -> None:
        if self.loop.is_closed():
            return
        self.loop.call_soon_threadsafe(self.loop.stop)
        if self._thread.ident != get_ident():
            self._thread.join()
