"""The broker of the demonstration: a process of its own, on a free port, in a directory that goes.

It is stopped by its process id; nothing else on the machine is touched.
"""

from __future__ import annotations

import random
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.testing.broker_process import BrokerProcess, ProcessError

LISTENERS = ("amqp", "native", "namesrv", "remoting", "http")
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_RANGE = 10_000


class DemoBroker(BrokerProcess):
    """Starts when made; call end(), or leave it running and print its address."""

    def __init__(self) -> None:
        super().__init__(Path(tempfile.mkdtemp(prefix="headrace-demo-")))
        self.ports = lasting_ports()
        try:
            self.restart()
        except BaseException:
            self.end()
            raise

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/%2F"

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

    def restart(self) -> float:
        """Start on the same directory and ports; returns how long it took."""
        begun = time.monotonic()
        with _undisturbed():
            self.launch()
        self.wait_until_ready()
        return time.monotonic() - begun

    def end(self) -> bool:
        """Stop it and remove its files; True when it ended by itself, with code 0."""
        try:
            return self.process is not None and self.stop() == 0
        except ProcessError:
            return False
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _listeners(self) -> list[str]:
        return [word for name in LISTENERS for word in (f"--{name}-port", str(self.ports[name]))]


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
