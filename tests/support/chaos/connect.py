"""How chaos tests connect: by a fixture that closes what it has opened."""

from __future__ import annotations

from typing import Protocol

from headrace.testing.amqp_connection import RawConnection
from headrace.testing.broker_process import BrokerProcess


class Connect(Protocol):
    """A connection with channel 1 open."""

    def __call__(self, node: BrokerProcess, *, heartbeat: int = 0) -> RawConnection: ...
