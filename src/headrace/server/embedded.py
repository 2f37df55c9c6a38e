"""One life of a broker in a thread: its event loop, and the work that is done on that loop.

Nothing but `Life.start`, `call` and `stop` may be used from other threads.
"""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

from headrace.config import Config
from headrace.core.broker import Broker
from headrace.core.clock import VirtualClock
from headrace.server.app import Server
from headrace.store.log.log import CommitLog

T = TypeVar("T")

START_SECONDS = 30.0
STOP_SECONDS = 15.0
CALL_SECONDS = 60.0


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class Life:
    """One life of a broker, from start to stop: a server, its loop, their thread."""

    def __init__(self, config: Config, clock: VirtualClock | None) -> None:
        self._config = config
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop
        self._started: Future[Server] = Future()
        self._error: BaseException | None = None
        # A daemon: a broker that does not stop must not keep pytest from ending.
        self._thread = threading.Thread(target=self._run, name="headrace-broker", daemon=True)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> Server:
        self._thread.start()
        try:
            return self._started.result(START_SECONDS)
        finally:
            if self._started.done() and self._started.exception() is not None:
                self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=_new_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            if self._started.done():
                self._error = error
            else:
                self._started.set_exception(error)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        server = Server(self._config, self._clock)
        try:
            await server.start()
            self._started.set_result(server)
            await server.stopped.wait()
        finally:
            await server.stop()
        if server.failure is not None:
            raise server.failure

    def call(self, function: Callable[[Server], Awaitable[T]]) -> T:
        """The result of ``function(server)``, run on the loop."""

        async def run() -> T:
            return await function(self._started.result())

        if not self.is_alive:
            raise RuntimeError("the broker has ended by itself") from self._error
        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(CALL_SECONDS)

    def stop(self) -> None:
        if self.is_alive:
            self._loop.call_soon_threadsafe(self._started.result().stopped.set)
            self._thread.join(STOP_SECONDS)
            if self.is_alive:
                raise TimeoutError(f"the broker did not stop within {STOP_SECONDS:g} s")
        if self._error is not None:
            raise self._error


# -- on the loop -------------------------------------------------------------------------------


def core(server: Server) -> Broker:
    assert server.broker is not None, "a server that was started has a broker"
    return server.broker


def pass_time(broker: Broker, clock: VirtualClock, ms: int) -> None:
    """From one moment at which something is due to the next.

    A message that expires into another queue has to be there before time goes on.
    """
    # Housekeeping twice a second would make a day cost nine; once at the end does the same.
    housekeeping = (broker.alarms.start, broker.storage.tidy)
    for _, _, timer in broker.timers._heap:
        if timer.callback in housekeeping:
            timer.cancel()
    end = clock.now_ms() + ms
    while clock._waiting and (due := clock._waiting[0][0]) <= end:
        clock.advance(max(0, due - clock.now_ms()))
        broker.turn.finish()
    clock.advance(end - clock.now_ms())
    for task in housekeeping:
        task()


async def settle(broker: Broker) -> None:
    """Until everything known is stored and told."""
    storage = broker.storage
    while not storage.has_failed:
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        broker.turn.at_end(lambda written=written: written.set_result(None))  # type: ignore[misc]
        await written
        journal = storage.journal
        busy = isinstance(journal, CommitLog) and journal.is_writing
        behind = journal is not None and journal.durable < journal.end
        if not busy and not behind and storage.committed >= storage.issued:
            return
        await asyncio.sleep(0.001)


async def leave_remains(server: Server, copy: Path) -> None:
    """Copy the files as they are while the disk is idle; then cut every connection."""
    for link in server._links:
        link.pause_reading("crash")
    await settle(core(server))
    shutil.copytree(server.config.data_dir, copy)
    for link in tuple(server._links):
        link.abort()
