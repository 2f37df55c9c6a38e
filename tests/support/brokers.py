"""A broker as a process of its own, for tests that talk to it over sockets."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import headrace
from headrace.testing import wait_for
from support.fork_server import COMMAND, ForkingPopen

# Whichever headrace the tests import is the one that is started.
_IMPORT_ROOT = str(Path(headrace.__file__).parents[1])


@dataclass
class Broker:
    """Where a broker is, and the means to stop it."""

    amqp_port: int
    host: str = "127.0.0.1"
    pid: int | None = None
    ports: dict[str, int] = field(default_factory=dict)
    is_reference: bool = False
    """True when it is another product, run to check the tests themselves."""
    process: subprocess.Popen[bytes] | None = None
    output: Path | None = None

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@{self.host}:{self.amqp_port}/%2F"

    @property
    def native_port(self) -> int:
        return self.ports["native"]

    def log(self) -> str:
        """What the process wrote to stdout and stderr so far."""
        return self.output.read_text(errors="replace") if self.output else ""

    def kill(self) -> None:
        """End it the hard way (SIGKILL), as a crash would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(10)

    def stop(self, timeout: float = 20) -> None:
        """End it the clean way; fails unless it exits with 0. No-op when it was ended before."""
        if self.process is None or self.process.returncode is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"no stop within {timeout} s:\n{self.log()}") from None
        assert code == 0, f"exit code {code}:\n{self.log()}"


def start(directory: Path, *args: str, env: dict[str, str] | None = None) -> Broker:
    """Start `headrace serve` on a free port with its files in `directory`; wait until it is ready.

    `args` come last, so they may override the data directory, for example.
    """
    ready, output = directory / "ready.json", directory / "output.txt"
    ready.unlink(missing_ok=True)
    command = [*COMMAND, "serve"]
    command += ["--amqp-port", "0", "--native-port", "0", "--http-port", "0"]
    command += ["--namesrv-port", "0", "--remoting-port", "0"]
    command += ["--data-dir", str(directory / "data"), "--ready-file", str(ready), *args]
    with output.open("wb") as sink:
        environment = _environment(env or {})
        process = ForkingPopen(command, stdout=sink, stderr=sink, env=environment)

    try:
        # Patient: disks of shared machines stall for longer than a start takes.
        wait_for(lambda: ready.exists() or process.poll() is not None, timeout=60)
        assert process.returncode is None, f"exit code {process.returncode} at start"
        ports: dict[str, int] = json.loads(ready.read_text())
    except BaseException as error:
        process.kill()
        process.wait(10)
        if isinstance(error, AssertionError):
            raise AssertionError(f"{error}:\n{output.read_text(errors='replace')}") from None
        raise
    return Broker(
        amqp_port=ports.get("amqp", 0),
        pid=process.pid,
        ports=ports,
        process=process,
        output=output,
    )


def _environment(extra: dict[str, str]) -> dict[str, str]:
    # A developer's own HEADRACE_* settings are no part of a test.
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("HEADRACE_")}
    path = os.pathsep.join(filter(None, [_IMPORT_ROOT, inherited.get("PYTHONPATH")]))
    return {**inherited, "PYTHONPATH": path, **extra}
