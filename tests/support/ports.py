"""Ports for servers of tests."""

from __future__ import annotations

import random
import socket
from contextlib import suppress


def free_port() -> int:
    """A port of 127.0.0.1 on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def lasting_port() -> int:
    """A free one that no outgoing connection gets: a server is ended and started again on it."""
    while True:
        port = random.randrange(15_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
