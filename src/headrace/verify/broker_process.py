"""The broker under test: a process of its own on a directory that outlives it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import headrace
from headrace.errors import BrokerError

START_SECONDS = 20.0
STOP_SECONDS = 15.0
SERVE = (sys.executable, "-m", "headrace", "serve")


class VerifyError(BrokerError):
    """The test itself could not be carried out; it says nothing about the broker's promises."""


class BrokerProcess:
    """One data directory, and the broker on it: started and ended as often as one likes."""

    popen: ClassVar[type[subprocess.Popen[bytes]]] = subprocess.Popen

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
        self.port = 0
        self.starts = 0
        self.process: subprocess.Popen[bytes] | None = None
        self._ready = directory / "ready.json"
        self._flags = flags
        self._env = dict(env or {})
        self._command = tuple(command)

    # -- life -----------------------------------------------------------------------------------

    def start(self, **env: str) -> BrokerProcess:
        """Start the broker and wait until it listens; VerifyError when it ends instead."""
        process = self.launch(**env)
        deadline = time.monotonic() + START_SECONDS
        while not self._ready.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise VerifyError(f"the broker did not start; it said: {self.last_words()}")
            time.sleep(0.005)
        self.port = json.loads(self._ready.read_text())["amqp"]
        return self

    def launch(self, **env: str) -> subprocess.Popen[bytes]:
        """Start the process and return at once."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._ready.unlink(missing_ok=True)
        command = [*self._command, "--amqp-port", "0", "--native-port", "0", "--no-http"]
        command += ["--no-remoting"]
        command += ["--data-dir", str(self.data), "--ready-file", str(self._ready), *self._flags]
        with self.output.open("ab") as output:
            self.process = self.popen(
                command,
                env=_environment({**self._env, **env}),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C ends the test, which then ends the broker
            )
        self.starts += 1
        return self.process

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

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
        """The exit code; VerifyError when it does not end in time."""
        assert self.process is not None
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise VerifyError(f"the broker did not end within {seconds:g} s") from None

    def __enter__(self) -> BrokerProcess:
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()

    # -- what it said ---------------------------------------------------------------------------

    def log(self) -> str:
        """Everything that the brokers on this directory have written."""
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    def last_words(self) -> str:
        return " ".join(self.log()[-600:].split()) or "nothing"


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    """This very package, without the user's settings."""
    plain = {key: value for key, value in os.environ.items() if not key.startswith("HEADRACE_")}
    root = str(Path(headrace.__file__).parents[1])
    path = os.pathsep.join(filter(None, [root, plain.get("PYTHONPATH")]))
    return {**plain, "PYTHONPATH": path, **extra}


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Poll; VerifyError naming ``what`` when it does not come true."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise VerifyError(f"{what}: not within {seconds:g} s")
        time.sleep(0.005)
