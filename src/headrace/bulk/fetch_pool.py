"""The broker's side of bulk reads: starts the fetch process, hands jobs over, passes frames on."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Protocol, cast

from headrace.bulk.read_plan import FetchRequest, is_last
from headrace.errors import StoreError, Unsupported
from headrace.wire.native.frames import HEAD

logger = logging.getLogger(__name__)

NEEDED = ("numpy", "pyarrow")
MAX_JOBS = 32  # at once, waiting ones included: each holds descriptors
STOP_SECONDS = 5.0
SOCKET_BYTES = 1 << 20  # on their way to the broker


class FrameReceiver(Protocol):
    """Who gets the frames: a session."""

    def take_fetched(self, frame: bytes | bytearray, relay: FrameRelay) -> None:
        """One whole frame; pause the relay when there is no room for more."""

    def fetch_ended(self, relay: FrameRelay, order: FetchRequest, error: str | None) -> None:
        """No more frames will come; ``error`` when there should have been some."""


class FetchPool:
    """At most one process, started when first needed, and again when it has ended."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._relays: set[FrameRelay] = set()

    def fetch(
        self, order: FetchRequest, segments: Sequence[int], taker: FrameReceiver
    ) -> FrameRelay:
        """Begin; ``segments`` are descriptors, one per piece, lent for the call. Before them is
        that of the client's socket if the order is direct."""
        if len(self._relays) >= MAX_JOBS:
            raise StoreError(f"{MAX_JOBS} fetches are under way; try again when one has ended")
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
        try:
            with theirs:
                self._hand_over(order, theirs, segments)
        except BaseException:
            ours.close()
            raise
        relay = FrameRelay(self, order, taker)
        relay.task = self._loop.create_task(self._connect(relay, ours))
        self._relays.add(relay)
        return relay

    async def _connect(self, relay: FrameRelay, ours: socket.socket) -> None:
        await self._loop.create_connection(lambda: relay, sock=ours)
        relay.connected()

    def _hand_over(self, order: FetchRequest, out: socket.socket, segments: Sequence[int]) -> None:
        spec = os.memfd_create("headrace-fetch", os.MFD_CLOEXEC)
        try:
            with os.fdopen(os.dup(spec), "wb") as file:
                file.write(order.encode())
            fds = [out.fileno(), spec, *segments]
            try:
                socket.send_fds(self._connected(), [b"j"], fds)
            except (BrokenPipeError, ConnectionResetError):
                self._forget()
                socket.send_fds(self._connected(), [b"j"], fds)
        except BlockingIOError:
            raise StoreError("the fetch process is overloaded; try again later") from None
        finally:
            os.close(spec)

    def _connected(self) -> socket.socket:
        if self._process is not None and self._process.poll() is not None:
            self._forget()  # it ended of idleness, or was killed
        if self._control is None:
            missing = [name for name in NEEDED if find_spec(name) is None]
            if missing:
                raise Unsupported(
                    f"bulk reads need {' and '.join(missing)} where the broker runs: "
                    "pip install 'headrace[spark]'"
                )
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ours.setblocking(False)
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "headrace.bulk.fetch_process", str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    env={**os.environ, "OMP_NUM_THREADS": "1"},
                )
            self._control = ours
        return self._control

    def _forget(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def ended(self, relay: FrameRelay) -> None:
        self._relays.discard(relay)

    def close(self) -> None:
        """End the process with everything it is doing."""
        for relay in tuple(self._relays):
            relay.abort()
        self._forget()


class FrameRelay(asyncio.BufferedProtocol):
    """Frames of one order on their way: whole ones only, since others go out in between.

    Each is received where it stays: frames are megabytes long, and copies are what a fetch costs.
    """

    def __init__(self, pool: FetchPool, order: FetchRequest, taker: FrameReceiver) -> None:
        self._pool = pool
        self._order = order
        self._taker = taker
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray(HEAD.size)
        self._have = 0
        self.task: asyncio.Task[None] | None = None
        self.frames = 0
        self.is_done = False
        self._is_connected = self._is_aborted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connected(self) -> None:
        """The transport owns the socket now. Aborted before, uvloop closes its number, and later
        the socket closes that number again, which by then may be another connection's."""
        self._is_connected = True
        if self._is_aborted:
            self.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)[self._have :]

    def buffer_updated(self, nbytes: int) -> None:
        self._have += nbytes
        if self._order.is_direct:  # a byte when it begins, another when it has ended
            self.frames, self.is_done = 1, self._have == 2
            return
        if self._have < len(self._buffer):
            return
        if self._have == HEAD.size and (length := HEAD.unpack(self._buffer)[1]):
            head, self._buffer = self._buffer, bytearray(HEAD.size + length)
            self._buffer[: HEAD.size] = head
            return
        frame, self._buffer, self._have = self._buffer, bytearray(HEAD.size), 0
        self.frames += 1
        self.is_done = self.is_done or is_last(frame)
        self._taker.take_fetched(frame, self)

    def pause(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def mark(self) -> None:
        """There is room again."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def abort(self) -> None:
        """The taker has gone."""
        self.is_done = self._is_aborted = True
        if self._transport is not None and self._is_connected:
            self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._pool.ended(self)
        ended = "the fetch process ended before the fetch did"
        self._taker.fetch_ended(self, self._order, None if self.is_done else ended)
