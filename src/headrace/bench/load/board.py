"""Counters shared by the generator's processes. One writer per slot, so no locks."""

from __future__ import annotations

import mmap


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
