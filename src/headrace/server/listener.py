"""Sockets: accepting peers and carrying bytes between them and their sessions."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

from headrace.errors import ConfigError
from headrace.server import process

logger = logging.getLogger(__name__)

WRITE_HIGH = 1 << 20
WRITE_LOW = 1 << 18
QUIET_SECONDS = 10.0


def host_port(host: str, port: int) -> str:
    """An address as people and URLs write it: an IPv6 one has brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def listening_socket(host: str, port: int, backlog: int, purpose: str) -> socket.socket:
    """A socket that listens; `::` takes IPv4 clients too. ConfigError where that cannot be."""
    try:
        listening = socket.create_server(
            (host, port),
            family=socket.AF_INET6 if ":" in host else socket.AF_INET,
            backlog=backlog,
            dualstack_ipv6=host == "::" and socket.has_dualstack_ipv6(),
        )
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while")[0].lower()
        raise ConfigError(
            f"cannot listen on {host_port(host, port)} for {purpose}: {reason}; choose another "
            f"--{purpose.replace('_', '-')}-port"
        ) from error
    listening.setblocking(False)
    return listening


class SessionProtocol(Protocol):
    """What a link drives: one protocol's session."""

    def receive(self, data: bytes) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...
    def lost(self) -> None: ...


class HandshakeLimiter:
    """Knows the peers that have not logged in, per address, and bounds their number.

    Behind one address there may be many machines: the peer that was silent for longest makes room
    for the next. Those whose login is being checked stay.
    """

    def __init__(self, handshake_seconds: float, per_address: int) -> None:
        self.handshake_seconds = handshake_seconds
        self.per_address = per_address
        # By address, in order of arrival: what hangs up on a peer; None: it stays.
        self._waiting: dict[str, dict[object, Callable[[], None] | None]] = {}
        self._quiet_until = 0.0
        self._unsaid = 0

    def log_refusal(self, who: str, why: str = "too many without login") -> None:
        """Log a refused connection; of many, one line per interval, with their number."""
        now = time.monotonic()
        if now < self._quiet_until:
            self._unsaid += 1
            return
        more = f", and {self._unsaid} others since the last such line" if self._unsaid else ""
        logger.warning("connection %s refused: %s%s", who, why, more)
        self._quiet_until, self._unsaid = now + QUIET_SECONDS, 0

    def enter(self, address: str, peer: object, drop: Callable[[], None] | None = None) -> bool:
        """False when there are too many from this address, and none of them can be dropped."""
        waiting = self._waiting.setdefault(address, {})
        if len(waiting) >= self.per_address:
            oldest = next((one for one, hang_up in waiting.items() if hang_up is not None), None)
            hang_up = waiting.pop(oldest, None)
            if hang_up is None:
                return False
            self.log_refusal(f"from {address}", "too many without login, the oldest of them")
            hang_up()
        self._waiting.setdefault(address, waiting)[peer] = drop
        return True

    def keep(self, address: str, peer: object) -> None:
        """Do not drop this connection to make room."""
        if peer in self._waiting.get(address, ()):
            self._waiting[address][peer] = None

    def leave(self, address: str, peer: object) -> None:
        waiting = self._waiting.get(address, {})
        waiting.pop(peer, None)
        if not waiting:
            self._waiting.pop(address, None)


class Transports(set["ServerTransport"]):
    """Those of a broker that are open."""

    refusal: str | None = None  # why no more are accepted at present


class ServerTransport(asyncio.Protocol):
    """One socket and its session."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limiter: HandshakeLimiter,
        transports: Transports,
        make_session: Callable[[ServerTransport], SessionProtocol],
    ) -> None:
        self._loop = loop
        self._limiter = limiter
        self._transports = transports
        self._make_session = make_session
        self._session: SessionProtocol | None = None
        self._transport: asyncio.Transport  # from connection_made() on
        self._waiting = False
        self._deadline: asyncio.TimerHandle | None = None
        self._paused: set[str] = set()
        self._output_ended = False
        self.peer_host = ""
        self.peer_port = 0
        self.host = ""
        self.port = 0
        self.tls: ssl.SSLObject | None = None
        # The peer's certificate, if it has shown one that an authority of ours has signed.
        self.certificate: Mapping[str, Any] | None = None
        self.name = "?"

    # -- from the loop --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's is one by behaviour only
        self._transport = transport
        self.peer_host, self.peer_port = _address(transport, "peername")
        self.host, self.port = _address(transport, "sockname")
        self.tls = transport.get_extra_info("ssl_object")
        self.certificate = transport.get_extra_info("peercert") or None
        self.name = (
            f"{host_port(self.peer_host, self.peer_port)} -> {host_port(self.host, self.port)}"
        )
        refusal = self._transports.refusal or process.descriptor_refusal(descriptor_of(transport))
        if refusal is not None:
            self._limiter.log_refusal(self.name, refusal)
            transport.abort()
            return
        if not self._limiter.enter(self.peer_host, self, self.abort):
            self._limiter.log_refusal(self.name)
            transport.abort()
            return
        self._waiting = True
        self._transports.add(self)
        transport.set_write_buffer_limits(high=WRITE_HIGH, low=WRITE_LOW)
        self._session = self._make_session(self)
        self._deadline = self._loop.call_later(self._limiter.handshake_seconds, self._time_out)

    def data_received(self, data: bytes) -> None:
        if self._session is not None:
            self._session.receive(data)

    def pause_writing(self) -> None:
        if self._session is not None:
            self._session.pause_writing()

    def resume_writing(self) -> None:
        if self._session is not None:
            self._session.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transports.discard(self)
        self.authenticated()
        self.opened()  # cancels the deadline of the handshake
        if self._session is not None:
            self._session.lost()
            self._session = None

    def _time_out(self) -> None:
        logger.warning("connection %s closed: handshake timed out", self.name)
        self.abort()

    # -- for the session ------------------------------------------------------------------------

    def keep_open(self) -> None:
        """The peer has shown a password: it does not make room for others any more."""
        self._limiter.keep(self.peer_host, self)

    def authenticated(self) -> None:
        """The peer has logged in (or is gone): it does not wait in the hall any more."""
        if self._waiting:
            self._waiting = False
            self._limiter.leave(self.peer_host, self)

    def opened(self) -> None:
        """The handshake is over."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def write(self, data: bytes | bytearray) -> None:
        if not self._output_ended and not self._transport.is_closing():
            self._transport.write(data)

    def direct_descriptor(self) -> int | None:
        """Of the socket, if another process may write to it now."""
        if self.tls is not None or self._transport.is_closing() or self.unsent():
            return None
        return descriptor_of(self._transport)

    def unsent(self) -> int:
        return self._transport.get_write_buffer_size()

    @property
    def is_paused(self) -> bool:
        return bool(self._paused)

    def pause_reading(self, reason: str) -> None:
        """Stop reading; there may be several reasons at once."""
        if not self._transport.is_closing():
            if not self._paused:
                self._transport.pause_reading()
            self._paused.add(reason)

    def resume_reading(self, reason: str) -> None:
        """One reason is gone; go on when it was the last."""
        if reason in self._paused:
            self._paused.discard(reason)
            if not self._paused and not self._transport.is_closing():
                self._transport.resume_reading()

    def close(self) -> None:
        """Close once everything is written."""
        self._transport.close()

    def end_output(self, seconds: float) -> None:
        """Nothing more will be written; hang up when the peer has, or after this time.

        Closing at once could cut off what the peer has not read yet.
        """
        transport = self._transport
        if transport.is_closing():
            return
        if not transport.can_write_eof():  # TLS says goodbye by itself
            transport.close()
            return
        self._output_ended = True
        transport.write_eof()
        self.close_after(seconds)

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    def close_after(self, seconds: float) -> None:
        """Close if the peer has not done so by then."""
        self._loop.call_later(seconds, self.abort)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(seconds, callback)


def descriptor_of(transport: asyncio.BaseTransport) -> int:
    opened = transport.get_extra_info("socket")
    return -1 if opened is None else opened.fileno()


def _address(transport: asyncio.Transport, which: str) -> tuple[str, int]:
    info = transport.get_extra_info(which)
    return (str(info[0]), int(info[1])) if isinstance(info, tuple) and len(info) >= 2 else ("", 0)
