"""The RocketMQ listeners: two ports that answer the same, in plain text or over TLS.

The ports are open when listen() returns. What has to be imported for them is imported in a thread
afterwards, so that it does not delay the broker; early callers wait in the socket's queue.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from headrace.config import Config
from headrace.core.broker import Broker
from headrace.server.listener import HandshakeLimiter, ServerTransport, listening_socket
from headrace.server.remoting.greeter import TlsSniffer

if TYPE_CHECKING:
    from headrace.server.tls import Certificates

logger = logging.getLogger(__name__)

BACKLOG = 1024
FRAME_SPARE = 1 << 20  # room for a header beside the largest body


class RemotingListener:
    """Starts and stops the RocketMQ side of a broker."""

    def __init__(
        self,
        broker: Broker,
        config: Config,
        links: set[ServerTransport],
        certificates: Certificates | None,
    ) -> None:
        self._broker = broker
        self._config = config
        self._links = links
        self._certificates = certificates
        self._sockets: list[socket.socket] = []
        self._opening: asyncio.Task[None] | None = None
        self._servers: list[asyncio.Server | TlsSniffer] = []

    def listen(self, name: str, port: int) -> int:
        """Open a port; returns its number."""
        opened = listening_socket(self._config.host, port, BACKLOG, name)
        self._sockets.append(opened)
        number: int = opened.getsockname()[1]
        return number

    def open(self, broker_port: int) -> None:
        """Begin to answer as soon as everything is imported."""
        opening = self._open(broker_port)
        self._opening = asyncio.get_running_loop().create_task(opening, name="remoting-door")

    async def opened(self) -> None:
        """Return when requests are answered."""
        assert self._opening is not None
        await asyncio.shield(self._opening)

    async def _open(self, broker_port: int) -> None:
        loop = asyncio.get_running_loop()
        place = "headrace.server.remoting"
        session = await loop.run_in_executor(None, import_module, f"{place}.session")
        state_module = import_module(f"{place}.state")
        config = self._config
        settings = state_module.RemotingSettings(
            user=config.rocketmq_user,
            advertise_host=config.advertise_host,
            auto_create=config.auto_create_topics,
            max_message=config.max_message_size,
            frame_max=config.max_message_size + FRAME_SPARE,
        )
        hub = state_module.RemotingState(self._broker, settings)
        hub.port = broker_port
        hub.start()
        for opened in self._sockets:
            gate = HandshakeLimiter(
                config.handshake_timeout, config.max_unauthenticated_per_address
            )

            def link(gate: HandshakeLimiter = gate) -> ServerTransport:
                return ServerTransport(
                    loop, gate, self._links, lambda peer: session.Session(hub, peer)
                )

            self._servers.append(await self._serve(opened, gate, link))

    async def _serve(
        self, opened: socket.socket, gate: HandshakeLimiter, link: Callable[[], ServerTransport]
    ) -> asyncio.Server | TlsSniffer:
        if self._certificates is None:
            loop = asyncio.get_running_loop()
            return await loop.create_server(link, sock=opened, backlog=BACKLOG)
        plain = self._config.remoting_tls == "optional"
        return TlsSniffer(opened, gate, link, self._certificates.context, plain=plain)

    async def close(self) -> None:
        """Nobody new comes in; the broker tells those who are there."""
        if self._opening is not None:
            await asyncio.gather(self._opening, return_exceptions=True)
        for server in self._servers:
            server.close()
        for opened in self._sockets[len(self._servers) :]:
            opened.close()
