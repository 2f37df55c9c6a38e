"""What the kernel says of a process."""

from __future__ import annotations

from pathlib import Path


def is_running(pid: int) -> bool:
    return _state(pid) not in ("", "Z")  # Z: nobody has waited for it yet


def is_stopped(pid: int) -> bool:
    """By SIGSTOP."""
    return _state(pid) == "T"


def descendants(pid: int, word: bytes = b"") -> list[int]:
    """The processes that this one has started, and those that they have; with that argument."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            if word in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(child)
            found += descendants(child, word)
    return found


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""
