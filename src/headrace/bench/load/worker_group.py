"""The generator's processes: forked, started together, watched, and always ended."""

from __future__ import annotations

import gc
import mmap
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Collection
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from multiprocessing.synchronize import Barrier

from headrace.bench.target import MeasureError
from headrace.errors import BrokerError

Role = Callable[[], Callable[[], None]]
"""Connects when called, and returns the loop to run once all roles are ready."""

_FORK = multiprocessing.get_context("fork")
_READY_SECONDS = 60
_STOP_SECONDS = 30


class WorkerGroup:
    """Use as a context manager: inside, every role is connected and running."""

    def __init__(self, board: SharedCounters, roles: list[Role], cores: Collection[int]) -> None:
        self._board = board
        self._barrier = _FORK.Barrier(len(roles) + 1)
        self._members: list[tuple[ForkProcess, Connection]] = []
        self._roles, self._cores = roles, cores

    def __enter__(self) -> WorkerGroup:
        for role in self._roles:
            inward, outward = _FORK.Pipe(duplex=False)
            arguments = (role, self._barrier, outward, self._cores)
            process = _FORK.Process(target=_work, args=arguments, daemon=True)
            process.start()
            outward.close()
            self._members.append((process, inward))
        try:
            self._barrier.wait(_READY_SECONDS)
        except BaseException as error:
            self._end()
            if isinstance(error, threading.BrokenBarrierError):
                self.check()
                raise MeasureError("the generator could not start in time") from None
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    @property
    def pids(self) -> list[int]:
        return [process.pid for process, _ in self._members if process.pid is not None]

    def check(self) -> None:
        """Raise what a member died of."""
        for process, inward in self._members:
            if inward.poll():
                try:
                    raise MeasureError(str(inward.recv()))
                except EOFError:
                    pass
            if process.exitcode:
                raise MeasureError(f"a generator process ended with code {process.exitcode}")

    def rest(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Let the members work for a time, or until a condition holds; raises when one fails."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not until():
            self.check()
            time.sleep(min(left, 0.02))
        self.check()

    def _end(self) -> None:
        self._board.stop()
        deadline = time.monotonic() + _STOP_SECONDS
        for process, _ in self._members:
            process.join(max(0.1, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()


def _work(role: Role, barrier: Barrier, outward: Connection, cores: Collection[int]) -> None:
    """Body of a member. The runner alone decides about Ctrl-C; it then stops the members."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.disable()
    if cores:
        os.sched_setaffinity(0, cores)
    try:
        loop = role()
        barrier.wait(_READY_SECONDS)
        loop()
    except threading.BrokenBarrierError:
        pass  # another member failed first and has said why
    except Exception as error:  # reported to the runner, which fails the case with this text
        barrier.abort()
        outward.send(
            f"{error}" if isinstance(error, BrokerError) else f"{type(error).__name__}: {error}"
        )


class SharedCounters:
    """Unsigned 64-bit slots in shared memory: a stop flag, sent, confirmed, received, samples.

    Made before the processes are forked. A store of an aligned slot is one instruction, so a
    reader sees the old or the new value and nothing in between.
    """

    def __init__(self, streams: int, consumers: int, samples: int = 0) -> None:
        slots = 1 + 2 * streams + consumers + samples
        self._map = mmap.mmap(-1, slots * 8)
        view = memoryview(self._map).cast("B").cast("Q")
        self._flag = view[0:1]
        self.sent = view[1 : 1 + streams]
        self.confirmed = view[1 + streams : 1 + 2 * streams]
        self.received = view[1 + 2 * streams : 1 + 2 * streams + consumers]
        self.samples = view[1 + 2 * streams + consumers :]

    @property
    def stopped(self) -> bool:
        return self._flag[0] != 0

    def stop(self) -> None:
        self._flag[0] = 1
