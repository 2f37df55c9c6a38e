"""One connection: threads write straight to the socket, the event loop reads it.

A blocking call so costs one change of threads, not two. The loop writes what the socket does
not take at once.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import NamedTuple

from headrace.errors import BrokerError as CodecError
from headrace.rocketmq.errors import (
    ConnectError,
    ConnectionLostError,
    RequestTimeoutError,
    RocketMQError,
)
from headrace.rocketmq.net.checks import split_address
from headrace.wire.remoting.codes import RequestCode
from headrace.wire.remoting.command import ONEWAY, Command
from headrace.wire.remoting.frames import Reader, command_bytes
from headrace.wire.remoting.signature import signed

logger = logging.getLogger(__name__)

_READ = 1 << 18
_NOT_NOW = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_TICK = 0.1
_INT31 = 0x7FFFFFFF
Credentials = tuple[str, str]
Done = Callable[[Command | RocketMQError], None]
OnRequest = Callable[["Connection", Command], None]


class PendingRequest(NamedTuple):
    """A request under way."""

    done: Done
    deadline: float
    what: str


class PendingRequests:
    """Numbers requests and finds who waits for an answer. No I/O.

    Single operations on a dict are atomic, so threads may add while the reading thread takes.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._numbers = itertools.count(1)
        self._pending: dict[int, PendingRequest] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def next_number(self) -> int:
        return next(self._numbers) & _INT31

    def add(self, number: int, pending: PendingRequest) -> None:
        self._pending[number] = pending

    def drop(self, number: int) -> bool:
        """False when it was answered meanwhile."""
        return self._pending.pop(number, None) is not None

    def answered(self, answer: Command) -> bool:
        """Deliver a response; False when no caller waits for it any more."""
        pending = self._pending.pop(answer.opaque, None)
        if pending is None:
            return False
        pending.done(answer)
        return True

    def expire(self, now: float) -> None:
        """Fail what has waited for too long."""
        late = [number for number, one in list(self._pending.items()) if one.deadline <= now]
        for number in late:
            pending = self._pending.pop(number, None)
            if pending is not None:
                pending.done(timed_out(pending.what, self._address))

    def fail_all(self, error: RocketMQError) -> None:
        while self._pending:
            try:
                _, pending = self._pending.popitem()
            except KeyError:
                return
            pending.done(error)


def timed_out(what: str, address: str) -> RequestTimeoutError:
    return RequestTimeoutError(
        f"{address} did not answer {what} in time; whether it was done is not known"
    )


class Connection:
    """To one address. Once lost it stays lost; callers open a new one."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        address: str,
        on_request: OnRequest,
        on_lost: Callable[[Connection], None],
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.address = address
        self.is_open = False
        self.is_registered = False
        """A broker knows who we are; name servers need not."""
        self._loop = loop
        self._on_request = on_request
        self._on_lost = on_lost
        self._credentials = credentials
        self._tls = tls
        self._calls = PendingRequests(address)
        self._reader = Reader()
        self._socket: socket.socket | None = None
        self._lock = Lock()
        self._unsent = bytearray()
        self._flushing = False
        self._ticker: asyncio.TimerHandle | None = None

    # -- the loop's thread -------------------------------------------------------------------

    async def open(self, seconds: float) -> None:
        host, port = split_address(self.address)
        try:
            async with asyncio.timeout(seconds):
                self._socket = await self._connect(host, port)
        except ssl.SSLError as error:
            raise ConnectError(
                f"no TLS with {self.address}: {error.reason or error}; does it speak TLS, and is "
                "its certificate for this name from an authority that is trusted here?"
            ) from error
        except (OSError, TimeoutError) as error:
            reason = "no answer in time" if isinstance(error, TimeoutError) else str(error)
            raise ConnectError(
                f"cannot connect to {self.address} ({reason}); is it the address of a server, "
                "and, for a broker, does it advertise one that can be reached (brokerIP1)?"
            ) from error
        self.is_open = True
        self._loop.add_reader(self._socket.fileno(), self._readable)
        self._tick()

    async def _connect(self, host: str, port: int) -> socket.socket:
        problem: OSError | None = None
        for family, kind, protocol, _, place in await self._loop.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        ):
            made = socket.socket(family, kind, protocol)
            try:
                made.setblocking(False)
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                await self._loop.sock_connect(made, place)
                return made if self._tls is None else await self._secured(made, self._tls, host)
            except ssl.SSLError:
                made.close()
                raise
            except OSError as error:
                made.close()
                problem = error
            except BaseException:
                made.close()
                raise
        raise problem or OSError(f"{host} has no address")

    async def _secured(self, made: socket.socket, tls: ssl.SSLContext, host: str) -> ssl.SSLSocket:
        wrapped = tls.wrap_socket(made, server_hostname=host, do_handshake_on_connect=False)
        loop = self._loop
        try:
            while True:
                try:
                    wrapped.do_handshake()
                    return wrapped
                except ssl.SSLWantReadError:
                    add, remove = loop.add_reader, loop.remove_reader
                except ssl.SSLWantWriteError:
                    add, remove = loop.add_writer, loop.remove_writer
                ready = asyncio.Event()
                add(wrapped.fileno(), ready.set)
                try:
                    await ready.wait()
                finally:
                    remove(wrapped.fileno())
        except BaseException:
            wrapped.close()
            raise

    def _readable(self) -> None:
        self._read_once()
        while isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            self._read_once()  # decrypted already: the system knows of nothing more to read

    def _read_once(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(_READ)
        except _NOT_NOW:
            return
        except OSError as error:
            self._lost(f"lost: {error}")
            return
        if not data:
            self._lost("closed by the server")
            return
        for command in self._reader.feed(data):
            self._take(command)
        if self._reader.fault is not None:
            self._lost(f"of no use: {self._reader.fault}")

    def _take(self, command: Command) -> None:
        try:
            if not command.is_response:
                self._on_request(self, command)
            elif not self._calls.answered(command):
                logger.debug("%s: late answer to request %s", self.address, command.opaque)
        except Exception:
            logger.exception("%s: command %s was not understood", self.address, command.code)

    def _tick(self) -> None:
        self._calls.expire(time.monotonic())
        if self.is_open:
            self._ticker = self._loop.call_later(_TICK, self._tick)

    def _lost(self, reason: str) -> None:
        if not self.is_open:
            return
        self._shut()
        error = ConnectionLostError(
            f"the connection to {self.address} was {reason}; whether requests under way were "
            "done is not known"
        )
        self._on_lost(self)
        self._calls.fail_all(error)

    def _shut(self) -> None:
        with self._lock:
            self.is_open = False
            made, self._socket = self._socket, None
        if self._ticker is not None:
            self._ticker.cancel()
        if made is not None:
            with suppress(ValueError, OSError):
                self._loop.remove_reader(made.fileno())
                self._loop.remove_writer(made.fileno())
            made.close()

    def close(self) -> None:
        """Whatever waits fails."""
        if self.is_open:
            self._flush()
            self._lost("closed by this program")

    def abandon(self) -> None:
        """In a forked child: close our copy of the socket, which belongs to the parent."""
        made, self._socket, self.is_open = self._socket, None, False
        if made is not None:
            made.close()

    # -- any thread --------------------------------------------------------------------------

    def call(self, command: Command, done: Done, timeout: float, *, lazy: bool = False) -> int:
        """Send a request; `done` gets the answer or an error, in the loop's thread.

        ``lazy``: let the loop write, together with what else there is to write.
        """
        number = self._calls.next_number()
        data = self._encoded(command, number, command.flag)
        pending = PendingRequest(done, time.monotonic() + timeout, request_name(command.code))
        self._calls.add(number, pending)
        try:
            self._write(data, lazy)
        except RocketMQError:
            if self._calls.drop(number):
                raise
        return number

    def forget(self, number: int) -> bool:
        """Stop waiting; False when the response came meanwhile."""
        return self._calls.drop(number)

    def post(self, command: Command) -> None:
        """Send a request that gets no answer."""
        number = self._calls.next_number()
        self._write(self._encoded(command, number, command.flag | ONEWAY), False)

    def answer(self, answer: Command) -> None:
        with suppress(RocketMQError):
            self._write(command_bytes(answer), False)

    def _encoded(self, command: Command, number: int, flag: int) -> bytes:
        ext = command.ext
        if self._credentials is not None:
            ext = signed(ext, command.body, *self._credentials)
        try:
            return command_bytes(
                Command(command.code, ext, command.body, command.remark, number, flag)
            )
        except CodecError as error:
            raise RocketMQError(f"the request cannot be written: {error}") from error

    def _write(self, data: bytes, lazy: bool) -> None:
        with self._lock:
            made = self._socket
            if made is None or not self.is_open:
                raise ConnectionLostError(f"the connection to {self.address} is closed")
            if self._unsent or lazy or self._tls is not None:  # TLS is for one thread only
                self._unsent += data
                self._want_flush()
                return
            try:
                sent = made.send(data)
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError as error:
                self._loop.call_soon_threadsafe(self._lost, f"lost: {error}")
                raise ConnectionLostError(
                    f"the connection to {self.address} was lost: {error}"
                ) from error
            if sent < len(data):
                self._unsent += memoryview(data)[sent:]
                self._want_flush()

    def _want_flush(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon_threadsafe(self._flush)

    def _flush(self) -> None:
        """In the loop's thread: write what waits; again when the socket has room."""
        with self._lock:
            made = self._socket
            if made is None:
                return
            try:
                while self._unsent:  # TLS wants the same bytes again, and gets them first
                    del self._unsent[: made.send(self._unsent)]
            except _NOT_NOW:
                self._loop.add_writer(made.fileno(), self._flush)
                return
            except OSError:
                self._unsent.clear()  # the reader reports the failure
            self._flushing = False
            self._loop.remove_writer(made.fileno())


def request_name(code: int) -> str:
    try:
        return RequestCode(code).name
    except ValueError:
        return f"request {code}"
