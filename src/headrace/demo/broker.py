"""The broker of the demonstration: a process of its own, on a free port, in a directory that goes.

It is stopped by its process id; nothing else on the machine is touched.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import headrace
from headrace.errors import BrokerError

LISTENERS = ("amqp", "native", "namesrv", "remoting", "http")
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_RANGE = 10_000
_START_SECONDS = 15.0
_STOP_SECONDS = 10.0


class DemoBroker:
    """Starts when made; call stop(), or leave it running and print its address."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="headrace-demo-"))
        self._ready = self.directory / "ready.json"
        self._output = self.directory / "output.txt"
        self._process: subprocess.Popen[bytes] | None = None
        try:
            with _undisturbed():
                self._process = self._launch(lasting_ports())
            self.ports = self._wait_until_ready(self._process)
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.ports['amqp']}/%2F"

    @property
    def native_port(self) -> int:
        return self.ports["native"]

    @property
    def native_url(self) -> str:
        return f"headrace://127.0.0.1:{self.native_port}"

    @property
    def namesrv_addr(self) -> str:
        """For clients of RocketMQ."""
        return f"127.0.0.1:{self.ports['namesrv']}"

    @property
    def page_url(self) -> str:
        return f"http://127.0.0.1:{self.ports['http']}/"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def stop(self) -> bool:
        """Ask it to stop, force it if it does not; True when it went by itself, with code 0."""
        code = end_process(self._process, _STOP_SECONDS) if self._process is not None else None
        shutil.rmtree(self.directory, ignore_errors=True)
        return code == 0

    def kill(self) -> None:
        """As a power cut for the process: SIGKILL, no chance to tidy up."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def restart(self) -> float:
        """Start again on the same directory and ports; returns how long it took."""
        begun = time.monotonic()
        self._ready.unlink(missing_ok=True)
        with _undisturbed():
            self._process = self._launch(self.ports)
        self._wait_until_ready(self._process)
        return time.monotonic() - begun

    def _launch(self, ports: Mapping[str, int]) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "headrace", "serve"]
        for name in LISTENERS:
            command += [f"--{name}-port", str(ports[name])]
        command += ["--data-dir", str(self.directory / "data"), "--ready-file", str(self._ready)]
        with self._output.open("wb") as output:
            return subprocess.Popen(
                command,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C ends the demo, which then stops the broker
            )

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> dict[str, int]:
        """The ports of its listeners."""
        deadline = time.monotonic() + _START_SECONDS
        while not self._ready.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                said = self._output.read_text(errors="replace").strip() or "nothing"
                raise BrokerError(f"the broker did not start; it said: {said}")
            time.sleep(0.005)
        ports = json.loads(self._ready.read_text())
        return {name: int(ports[name]) for name in LISTENERS}


def lasting_ports() -> dict[str, int]:
    """A free port for each listener, which it finds free again after it was killed.

    A port that the system hands out (0) may meanwhile belong to an outgoing connection,
    so these are below those; where that is not known, any will do.
    """
    try:
        end = int(_EPHEMERAL.read_text().split()[0])
    except (OSError, ValueError):
        return dict.fromkeys(LISTENERS, 0)
    candidates = iter(random.sample(range(max(1025, end - _RANGE), end), 200))
    free = (port for port in candidates if _is_free(port))
    return {name: next(free, 0) for name in LISTENERS}


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def environment() -> dict[str, str]:
    """For processes of the demonstration: this very package, without the user's settings."""
    plain = {key: value for key, value in os.environ.items() if not key.startswith("HEADRACE_")}
    root = str(Path(headrace.__file__).parents[1])
    path = os.pathsep.join(filter(None, [root, plain.get("PYTHONPATH")]))
    return {**plain, "PYTHONPATH": path}


def end_process(process: subprocess.Popen[Any], seconds: float) -> int:
    """SIGTERM, and after so many seconds SIGKILL; the exit status."""
    process.terminate()
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Signals wait for the end of the block: else a process half started would not be stopped."""
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
