"""What all handlers share: broker, settings, sampler, page sessions, lag of the event loop."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.bulk.fetch_pool import FetchPool
from headrace.config import Config
from headrace.core.broker import Broker
from headrace.model.histogram import Histogram
from headrace.server.http.auth import PageSessions
from headrace.server.http.sampler import Sampler

# Tools decide by it what they may ask for; Headrace answers as that version does.
RABBITMQ_VERSION = "3.10.8"
LAG_SECONDS = 0.5  # between two measurements of the lag


class LagMeter:
    """How late the event loop is: by how much a timer fires after its time, twice a second."""

    def __init__(self) -> None:
        self.lag = Histogram()
        self.last = 0.0
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + LAG_SECONDS

        def fire() -> None:
            self.last = max(0.0, loop.time() - due)
            self.lag.observe(self.last)
            self.start()

        self._handle = loop.call_at(due, fire)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()


@dataclass(slots=True)
class ManagementContext:
    """One per broker."""

    broker: Broker
    config: Config
    ports: Mapping[str, int]
    sampler: Sampler
    fetches: FetchPool
    started: float = field(default_factory=time.time)
    sessions: PageSessions = field(default_factory=PageSessions)
    lag: LagMeter = field(default_factory=LagMeter)

    @property
    def node(self) -> str:
        return f"headrace@{socket.gethostname()}"

    @property
    def cluster_name(self) -> str:
        return self.broker.parameters.cluster_name(self.config.cluster_name)
