"""The thread with the event loop, for clients that block."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Coroutine
from threading import Thread, get_ident
from typing import Any, TypeVar

import uvloop

from headrace.rocketmq.errors import StateError

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
