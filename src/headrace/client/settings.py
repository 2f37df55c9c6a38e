"""How a connection behaves: address, login, time-outs, reconnection. Read by both clients."""

from __future__ import annotations

import ssl
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from headrace.retry import RetryPolicy
from headrace.urls import Host, format_hosts, hosts_of, parse_broker_url


class ExchangeType(StrEnum):
    """The kinds of exchange; their values are accepted as well."""

    DIRECT = "direct"
    FANOUT = "fanout"
    TOPIC = "topic"
    HEADERS = "headers"


class OnFailure(StrEnum):
    """What becomes of a message whose callback raised an exception."""

    REQUEUE = "requeue"
    """Back to the queue, for another attempt."""
    DROP = "drop"
    """Given up: to the dead-letter exchange if the queue has one."""
    LEAVE = "leave"
    """Stays unacknowledged until the channel closes or the queue's time-out takes it back."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything but the first five fields has a default that suits most programs."""

    host: str = "127.0.0.1"
    """Or several, which are tried in turn: `h1:9090,h2`."""
    port: int = 9090
    user: str | None = "guest"
    """None: the one that the certificate of `tls` names; no password is sent then."""
    password: str = field(default="guest", repr=False)
    vhost: str = "/"
    connect_timeout: float = 10.0
    request_timeout: float = 30.0
    heartbeat: float | None = None
    """Seconds; None = what the broker proposes."""
    reconnect: bool = True
    reconnect_delay: float = 0.1
    reconnect_delay_max: float = 10.0
    retry_publishes: bool = False
    """Send publishes again that were not confirmed when the connection was lost: they arrive at
    least once. Otherwise they raise ConnectionClosed, and the program decides."""
    prefetch: int = 1000
    """For channels on which basic_qos() was not called; 0 = no limit."""
    callback_threads: int = 4
    on_failure: OnFailure = OnFailure.REQUEUE
    tls: bool | ssl.SSLContext = False
    """True: TLS, with the authorities that the machine trusts. A context: as it says."""

    @property
    def hosts(self) -> tuple[Host, ...]:
        return hosts_of(self.host, self.port)

    @property
    def where(self) -> str:
        """For messages."""
        return format_hosts(self.hosts)

    def tls_context(self) -> ssl.SSLContext | None:
        """None = plain."""
        if isinstance(self.tls, ssl.SSLContext):
            return self.tls
        return ssl.create_default_context() if self.tls else None

    def delays(self) -> Iterator[float]:
        """Pauses between attempts to connect: doubling, with jitter so that crowds spread."""
        first, longest = self.reconnect_delay, self.reconnect_delay_max
        return RetryPolicy(first_pause_s=first, max_pause_s=longest).pauses()


class HostRotation:
    """The hosts of a connection: one that fails is tried again after the others."""

    def __init__(self, settings: Settings) -> None:
        self._hosts = deque(settings.hosts)
        self._untried = len(self._hosts)
        self.connect_timeout = settings.connect_timeout / len(self._hosts)

    @property
    def current(self) -> Host:
        return self._hosts[0]

    def failed(self) -> None:
        self._hosts.rotate(-1)
        self._untried -= 1

    @property
    def are_left(self) -> bool:
        """Whether there is one that was never tried."""
        return self._untried > 0


def settings_of(url: str) -> Settings:
    """The settings in `headrace://user:password@host:port/vhost`; ValueError when it is not one."""
    found = parse_broker_url(url)
    password = "guest" if found.password is None else found.password
    return Settings(found.host, found.port, found.user, password, found.vhost, tls=found.tls)
