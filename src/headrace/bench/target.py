"""What the measurements need to know of a broker, and the result of one measurement."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.errors import BrokerError


class MeasureError(BrokerError):
    """The figure does not exist; the case is reported as failed with this text."""


class AmqpAddress(NamedTuple):
    """Where a broker listens, and how to log in."""

    host: str
    port: int
    user: str = "guest"
    password: str = "guest"
    vhost: str = "/"


class Target:
    """A broker that can be measured. `start` and `stop` come in pairs and may be repeated."""

    name = ""
    address: AmqpAddress
    generator_cores: Collection[int] = ()
    """Cores the generator must keep to; empty means all."""
    restartable = True
    """Whether a fresh instance can be had, as memory figures need."""

    @property
    def pids(self) -> list[int]:
        """The broker's processes; empty when they cannot be seen."""
        raise NotImplementedError

    def start(self) -> float:
        """Seconds until the broker was ready."""
        return 0.0

    def stop(self) -> None:
        """End what `start` has started."""


@dataclass(frozen=True, slots=True)
class Timing:
    warmup: float = 0.5
    seconds: float = 4.0


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement. `value` is what the ratio is made of; its unit depends on the case.

    `other_cores` is what neither the broker nor the generator used: a busy machine spoils rates.
    """

    value: float
    cpu_us: float | None = None
    broker_cores: float | None = None
    generator_cores: float | None = None
    other_cores: float | None = None
    details: dict[str, float] = field(default_factory=dict)

    def get(self, name: str) -> float | None:
        """A field, or one of the details."""
        found: float | None = self.details.get(name, getattr(self, name, None))
        return found
