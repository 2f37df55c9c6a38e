"""What /proc says about a broker: processor time and memory of its process tree."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_LISTEN = "0A"


@dataclass(frozen=True, slots=True)
class Memory:
    """Megabytes (10^6). `anonymous` leaves out mapped files, `resident` has them."""

    anonymous: float
    resident: float


def tree(pid: int) -> list[int]:
    """The process and all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        found.append(todo.pop())
        todo.extend(children.get(found[-1], ()))
    return found


def cpu_seconds(pids: list[int]) -> float:
    """User and system time used so far by these processes; dead ones count nothing."""
    ticks = 0
    for pid in pids:
        if fields := _stat(pid):
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def disk_bytes(pids: list[int]) -> int:
    """Bytes these processes have caused to be written to disks; sockets do not count."""
    total = 0
    for pid in pids:
        for line in _text(_PROC / str(pid) / "io").splitlines():
            if line.startswith("write_bytes:"):
                total += int(line.split()[1])
    return total


def machine_seconds() -> float:
    """Time all cores together have been busy, waiting for disks not counted."""
    first = _text(_PROC / "stat").partition("\n")[0].split()[1:9]
    ticks = [int(word) for word in first]  # user nice system idle iowait irq softirq steal
    return (sum(ticks) - sum(ticks[3:5])) / os.sysconf("SC_CLK_TCK")


def memory(pids: list[int]) -> Memory:
    """Memory of these processes together."""
    total = {"RssAnon:": 0, "VmRSS:": 0}
    for pid in pids:
        for line in _text(_PROC / str(pid) / "status").splitlines():
            name, _, rest = line.partition("\t")
            if name in total:
                total[name] += int(rest.split()[0])
    return Memory(total["RssAnon:"] * 1024 / 1e6, total["VmRSS:"] * 1024 / 1e6)


def find_listener(port: int) -> int | None:
    """The process listening on a local TCP port, if it is ours to see."""
    wanted = set()
    for name in ("tcp", "tcp6"):
        for line in _text(_PROC / "net" / name).splitlines()[1:]:
            words = line.split()
            if words[3] == _LISTEN and int(words[1].rpartition(":")[2], 16) == port:
                wanted.add(f"socket:[{words[9]}]")
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and wanted & _descriptors(entry):
            return int(entry.name)
    return None


def filesystem(path: Path) -> str:
    """Type of the filesystem that holds `path`: durable figures on tmpfs mean nothing."""
    best, kind = "", "unknown"
    for line in _text(_PROC / "mounts").splitlines():
        mount, found = line.split()[1:3]
        if path.is_relative_to(mount) and len(mount) >= len(best):
            best, kind = mount, found
    return kind


def _descriptors(entry: Path) -> set[str]:
    found = set()
    try:
        for descriptor in (entry / "fd").iterdir():
            found.add(os.readlink(descriptor))
    except OSError:  # gone meanwhile, or another user's
        return found
    return found


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat after the name: [0] state, [1] parent, [11] utime, [12] stime."""
    return _text(_PROC / str(pid) / "stat").rpartition(")")[2].split()


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
