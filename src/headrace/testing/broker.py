"""Brokers for tests: a `headrace.Broker` with files of its own, a clock to move, and crashes."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

from headrace.core.broker import Broker as CoreBroker
from headrace.core.clock import VirtualClock
from headrace.errors import ConfigError
from headrace.option_types import MIB
from headrace.server.app import Server
from headrace.server.embedded import Broker, core
from headrace.store.log.commit_log import CommitLog

MEMORY = Path("/dev/shm")
# Containers often have 64 MB there; a broker that runs out of it would hold its publishers back.
MEMORY_WANTED = 256 * MIB

# A connection that a test forgot must not cost it seconds, nor a small log much space.
_DEFAULTS: Mapping[str, object] = {"shutdown_timeout": 0.5, "segment_size": MIB}


@contextmanager
def run_broker(
    *,
    clock: VirtualClock | Literal["virtual"] | None = None,
    data_dir: Path | str | None = None,
    sync: bool = True,
    **config: object,
) -> Iterator[RunningBroker]:
    """A broker for the time of a `with` block; ``config`` takes every setting of `headrace serve`.

    Ports not named are free ones, and so is the data directory, which is removed at the end; a
    ``data_dir`` that is given is kept. ``sync=False`` keeps the files in memory where the machine
    has a file system for that, so that no test waits for the disk.
    Raises what the start raises: ConfigError, StoreError.
    """
    if data_dir is not None and not sync:
        raise ConfigError("sync=False chooses the directory itself: it does not go with data_dir")
    with ExitStack() as stack:
        if data_dir is None:
            place = None if sync else _memory_directory()
            home = tempfile.TemporaryDirectory(prefix="headrace-", dir=place)
            data_dir = Path(stack.enter_context(home)) / "data"
        chosen = VirtualClock() if clock == "virtual" else clock
        yield stack.enter_context(RunningBroker(data_dir, chosen, **{**_DEFAULTS, **config}))


class RunningBroker(Broker):
    """What `run_broker()` yields."""

    clock: VirtualClock | None

    def __init__(
        self, data_dir: Path | str, clock: VirtualClock | None, **settings: object
    ) -> None:
        super().__init__(data_dir, **settings)
        self.clock = clock

    def advance(self, seconds: float) -> None:
        """Let time pass on the virtual clock.

        Returns when all that fell due has been done, stored and sent. Whatever clients do in
        answer comes afterwards: wait_for() it.
        """
        clock = self.clock
        if clock is None:
            raise RuntimeError("advance() needs a clock to move: run_broker(clock='virtual')")
        if seconds < 0:
            raise ValueError("time does not go back")

        async def advance(server: Server) -> None:
            pass_time(core(server), clock, round(seconds * 1000))
            await settle(core(server))

        self._running().call(advance)

    def crash(self) -> None:
        """End it as `kill -9` would, at a moment when the disk was idle; start() comes next.

        Connections are cut at once. Messages that were not durable are lost, those
        delivered and not acknowledged are ready again, and stored messages are marked redelivered.
        """
        remains = Path(tempfile.mkdtemp(prefix="crash-", dir=self.data_dir.parent))
        try:
            self._running().call(lambda server: leave_remains(server, remains / "data"))
            self.stop()
            # The stopped broker has tidied up behind itself; what counts is what it left before.
            shutil.rmtree(self.data_dir)
            (remains / "data").rename(self.data_dir)
        finally:
            shutil.rmtree(remains)


# -- on the loop -------------------------------------------------------------------------------


def pass_time(broker: CoreBroker, clock: VirtualClock, ms: int) -> None:
    """From one moment at which something is due to the next.

    A message that expires into another queue has to arrive before time advances.
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


async def settle(broker: CoreBroker) -> None:
    """Wait until every change is stored and confirmed."""
    storage = broker.storage
    while not storage.has_failed:
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        broker.turn.at_end(lambda written=written: written.set_result(None))  # type: ignore[misc]
        await written
        log = storage.log
        busy = isinstance(log, CommitLog) and log.is_writing
        behind = log is not None and log.durable < log.end
        if not busy and not behind and storage.committed >= storage.issued:
            return
        await asyncio.sleep(0.001)


async def leave_remains(server: Server, copy: Path) -> None:
    """Copy the files as they are while the disk is idle; then cut every connection."""
    for transport in server._transports:
        transport.pause_reading("crash")
    await settle(core(server))
    shutil.copytree(server.config.data_dir, copy)
    for transport in tuple(server._transports):
        transport.abort()


# -- files -------------------------------------------------------------------------------------


def _memory_directory() -> Path | None:
    """A file system in memory with enough room, or None."""
    try:
        return MEMORY if shutil.disk_usage(MEMORY).free >= MEMORY_WANTED else None
    except OSError:
        return None
