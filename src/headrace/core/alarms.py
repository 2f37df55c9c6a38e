"""Memory, disk and descriptor alarms: publishers wait, consumers go on, none is hung up on."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path

from headrace.core.clock import Timers

logger = logging.getLogger(__name__)

CHECK_EVERY_MS = 500
CHECK_EVERY_BYTES = 16 << 20  # of input: a flood fills the memory faster than the time passes
_PAGE = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    """Memory of this process that is not backed by files."""
    with open("/proc/self/statm", "rb") as file:
        _, resident, shared, *_ = file.read().split()
    return (int(resident) - int(shared)) * _PAGE


def free_bytes(directory: Path) -> int:
    stat = os.statvfs(directory)
    return stat.f_bavail * stat.f_frsize


class Alarms:
    """Checks memory and disk, and notifies listeners when the state changes."""

    def __init__(
        self, timers: Timers, directory: Path, *, memory_limit: int, disk_free_limit: int
    ) -> None:
        self.memory_limit = memory_limit
        self.disk_free_limit = disk_free_limit
        self._directory = directory
        self._timers = timers
        self._listeners: set[Callable[[], None]] = set()
        self.memory = False
        self.disk = False
        self.files = False  # no descriptor is left: the log cannot open its next segment
        self._used = 0
        self._disk_full = False
        self._is_blind = False
        self.received = 0  # bytes from clients since the last look

    def disk_used(self) -> float:
        """The used share of the file system with the data directory, from 0 to 1."""
        stat = os.statvfs(self._directory)
        return 1 - stat.f_bavail / max(stat.f_blocks, 1)

    def set_disk_full(self, full: bool) -> None:
        """A write found no room, or found it again."""
        self._disk_full = full
        self.check()

    @property
    def reason(self) -> str | None:
        """The reason sent to blocked publishers; None when there is no alarm."""
        if not (self.memory or self.disk or self.files):
            return None
        return f"low on {' & '.join(self.low)}"

    @property
    def low(self) -> list[str]:
        """What there is an alarm for."""
        states = ("memory", self.memory), ("disk", self.disk), ("file descriptors", self.files)
        return [name for name, is_low in states if is_low]

    def subscribe(self, listener: Callable[[], None]) -> None:
        self._listeners.add(listener)

    def unsubscribe(self, listener: Callable[[], None]) -> None:
        self._listeners.discard(listener)

    def start(self) -> None:
        self._timers.after(CHECK_EVERY_MS, self.start)
        self.look()

    def look(self) -> None:
        """Check, unless that is impossible at present."""
        self.received = 0
        try:
            self.check()
            self._is_blind = False
        except OSError as error:  # the next look may see again
            if not self._is_blind:
                logger.error("alarm: cannot check memory and disk: %s", error)
            self._is_blind = True

    def measured(self) -> tuple[int, int]:
        """Memory used and disk space free, now."""
        return resident_bytes(), free_bytes(self._directory)

    def check(self) -> None:
        """Look once. A memory alarm ends only well below the limit, so that it does not flicker."""
        try:
            self._used, files = resident_bytes(), False
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            files = True  # neither can the log open a file; the memory counts as it was
        used, free = self._used, free_bytes(self._directory)
        limit = self.memory_limit * 0.95 if self.memory else self.memory_limit
        memory, disk = used > limit, self._disk_full or free < self.disk_free_limit
        if (memory, disk, files) == (self.memory, self.disk, self.files):
            return
        self.memory, self.disk, self.files = memory, disk, files
        self._log(used, free)
        for listener in tuple(self._listeners):
            listener()

    def _log(self, used: int, free: int) -> None:
        if self.reason is None:
            logger.warning("alarm: cleared; publishers continue")
            return
        logger.warning(
            "alarm: %s; publishers are blocked. Memory: %s used, limit %s. Disk: %s free, limit %s",
            self.reason, *map(_mib, (used, self.memory_limit, free, self.disk_free_limit)),
        )  # fmt: skip


def _mib(size: float) -> str:
    return f"{size / (1 << 20):,.0f} MiB"
