"""The broker of the demonstration: a process of its own, on a free port, in a directory that goes.

It is stopped by its process id; nothing else on the machine is touched.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import headrace
from headrace.errors import BrokerError

_START_SECONDS = 15.0
_STOP_SECONDS = 10.0


class DemoBroker:
    """Starts when made; call stop(), or leave it running and tell its address."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="headrace-demo-"))
        self._ready = self.directory / "ready.json"
        self._output = self.directory / "output.txt"
        self._process: subprocess.Popen[bytes] | None = None
        try:
            with _undisturbed():
                self._process = self._launch(port=0)
            self.port = self._wait_until_ready(self._process)
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/%2F"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def stop(self) -> bool:
        """Ask it to stop, force it if it does not; True when it went by itself, with code 0."""
        code = _end(self._process) if self._process is not None else None
        shutil.rmtree(self.directory, ignore_errors=True)
        return code == 0

    def kill(self) -> None:
        """As a power cut for the process: SIGKILL, no chance to tidy up."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def restart(self) -> float:
        """Start again on the same directory and port; returns how long it took."""
        begun = time.monotonic()
        self._ready.unlink(missing_ok=True)
        with _undisturbed():
            self._process = self._launch(port=self.port)
        self._wait_until_ready(self._process)
        return time.monotonic() - begun

    def _launch(self, port: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "headrace", "serve", "--amqp-port", str(port)]
        command += ["--native-port", "0"]
        command += ["--data-dir", str(self.directory / "data"), "--ready-file", str(self._ready)]
        with self._output.open("wb") as output:
            return subprocess.Popen(
                command,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C ends the story, which then stops the broker
            )

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> int:
        deadline = time.monotonic() + _START_SECONDS
        while not self._ready.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                said = self._output.read_text(errors="replace").strip() or "nothing"
                raise BrokerError(f"the broker did not start; it said: {said}")
            time.sleep(0.005)
        port: int = json.loads(self._ready.read_text())["amqp"]
        return port


def environment() -> dict[str, str]:
    """For processes of the demonstration: this very package, and nobody's own settings."""
    plain = {key: value for key, value in os.environ.items() if not key.startswith("HEADRACE_")}
    root = str(Path(headrace.__file__).parents[1])
    path = os.pathsep.join(filter(None, [root, plain.get("PYTHONPATH")]))
    return {**plain, "PYTHONPATH": path}


def _end(process: subprocess.Popen[bytes]) -> int:
    process.terminate()
    try:
        return process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Signals wait for the end of the block: a process half started has nobody who stops it."""
    came: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda one, _: came.append(one)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
        for late in came:
            signal.raise_signal(late)
