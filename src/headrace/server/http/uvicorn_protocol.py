"""uvicorn's HTTP protocol with limits on connections that send no request.

Imported late, by the listener: this brings in Starlette, uvicorn and all routes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from uvicorn.config import Config as UvicornConfig
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from headrace.bulk.fetch_pool import FetchPool
from headrace.config import Config
from headrace.core.broker import Broker
from headrace.server import process
from headrace.server.http.app import Application
from headrace.server.http.context import ManagementContext
from headrace.server.http.sampler import Sampler
from headrace.server.listener import HandshakeLimiter, descriptor_of

KEEP_ALIVE_SECONDS = 75
MAX_CONNECTIONS = 1000
MAX_PER_ADDRESS = 250  # so that one address, guessing passwords, say, leaves room for others
MAX_HEAD = 32 * 1024


class GuardedProtocol(H11Protocol):
    """Closes a connection that does not complete the head of a request in time."""

    limiter: HandshakeLimiter  # of connections without a complete request
    connection_limiter: HandshakeLimiter  # of all connections
    _is_in = False
    _waits = False
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        why = process.descriptor_refusal(descriptor_of(transport), is_http=True)
        if why is not None:
            self.connection_limiter.log_refusal(f"from {self._address} for HTTP", why)
            transport.abort()
            return
        self._is_in = self.connection_limiter.enter(self._address, self)
        self._waits = self._is_in and self.limiter.enter(self._address, self, transport.abort)
        if not self._waits:
            self.connection_limiter.log_refusal(f"from {self._address} for HTTP")
            transport.abort()
            return
        self._await_head()

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing() and self._deadline is None:
            self._await_head(KEEP_ALIVE_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if self._is_in:
            self._is_in = False
            self.connection_limiter.leave(self._address, self)
        super().connection_lost(exc)

    def _await_head(self, seconds: float | None = None) -> None:
        seconds = self.limiter.handshake_seconds if seconds is None else seconds
        self._deadline = self.loop.call_later(seconds, self._time_out)

    def _time_out(self) -> None:
        self._deadline = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if self._waits:
            self._waits = False
            self.limiter.leave(self._address, self)


def assemble(
    broker: Broker,
    config: Config,
    ports: Mapping[str, int],
    limiter: HandshakeLimiter,
    fetches: FetchPool,
) -> tuple[ManagementContext, ServerState, Callable[[], asyncio.Protocol]]:
    """Everything that answers requests: the shared part, uvicorn's state, a protocol factory."""
    management = ManagementContext(broker, config, ports, Sampler(broker), fetches)
    application: Any = Application(management)
    settings = UvicornConfig(
        application,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        limit_concurrency=MAX_CONNECTIONS,
        h11_max_incomplete_event_size=MAX_HEAD,
        proxy_headers=False,
    )
    settings.load()
    state = ServerState()
    connection_limiter = HandshakeLimiter(limiter.handshake_seconds, MAX_PER_ADDRESS)
    kind = type(
        "GuardedProtocol",
        (GuardedProtocol,),
        {"limiter": limiter, "connection_limiter": connection_limiter},
    )
    return management, state, lambda: kind(settings, state, {})
