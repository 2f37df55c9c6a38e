"""What the kernel says of a process."""

from __future__ import annotations

from pathlib import Path


def is_running(pid: int) -> bool:
    return _state(pid) not in ("", "Z")  # Z: nobody has waited for it yet


def is_stopped(pid: int) -> bool:
    """By SIGSTOP."""
    return _state(pid) == "T"


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""
