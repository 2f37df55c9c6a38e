"""The HTTP listener: uvicorn's protocol on the broker's own event loop.

The port is open when start() returns. What has to be imported for it is imported in a thread
afterwards, so that it does not delay the broker; early callers wait in the socket's queue.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from headrace.bulk.fetch_pool import FetchPool
from headrace.config import Config
from headrace.core.broker import Broker
from headrace.errors import ConfigError
from headrace.server.listener import HandshakeLimiter, listening_socket

if TYPE_CHECKING:
    from headrace.server.http.context import ManagementContext

logger = logging.getLogger(__name__)

BACKLOG = 256
PACKAGES = ("orjson", "uvicorn")
STOP_SECONDS = 1.0


class HttpListener:
    """Starts and stops the HTTP side of a broker."""

    def __init__(
        self, broker: Broker, config: Config, ports: Mapping[str, int], fetches: FetchPool
    ) -> None:
        self._broker = broker
        self._config = config
        self._ports = ports
        self._fetches = fetches
        self._sockets: list[tuple[socket.socket, ssl.SSLContext | None]] = []
        self._opening: asyncio.Task[None] | None = None
        self._servers: list[asyncio.Server] = []
        self._state: Any = None  # uvicorn's: the open connections and running tasks
        self.management: ManagementContext | None = None

    def listen(self, name: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Open a port; returns its number."""
        opened = listening_socket(self._config.host, port, BACKLOG, name)
        self._sockets.append((opened, tls))
        number: int = opened.getsockname()[1]
        return number

    def open(self, on_failure: Callable[[Exception], None]) -> None:
        """Begin to answer as soon as everything is imported. ConfigError for a missing package."""
        for name in PACKAGES:
            if find_spec(name) is None:
                raise ConfigError(f"cannot serve HTTP: the package '{name}' is not installed")
        self._on_failure = on_failure
        self._opening = asyncio.get_running_loop().create_task(self._open(), name="http-listener")

    async def opened(self) -> None:
        """Return when requests are answered."""
        assert self._opening is not None
        await asyncio.shield(self._opening)

    async def _open(self) -> None:
        try:
            await self._assemble()
        except Exception as error:
            logger.critical(
                "cannot serve HTTP, the broker stops: %s: %s", type(error).__name__, error
            )
            self._close_sockets()
            self._on_failure(error)

    async def _assemble(self) -> None:
        loop = asyncio.get_running_loop()
        module = await loop.run_in_executor(
            None, import_module, "headrace.server.http.uvicorn_protocol"
        )
        limiter = HandshakeLimiter(
            self._config.handshake_timeout, self._config.max_unauthenticated_per_address
        )
        self.management, self._state, factory = module.assemble(
            self._broker, self._config, self._ports, limiter, self._fetches
        )
        self.management.sampler.start()
        self.management.lag.start()
        for opened, tls in self._sockets:
            patience = self._config.handshake_timeout if tls is not None else None
            server = await loop.create_server(
                factory, sock=opened, ssl=tls, backlog=BACKLOG, ssl_handshake_timeout=patience
            )
            self._servers.append(server)

    def _close_sockets(self) -> None:
        for server in self._servers:
            server.close()
        for opened, _ in self._sockets[len(self._servers) :]:
            opened.close()

    async def close(self) -> None:
        """Answer what was asked, a moment long, then hang up."""
        if self._opening is not None:
            await asyncio.gather(self._opening, return_exceptions=True)
        self._close_sockets()
        if self.management is not None:
            self.management.lag.stop()
            await self.management.sampler.stop()
        if self._state is None:
            return
        for connection in list(self._state.connections):
            connection.shutdown()
        if self._state.tasks:
            await asyncio.wait(set(self._state.tasks), timeout=STOP_SECONDS)
        for task in list(self._state.tasks):
            task.cancel()
        for connection in list(self._state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)
