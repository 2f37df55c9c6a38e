"""The socket of a blocking connection, with or without TLS, and the thread that reads it.

A program's threads write directly when the socket has room; the reading thread writes the rest.
It never waits for a program, so a busy program does not delay replies and heartbeats.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import socket
import ssl
import time
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from threading import Condition, Lock, Thread, get_ident

from headrace.client.core.connection_core import ConnectionCore, ConnectionState
from headrace.client.errors import ConnectionClosed, HeadraceError, RequestTimeout
from headrace.client.settings import Settings
from headrace.urls import format_hosts

logger = logging.getLogger(__name__)

_READ = 1 << 18
_HIGH = 4 << 20  # bytes that the socket has not taken; publishers wait above it
_TICK = 0.5
_order = count()


class Transport:
    """Connects, reads, writes what is left, reconnects; until it is stopped."""

    def __init__(self, settings: Settings, name: str) -> None:
        self.lock = Condition()
        """Guards the core and everything here. Notified when the socket has taken something."""
        self.core = ConnectionCore(settings, self._wake, self._call_later)
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._tls = settings.tls_context()
        self._socket: socket.socket | TlsSocket | None = None
        self._unsent = bytearray()
        self._stopping = False
        self._woken = False
        self._alarm, self._bell = socket.socketpair()
        self._alarm.setblocking(False)
        self._bell.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._alarm, selectors.EVENT_READ)
        self._thread = Thread(target=self._run, name=f"{name}-reader", daemon=True)

    # -- for any thread --------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def is_reader(self) -> bool:
        """True in the reading thread, which must not wait for replies."""
        return self._thread.ident == get_ident()

    def wake(self) -> None:
        """Make the reading thread write output. Cheap when it was woken before."""
        if not self._woken:
            self._woken = True
            with contextlib.suppress(OSError):  # full: it will wake; closed: nothing to do
                self._bell.send(b"!")

    def _call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        with self.lock:
            heappush(self._timers, (time.monotonic() + seconds, next(_order), callback))
        self.wake()

    def _wake(self, urgent: bool) -> None:
        if not urgent or self.is_reader():
            self.wake()
            return
        with self.lock:
            self.flush()

    def flush(self) -> None:
        """Write what the core has to say, as far as the socket takes it. Hold the lock."""
        output = self.core.take_output(time.monotonic())
        if output:
            self._unsent += output[0] if len(output) == 1 else b"".join(output)
        if self._unsent and self._socket is not None:
            had_room = len(self._unsent) < _HIGH
            with contextlib.suppress(BlockingIOError):
                try:
                    del self._unsent[: self._socket.send(self._unsent)]
                except OSError as error:
                    if isinstance(error, BlockingIOError):
                        raise
                    self._unsent.clear()  # the reading thread will find out by itself
            if self._unsent:
                self.wake()
            if not had_room:
                self.lock.notify_all()

    def hand_over(self) -> None:
        """Give callers the results that are due. Do not hold the lock."""
        with self.lock:
            results = self.core.requests.take_results()
        results()

    def wait_for_room(self, deadline: float) -> None:
        """Publishers wait while the broker does not read. Hold the lock."""
        while len(self._unsent) >= _HIGH and self.core.state is not ConnectionState.CLOSED:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise RequestTimeout("the broker does not read")
            self.lock.wait(remaining)

    def stop(self, timeout: float) -> None:
        """Close the socket and end the thread."""
        self._stopping = True
        self.wake()
        if not self.is_reader():
            self._thread.join(timeout)

    def abandon(self) -> None:
        """In a forked child: the sockets are the parent's; only close our copies of them."""
        self.lock = Condition()
        for one in (self._socket, self._alarm, self._bell):
            if one is not None:
                with contextlib.suppress(OSError):
                    os.close(one.detach())
        self._selector.close()

    # -- the reading thread ----------------------------------------------------------------------

    def _run(self) -> None:
        delay: float | None = 0.0
        while delay is not None:
            self._pause(delay)
            error = self._one_connection()
            with self.lock:
                self._disconnect()
                if self._stopping:
                    self.core.close()
                delay = self.core.pause_after(error)
            self.hand_over()
        self._selector.close()
        self._alarm.close()
        self._bell.close()

    def _one_connection(self) -> HeadraceError:
        """Connect and serve until it ends; the reason."""
        if self._stopping:
            return ConnectionClosed("the connection is closed")
        address, patience = self.core.hosts.current, self.core.hosts.connect_timeout
        try:
            plain = socket.create_connection(address, patience)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connected = wrap(plain, self._tls, address[0])
        except OSError as error:
            where = format_hosts([address])
            return ConnectionClosed(f"cannot connect to {where}: {error.strerror or error}")
        connected.setblocking(False)
        with self.lock:
            self._socket = connected
            self._selector.register(connected, selectors.EVENT_READ)
            self.core.connected(time.monotonic())
            self.flush()
        try:
            return self._serve(connected)
        except OSError as error:
            return ConnectionClosed(f"the connection was lost: {error.strerror or error}")
        except HeadraceError as error:
            return error
        except Exception as error:  # an unexpected reply must not leave callers waiting
            logger.exception("unexpected failure of the reading thread")
            return ConnectionClosed(f"unexpected failure: {error!r}")

    def _serve(self, connected: socket.socket | TlsSocket) -> HeadraceError:
        core = self.core
        next_tick = time.monotonic() + _TICK
        while (
            not self._stopping and core.error is None and core.state is not ConnectionState.CLOSED
        ):
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)
            self._selector.modify(connected, events)
            until = min(next_tick, self._timers[0][0]) if self._timers else next_tick
            ready = self._selector.select(max(0.0, until - time.monotonic()))
            for key, mask in ready:
                if key.fileobj is self._alarm:
                    self._hear_alarm()
                elif mask & selectors.EVENT_READ:
                    self._read(connected)
            now = time.monotonic()
            with self.lock:
                while self._timers and self._timers[0][0] <= now:
                    heappop(self._timers)[2]()
                if now >= next_tick:
                    core.tick(now)
                    next_tick = now + _TICK
                self.flush()
            self.hand_over()
        return core.error or ConnectionClosed("the connection is closed")

    def _read(self, connected: socket.socket | TlsSocket) -> None:
        try:
            data = connected.recv(_READ)
        except (BlockingIOError, InterruptedError):
            return
        if not data:
            raise ConnectionClosed("the broker closed the connection")
        frames = self.core.decode(data)  # without the lock: only this thread reads
        with self.lock:
            self.core.receive(frames, time.monotonic())

    def _hear_alarm(self) -> None:
        with contextlib.suppress(OSError):
            self._alarm.recv(4096)
        self._woken = False  # before looking for output, so that later news ring again

    def _disconnect(self) -> None:
        """Hold the lock."""
        if self._socket is not None:
            self._selector.unregister(self._socket)
            self._socket.close()
            self._socket = None
        self._unsent.clear()
        self.lock.notify_all()

    def _pause(self, seconds: float) -> None:
        """Wait between two attempts; requests can time out meanwhile."""
        until = time.monotonic() + seconds
        while not self._stopping and (remaining := until - time.monotonic()) > 0:
            for _ in self._selector.select(min(remaining, _TICK)):
                self._hear_alarm()
            with self.lock:
                self.core.tick(time.monotonic())
            self.hand_over()


_NOT_YET = (ssl.SSLWantReadError, ssl.SSLWantWriteError)


def wrap(
    plain: socket.socket, context: ssl.SSLContext | None, host: str
) -> socket.socket | TlsSocket:
    """The same socket, or one that has shaken hands. OSError when that fails; it is closed then."""
    if context is None:
        return plain
    try:
        return TlsSocket(context.wrap_socket(plain, server_hostname=host))
    except BaseException:
        plain.close()
        raise


class TlsSocket:
    """One thread reads while others write, which TLS itself does not allow: calls take turns.

    Nothing here waits once setblocking(False) was called. A read takes all that was decrypted,
    because a selector sees only what is still encrypted.
    """

    def __init__(self, inner: ssl.SSLSocket) -> None:
        self._inner = inner
        self._turn = Lock()

    def fileno(self) -> int:
        return self._inner.fileno()

    def setblocking(self, flag: bool) -> None:
        self._inner.setblocking(flag)

    def recv(self, size: int) -> bytes:
        """About ``size`` bytes at most; b"" at the end; BlockingIOError when there is nothing."""
        chunks: list[bytes] = []
        with self._turn:
            try:
                while size > 0 or self._inner.pending():
                    chunk = self._inner.recv(1 << 16)
                    if not chunk:
                        break
                    chunks.append(chunk)
                    size -= len(chunk)
            except _NOT_YET:
                if not chunks:
                    raise BlockingIOError from None
            except ssl.SSLEOFError:
                pass  # ended without a word, as a killed broker does
        return b"".join(chunks)

    def send(self, data: bytes | bytearray) -> int:
        """How many bytes were taken; BlockingIOError when none."""
        sent = 0
        with self._turn, memoryview(data) as view:
            try:
                while sent < len(view):
                    with view[sent:] as rest:
                        sent += self._inner.send(rest)
            except _NOT_YET:
                if not sent:
                    raise BlockingIOError from None
        return sent

    def detach(self) -> int:
        return self._inner.detach()

    def close(self) -> None:
        self._inner.close()
