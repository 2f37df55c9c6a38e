"""Starts and stops the brokers to measure: Headrace, a private RabbitMQ, or any by address."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Self

from headrace.bench import processes
from headrace.bench.load.amqp_connection import AmqpConnection
from headrace.bench.target import AmqpAddress, MeasureError, Target
from headrace.errors import BrokerError
from headrace.testing.broker_process import own_environment

_START_SECONDS = 90
_STOP_SECONDS = 30
_LISTENERS = ("amqp", "native", "namesrv", "remoting", "http")
_PLACES = ("/usr/lib/rabbitmq/bin/rabbitmq-server",)


class RemoteBroker(Target):
    """A broker that runs already; it is measured and left alone."""

    restartable = False

    def __init__(self, address: AmqpAddress) -> None:
        self.name = f"{address.host}:{address.port}"
        self.address = address

    @property
    def pids(self) -> list[int]:
        local = self.address[0] in ("127.0.0.1", "localhost", "::1")
        pid = processes.find_listener(self.address[1]) if local else None
        return processes.tree(pid) if pid else []


class StartedBroker(Target):
    """A broker run by the bench in a directory of its own, which goes when it stops."""

    def __init__(self, parent: Path) -> None:
        self._parent = parent
        self._process: subprocess.Popen[bytes] | None = None
        self._home: Path | None = None

    @property
    def pids(self) -> list[int]:
        return processes.tree(self._process.pid) if self._process else []

    def start(self) -> float:
        self._home = Path(tempfile.mkdtemp(prefix="headrace-bench-", dir=self._parent))
        begun = time.monotonic()
        try:
            self._launch(self._home)
        except BaseException:
            self.stop()
            raise
        return time.monotonic() - begun

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends the process tree by its ids: asked first, then forced."""
        if self._process:
            pids = processes.tree(self._process.pid)
            self._ask_to_stop(self._process)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_SECONDS)
            if self._process.poll() is None:
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                self._process.wait()
            self._process = None
        if self._home:
            shutil.rmtree(self._home, ignore_errors=True)
            self._home = None

    def _launch(self, home: Path) -> None:
        raise NotImplementedError

    def _ask_to_stop(self, process: subprocess.Popen[bytes]) -> None:
        process.terminate()

    def _run(self, command: list[str], home: Path, environment: dict[str, str]) -> None:
        """Start in a session of its own, so that Ctrl-C reaches the bench and not the broker."""
        with open(home / "output.log", "wb") as output:
            self._process = subprocess.Popen(
                command,
                cwd=home,
                env=os.environ | environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _wait(self, ready: Callable[[], bool], home: Path) -> None:
        end = time.monotonic() + _START_SECONDS
        while not ready():
            code = self._process.poll() if self._process else 0
            if code is not None or time.monotonic() > end:
                tail = (home / "output.log").read_text(errors="replace").strip()[-400:]
                raise MeasureError(f"{self.name} did not start: {' '.join(tail.split())}")
            time.sleep(0.005)


class HeadraceBroker(StartedBroker):
    """`headrace serve` on free ports. Pinned to the first core when the generator has the last."""

    name = "headrace"

    def __init__(self, parent: Path, python: str, *, pin: bool) -> None:
        super().__init__(parent)
        self._python = python
        cores = sorted(os.sched_getaffinity(0))
        self._cores = {cores[0]} if pin and len(cores) > 1 else set()
        self.generator_cores = {cores[-1]} if self._cores else ()
        self.ports: dict[str, int] = {}

    @property
    def native_port(self) -> int:
        return self.ports["native"]

    def _launch(self, home: Path) -> None:
        ready = home / "ready.json"
        command = [self._python, "-m", "headrace", "serve", "--data-dir", str(home / "data")]
        for name in _LISTENERS:
            command += [f"--{name}-port", "0"]
        with _on_cores(self._cores):
            self._run([*command, "--ready-file", str(ready)], home, search_path())
        self._wait(ready.exists, home)
        self.ports = json.loads(ready.read_text())
        self.address = AmqpAddress("127.0.0.1", self.ports["amqp"])


class RabbitMqBroker(StartedBroker):
    """A private node: own directory, own ports, own port mapper; all cores."""

    name = "rabbitmq"

    def __init__(self, parent: Path, program: str) -> None:
        super().__init__(parent)
        self._program = program
        self._mapper: subprocess.Popen[bytes] | None = None

    def _launch(self, home: Path) -> None:
        port, distribution, mapper = free_ports(3)
        self.address = AmqpAddress("127.0.0.1", port)
        if epmd := shutil.which("epmd"):  # ours, so that none is left behind
            command = [epmd, "-address", "127.0.0.1", "-port", str(mapper)]
            self._mapper = subprocess.Popen(command, start_new_session=True)
        (home / "rabbitmq.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{port}\n")
        (home / "enabled_plugins").write_text("[].\n")
        self._run([self._program], home, self._environment(home, distribution, mapper))
        self._wait(lambda: _answers(self.address), home)

    def _environment(self, home: Path, distribution: int, mapper: int) -> dict[str, str]:
        loopback = "-kernel inet_dist_use_interface {127,0,0,1}"
        found = {
            "HOME": str(home),
            "RABBITMQ_NODENAME": f"headrace-bench-{os.getpid()}-{self.address.port}@localhost",
            "RABBITMQ_MNESIA_BASE": str(home / "mnesia"),
            "RABBITMQ_LOG_BASE": str(home / "log"),
            "RABBITMQ_CONFIG_FILE": str(home / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "enabled_plugins"),
            "RABBITMQ_PID_FILE": str(home / "pid"),
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": loopback,
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }
        if self._mapper:
            found["ERL_EPMD_PORT"] = str(mapper)
        return found

    def _ask_to_stop(self, process: subprocess.Popen[bytes]) -> None:
        """The virtual machine stops in order on SIGTERM; the shell around it may not pass it on."""
        pid_file = self._home / "pid" if self._home else None
        try:
            pid = int(pid_file.read_text()) if pid_file else process.pid
            os.kill(pid if pid in self.pids else process.pid, signal.SIGTERM)
        except (OSError, ValueError):
            process.terminate()

    def stop(self) -> None:
        super().stop()
        if self._mapper:
            self._mapper.terminate()
            self._mapper.wait()
            self._mapper = None


def find_rabbitmq() -> str | None:
    """The server's start script, if RabbitMQ is installed."""
    for place in _PLACES:
        if os.access(place, os.X_OK):
            return place
    return shutil.which("rabbitmq-server")


def search_path() -> dict[str, str]:
    """Environment in which any interpreter finds this very package."""
    return {"PYTHONPATH": own_environment()["PYTHONPATH"]}


def free_ports(count: int) -> list[int]:
    """Ports without a listener at this moment."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _answers(address: AmqpAddress) -> bool:
    """Whether a whole handshake succeeds: an open port alone may be a broker still booting."""
    try:
        with AmqpConnection(address):
            return True
    except (OSError, BrokerError):
        return False


@contextlib.contextmanager
def _on_cores(cores: Collection[int]) -> Iterator[None]:
    """Children started inside inherit these cores, with all their threads."""
    before = os.sched_getaffinity(0)
    if cores:
        os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
