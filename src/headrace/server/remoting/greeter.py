"""Accepts connections that may begin in plain text or with a TLS handshake, on one port.

The first byte tells: a handshake begins with 0x16, which no frame that is short enough does. It is
looked at without being taken, so that either protocol finds its beginning.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial

from headrace.server import descriptors
from headrace.server.listener import HandshakeLimiter, ServerTransport

logger = logging.getLogger(__name__)

HANDSHAKE = b"\x16"
REST_SECONDS = 0.1  # after an accept that failed: file descriptors may be back then


class TlsSniffer:
    """One listening socket, and those who have not said a word yet."""

    def __init__(
        self,
        listening: socket.socket,
        gate: HandshakeLimiter,
        make_link: Callable[[], ServerTransport],
        context: ssl.SSLContext,
        *,
        plain: bool,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listening = listening
        self._gate = gate
        self._make_link = make_link
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
        if (why := descriptors.refusal(connection.fileno())) is not None:
            self._gate.complain(f"from {peer}", why)
            connection.close()
            return
        if not self._gate.enter(peer, connection, partial(self._forget, connection, peer)):
            self._gate.complain(f"from {peer}")
            connection.close()
            return
        self._silent[connection] = self._loop.call_later(
            self._gate.handshake_seconds, self._forget, connection, peer
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
        patience = self._gate.handshake_seconds if is_tls else None
        try:
            await self._loop.connect_accepted_socket(
                self._make_link,
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
        self._gate.leave(peer, connection)

    def _forget(self, connection: socket.socket, peer: str) -> None:
        self._let_go(connection, peer)
        connection.close()

    def close(self) -> None:
        """Nobody new; who has not said a word is sent away."""
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
