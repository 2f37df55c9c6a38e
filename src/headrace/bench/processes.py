"""Processor time, memory and disk writes of a broker's process tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True, slots=True)
class Memory:
    """Megabytes (10^6). `anonymous` leaves out mapped files, `resident` has them."""

    anonymous: float
    resident: float


def tree(pid: int) -> list[int]:
    """The process and all its descendants."""
    try:
        return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    except psutil.NoSuchProcess:
        return [pid]


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system time used so far by these processes; dead ones count nothing."""
    return _sum(pids, lambda process: sum(process.cpu_times()[:2]))


def disk_bytes(pids: Iterable[int]) -> int:
    """Bytes these processes have caused to be written to disks; sockets do not count."""
    return int(_sum(pids, lambda process: process.io_counters().write_bytes))


def machine_seconds() -> float:
    """Time all cores together have been busy, waiting for disks not counted."""
    times = psutil.cpu_times()
    return times.user + times.nice + times.system + times.irq + times.softirq + times.steal


def memory(pids: Iterable[int]) -> Memory:
    """Memory of these processes together."""
    pids = list(pids)
    resident = _sum(pids, lambda process: process.memory_info().rss)
    mapped = _sum(pids, lambda process: process.memory_info().shared)
    return Memory((resident - mapped) / 1e6, resident / 1e6)


def find_listener(port: int) -> int | None:
    """The process listening on a local TCP port, if it is ours to see."""
    for process in psutil.process_iter():
        try:
            sockets = process.net_connections("tcp")
        except psutil.Error:  # it ended meanwhile, or belongs to another user
            continue
        if any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in sockets):
            return process.pid
    return None


def filesystem(path: Path) -> str:
    """Type of the filesystem that holds `path`: durable figures on tmpfs mean nothing."""
    mounts = psutil.disk_partitions(all=True)
    holding = [one for one in mounts if path.is_relative_to(one.mountpoint)]
    return max(holding, key=lambda one: len(one.mountpoint)).fstype if holding else "unknown"


def _sum(pids: Iterable[int], figure: Callable[[psutil.Process], float]) -> float:
    total = 0.0
    for pid in pids:
        try:
            total += figure(psutil.Process(pid))
        except psutil.Error:
            continue
    return total
