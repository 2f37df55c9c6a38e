"""What drivers and workers have started, found in /proc."""

from __future__ import annotations

from pathlib import Path

EXECUTOR = b"CoarseGrainedExecutorBackend"


def java_of(pid: int) -> list[int]:
    """The Java of a Python driver."""
    return [child for child in _descendants(pid) if b"java" in _program(child)]


def executors_of(pid: int) -> list[int]:
    """Those that a worker runs."""
    return [
        child
        for child in _descendants(pid)
        if EXECUTOR in _command(child) and b"java" in _program(child)
    ]


def _program(pid: int) -> bytes:
    return _command(pid).partition(b"\0")[0]


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    waiting = [pid]
    while waiting:
        children = _children(waiting.pop())
        found += children
        waiting += children
    return found


def _children(pid: int) -> list[int]:
    """Of all its threads: Java starts processes from any of them."""
    found: list[int] = []
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, thread.read_text().split())
        except OSError:
            continue  # it ended meanwhile
    return found


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
