"""Status of a running pipeline: a file for `headrace pipeline list`, reports to the broker."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from headrace.bulk.client import BulkConnection
from headrace.client.errors import HeadraceError
from headrace.spark.backends.broker import connect
from headrace.spark.errors import SparkError
from headrace.spark.options import DEFAULT_URL
from headrace.spark.pipelines.model import Pipeline

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


def write_state(directory: Path, name: str, state: State) -> None:
    """Into its file, whole or not at all."""
    path = directory / "pipelines" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(f".{os.getpid()}.tmp")
    beside.write_text(json.dumps(state, default=str), "utf-8")
    beside.replace(path)


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
        return True  # unknown from here
    try:
        os.kill(int(str(state.get("pid", 0))), 0)
    except (OSError, ValueError):
        return False
    return True


EVERY_SECONDS = 2.0


class Reporter:
    """Reports to the broker of the first source; one that is unreachable is retried later."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._name = pipeline.name
        urls = [source.options.get("url", DEFAULT_URL) for source in pipeline.sources]
        self._url = next((url for url in urls if url.startswith("headrace")), None)
        self._connection: BulkConnection | None = None
        self._next = 0.0

    def report(self, state: State, *, now: bool = False) -> None:
        """At most every two seconds, unless it cannot wait."""
        if self._url is None or (not now and time.monotonic() < self._next):
            return
        self._next = time.monotonic() + EVERY_SECONDS
        try:
            if self._connection is None:
                self._connection = connect(self._url)
            self._connection.report_pipeline(self._name, state)
        except (HeadraceError, SparkError, OSError):
            self.close()

    def close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
            self._connection = None
