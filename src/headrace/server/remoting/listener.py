"""The RocketMQ listeners: two ports that serve the same requests, in plain text or over TLS.

The ports are open when listen() returns. What has to be imported for them is imported in a thread
afterwards, so that it does not delay the broker; early callers wait in the socket's queue.

With TLS the first byte decides: a handshake begins with 0x16, which no frame that is short enough
does. It is peeked at, not read, so that either protocol finds its beginning.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from headrace.config import Config
from headrace.core.broker import Broker
from headrace.server import process
from headrace.server.listener import (
    HandshakeLimiter,
    ServerTransport,
    Transports,
    listening_socket,
)

if TYPE_CHECKING:
    from headrace.server.tls import Certificates

HANDSHAKE = b"\x16"
REST_SECONDS = 0.1  # after an accept that failed: file descriptors may be back then


class TlsSniffer:
    """One listening socket, and those who have not said a word yet."""

    def __init__(
        self,
        listening: socket.socket,
        limiter: HandshakeLimiter,
        make_transport: Callable[[], ServerTransport],
        context: ssl.SSLContext,
        *,
        plain: bool,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listening = listening
        self._limiter = limiter
        self._make_transport = make_transport
        self._context = context
        self._plain = plain  # whether plain text is welcome
        self._silent: dict[socket.socket, asyncio.TimerHandle] = {}
        self._handing: set[asyncio.Task[None]] = set()
        self._loop.add_reader(listening, self._accept)

    def _accept(self) -> None:
        try:
            connection, address = self._listening.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as error:
            logger.error("cannot accept a RocketMQ client: %s", error)
            self._loop.remove_reader(self._listening)
            self._loop.call_later(REST_SECONDS, self._go_on)
            return
        connection.setblocking(False)
        peer = str(address[0])
        if (why := process.descriptor_refusal(connection.fileno())) is not None:
            self._limiter.log_refusal(f"from {peer}", why)
            connection.close()
            return
        if not self._limiter.enter(peer, connection, partial(self._forget, connection, peer)):
            self._limiter.log_refusal(f"from {peer}")
            connection.close()
            return
        self._silent[connection] = self._loop.call_later(
            self._limiter.handshake_seconds, self._forget, connection, peer
        )
        self._loop.add_reader(connection, self._hear, connection, peer)

    def _go_on(self) -> None:
        if self._listening.fileno() >= 0:
            self._loop.add_reader(self._listening, self._accept)

    def _hear(self, connection: socket.socket, peer: str) -> None:
        """The first byte is there, or the end."""
        try:
            first = connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            first = b""
        is_tls = first == HANDSHAKE
        if not first or not (is_tls or self._plain):
            self._forget(connection, peer)
            return
        self._let_go(connection, peer)
        handing = self._loop.create_task(self._hand_over(connection, is_tls))
        self._handing.add(handing)
        handing.add_done_callback(self._handing.discard)

    async def _hand_over(self, connection: socket.socket, is_tls: bool) -> None:
        patience = self._limiter.handshake_seconds if is_tls else None
        try:
            await self._loop.connect_accepted_socket(
                self._make_transport,
                connection,
                ssl=self._context if is_tls else None,
                ssl_handshake_timeout=patience,
            )
        except (OSError, ssl.SSLError) as error:
            logger.warning("a RocketMQ client's TLS handshake failed: %s", error)
            connection.close()

    def _let_go(self, connection: socket.socket, peer: str) -> None:
        self._silent.pop(connection).cancel()
        self._loop.remove_reader(connection)
        self._limiter.leave(peer, connection)

    def _forget(self, connection: socket.socket, peer: str) -> None:
        self._let_go(connection, peer)
        connection.close()

    def close(self) -> None:
        """Accept no connection; close those that have sent nothing."""
        if self._listening.fileno() >= 0:
            self._loop.remove_reader(self._listening)
            self._listening.close()
        for connection, timer in self._silent.items():
            timer.cancel()
            self._loop.remove_reader(connection)
            connection.close()
        self._silent.clear()
        for handing in self._handing:
            handing.cancel()


logger = logging.getLogger(__name__)

BACKLOG = 1024


class RemotingListener:
    """Starts and stops the RocketMQ side of a broker."""

    def __init__(
        self,
        broker: Broker,
        config: Config,
        transports: Transports,
        certificates: Certificates | None,
    ) -> None:
        self._broker = broker
        self._config = config
        self._transports = transports
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
        self._opening = asyncio.get_running_loop().create_task(opening, name="remoting-listener")

    async def opened(self) -> None:
        """Return when requests are answered."""
        assert self._opening is not None
        await asyncio.shield(self._opening)

    async def _open(self, broker_port: int) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, import_module, "headrace.server.remoting.handlers")
        from headrace.server.remoting.handlers import RequestHandlers
        from headrace.server.remoting.session import RemotingSettings, Session

        config = self._config
        settings = RemotingSettings(
            user=config.rocketmq_user,
            port=broker_port,
            advertise_host=config.advertise_host,
            auto_create=config.auto_create_topics,
            max_message=min(config.rocketmq_max_message_size, config.max_message_size),
            pull_limit=config.rocketmq_pull_limit,
        )
        requests = RequestHandlers(self._broker, settings)
        requests.state.start()
        for opened in self._sockets:
            limiter = HandshakeLimiter(
                config.handshake_timeout, config.max_unauthenticated_per_address
            )

            def make_transport(limiter: HandshakeLimiter = limiter) -> ServerTransport:
                return ServerTransport(
                    loop, limiter, self._transports, lambda transport: Session(requests, transport)
                )

            self._servers.append(await self._serve(opened, limiter, make_transport))

    async def _serve(
        self,
        opened: socket.socket,
        limiter: HandshakeLimiter,
        make_transport: Callable[[], ServerTransport],
    ) -> asyncio.Server | TlsSniffer:
        if self._certificates is None:
            loop = asyncio.get_running_loop()
            return await loop.create_server(make_transport, sock=opened, backlog=BACKLOG)
        plain = self._config.remoting_tls == "optional"
        return TlsSniffer(opened, limiter, make_transport, self._certificates.context, plain=plain)

    async def close(self) -> None:
        """Accept no connection; the broker notifies open ones."""
        if self._opening is not None:
            await asyncio.gather(self._opening, return_exceptions=True)
        for server in self._servers:
            server.close()
        for opened in self._sockets[len(self._servers) :]:
            opened.close()
