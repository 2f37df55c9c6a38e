"""What a running pipeline says of itself: a small file, for `headrace pipeline list`."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

STATE_VARIABLE = "HEADRACE_STATE_DIR"
State = dict[str, object]


def state_directory(given: Path | None, environ: Mapping[str, str]) -> Path:
    """From the flag, HEADRACE_STATE_DIR, XDG_STATE_HOME, or ~/.local/state/headrace."""
    if given is not None:
        return given.resolve()
    if STATE_VARIABLE in environ:
        return Path(environ[STATE_VARIABLE]).resolve()
    base = environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "headrace"


class StateFile:
    """Written whole or not at all."""

    def __init__(self, directory: Path, name: str) -> None:
        self.path = directory / "pipelines" / f"{name}.json"

    def write(self, state: State) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_suffix(f".{os.getpid()}.tmp")
        beside.write_text(json.dumps(state, default=str), "utf-8")
        beside.replace(self.path)


def all_states(directory: Path) -> Iterator[State]:
    """Of all pipelines that ran with this directory; one whose process is gone has died."""
    for file in sorted((directory / "pipelines").glob("*.json")):
        try:
            state: State = json.loads(file.read_text("utf-8"))
        except (OSError, ValueError):
            continue
        if state.get("state") in ("starting", "running", "stopping") and not _lives(state):
            state["state"] = "died"
        yield state


def _lives(state: State) -> bool:
    if state.get("host") != socket.gethostname():
        return True  # nobody can say from here
    try:
        os.kill(int(str(state.get("pid", 0))), 0)
    except (OSError, ValueError):
        return False
    return True
