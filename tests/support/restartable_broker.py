"""A broker that keeps its native port over restarts."""

from __future__ import annotations

from pathlib import Path

from headrace.demo.broker import lasting_ports
from support import brokers
from support.brokers import Broker


class Restartable:
    """One data directory, one port, and the broker of the moment."""

    def __init__(self, directory: Path) -> None:
        self.port = lasting_ports()["native"]
        self.broker: Broker | None = None
        self._directory = directory

    def start(self) -> None:
        self.broker = brokers.start(self._directory, "--native-port", str(self.port))
        self.port = self.broker.ports["native"]

    def kill(self) -> None:
        assert self.broker is not None
        self.broker.kill()

    def crash(self) -> None:
        """Kill -9, and start again."""
        self.kill()
        self.start()

    def restart(self) -> None:
        self.stop()
        self.start()

    def stop(self) -> None:
        if self.broker is not None:
            self.broker.stop()
