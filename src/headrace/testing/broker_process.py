"""A broker as a process of its own, on a directory that outlives it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Self

import headrace
from headrace.errors import BrokerError

START_SECONDS = 20.0
STOP_SECONDS = 15.0
SERVE = (sys.executable, "-m", "headrace", "serve")


class ProcessError(BrokerError):
    """The broker did not start, or did not end in time."""


class BrokerProcess:
    """One data directory, and the broker on it: started and ended as often as one likes."""

    popen: ClassVar[type[subprocess.Popen[bytes]]] = subprocess.Popen
    ports: Mapping[str, int]
    """Of the broker that was started last, by listener."""

    def __init__(
        self,
        directory: Path,
        *flags: str,
        env: Mapping[str, str] | None = None,
        command: Sequence[str] = SERVE,
    ) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.output = directory / "output.txt"
        self.process: subprocess.Popen[bytes] | None = None
        self._ready = directory / "ready.json"
        self._flags = flags
        self._env = dict(env or {})
        self._command = tuple(command)

    @property
    def port(self) -> int:
        """For AMQP."""
        return self.ports["amqp"]

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    # -- life -----------------------------------------------------------------------------------

    def start(self, **env: str) -> Self:
        """Start the broker and wait until it listens; ProcessError when it ends instead."""
        self.launch(**env)
        self.wait_until_ready()
        return self

    def wait_until_ready(self) -> None:
        """Until the process that was launched listens."""
        assert self.process is not None
        deadline = time.monotonic() + START_SECONDS
        while not self._ready.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise ProcessError(f"the broker did not start; it said: {self.last_words()}")
            time.sleep(0.005)
        self.ports = json.loads(self._ready.read_text())

    def launch(self, **env: str) -> subprocess.Popen[bytes]:
        """Start the process and return at once."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._ready.unlink(missing_ok=True)
        command = [*self._command, *self._listeners(), "--data-dir", str(self.data)]
        with self.output.open("ab") as output:
            self.process = self.popen(
                [*command, "--ready-file", str(self._ready), *self._flags],
                env={**own_environment(), **self._env, **env},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C ends the program, which then ends the broker
            )
        return self.process

    def _listeners(self) -> Sequence[str]:
        return "--amqp-port", "0", "--native-port", "0", "--no-http", "--no-remoting"

    def kill(self) -> None:
        """End it by SIGKILL, and return when it is gone. No-op when it is."""
        if self.process is not None:
            if self.process.poll() is None:
                self.process.kill()
            self.process.wait()

    def stop(self) -> int:
        """Ask it to stop; return the exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.wait(STOP_SECONDS)

    def wait(self, seconds: float) -> int:
        """The exit code; ProcessError when it does not end in time."""
        assert self.process is not None
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ProcessError(f"the broker did not end within {seconds:g} s") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()

    # -- what it said ---------------------------------------------------------------------------

    def log(self) -> str:
        """Everything that the brokers on this directory have written."""
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    def last_words(self) -> str:
        return " ".join(self.log()[-600:].split()) or "nothing"


def own_environment() -> dict[str, str]:
    """For programs that are to run this very package, without the user's settings."""
    plain = {key: value for key, value in os.environ.items() if not key.startswith("HEADRACE_")}
    root = str(Path(headrace.__file__).parents[1])
    path = os.pathsep.join(filter(None, [root, plain.get("PYTHONPATH")]))
    return {**plain, "PYTHONPATH": path}
