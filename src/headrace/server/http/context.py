"""What all requests share: the broker, its settings, the memory of its counters, the logins."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.config import Config
from headrace.core.broker import Broker
from headrace.server.http.lag import LagMeter
from headrace.server.http.sampler import Sampler
from headrace.server.http.sessions import PageSessions

# Tools decide by it what they may ask for; Headrace answers as that version does.
RABBITMQ_VERSION = "3.10.8"


@dataclass(slots=True)
class ManagementContext:
    """One per broker."""

    broker: Broker
    config: Config
    ports: Mapping[str, int]
    sampler: Sampler
    started: float = field(default_factory=time.time)
    sessions: PageSessions = field(default_factory=PageSessions)
    lag: LagMeter = field(default_factory=LagMeter)

    @property
    def node(self) -> str:
        return f"headrace@{socket.gethostname()}"

    @property
    def cluster_name(self) -> str:
        return self.broker.parameters.cluster_name(self.config.cluster_name)
