"""The socket of an asyncio connection: connects, reads, writes once per turn, reconnects."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import cast

from headrace.client.core.connection_core import ConnectionCore
from headrace.client.errors import ConnectionClosed, HeadraceError
from headrace.client.settings import Settings
from headrace.urls import format_hosts

logger = logging.getLogger(__name__)

_GOODBYE = 1.0  # seconds for the end of the connection
_TICK = 0.5
_HIGH = 4 << 20  # bytes that the socket has not taken; publishers wait above it


class StreamSocket(asyncio.Protocol):
    """One socket; reports to its transport."""

    def __init__(self, owner: Transport) -> None:
        self._owner = owner
        self.gone: asyncio.Future[HeadraceError] = owner.loop.create_future()
        self.closed = asyncio.Event()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=_HIGH)

    def data_received(self, data: bytes) -> None:
        try:
            self._owner.receive(data)
        except HeadraceError as error:
            self.fail(error)
        except Exception as error:  # an unexpected reply must not leave callers waiting
            logger.exception("unexpected failure while reading")
            self.fail(ConnectionClosed(f"unexpected failure: {error!r}"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()
        self.fail(ConnectionClosed(f"the connection was lost: {exc or 'closed by the broker'}"))

    def pause_writing(self) -> None:
        self._owner.room.clear()

    def resume_writing(self) -> None:
        self._owner.room.set()

    def fail(self, error: HeadraceError) -> None:
        if not self.gone.done():
            self.gone.set_result(error)


class Transport:
    """Drives the core until it is stopped. Belongs to one event loop."""

    def __init__(self, settings: Settings) -> None:
        self.loop = asyncio.get_running_loop()
        self.core = ConnectionCore(settings, self._wake, self.loop.call_later)
        self.room = asyncio.Event()
        self.room.set()
        self._tls = settings.tls_context()
        self._socket: StreamSocket | None = None
        self._woken = False
        self._task = self.loop.create_task(self._run())

    def wake(self) -> None:
        """Write soon: everything of one turn of the loop goes out together."""
        if not self._woken:
            self._woken = True
            self.loop.call_soon(self.flush)

    def _wake(self, urgent: bool) -> None:
        if urgent:
            self.flush()
        else:
            self.wake()

    def flush(self) -> None:
        self._woken = False
        output = self.core.take_output(self.loop.time())
        transport = self._socket.transport if self._socket is not None else None
        if output and transport is not None and not transport.is_closing():
            transport.write(b"".join(output))
        self.core.requests.take_results()()
        if self.core.error is not None and self._socket is not None:
            self._socket.fail(self.core.error)

    def receive(self, data: bytes) -> None:
        self.core.receive(self.core.decode(data), self.loop.time())
        self.flush()

    async def stop(self) -> None:
        """Close the socket and end the task."""
        self.core.close()
        self.flush()
        last = self._socket
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        if last is not None and last.transport is not None:
            # TLS says goodbye first; a loop that ended before would leave the socket open.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GOODBYE):
                    await last.closed.wait()
            last.transport.abort()

    # -- the task --------------------------------------------------------------------------------

    async def _run(self) -> None:
        ticking = self.loop.create_task(self._tick())
        try:
            await self._keep_connected()
        finally:
            ticking.cancel()
            self._disconnect()
            with contextlib.suppress(asyncio.CancelledError):
                await ticking

    async def _keep_connected(self) -> None:
        delay: float | None = 0.0
        while delay is not None:
            await asyncio.sleep(delay)
            error = await self._one_connection()
            self._disconnect()
            delay = self.core.pause_after(error)
            self.flush()

    async def _one_connection(self) -> HeadraceError:
        host, port = self.core.hosts.current
        try:
            async with asyncio.timeout(self.core.hosts.connect_timeout):
                _, self._socket = await self.loop.create_connection(
                    lambda: StreamSocket(self),
                    host,
                    port,
                    ssl=self._tls,
                    server_hostname=host if self._tls else None,
                )
        except OSError as error:
            where = format_hosts([(host, port)])
            return ConnectionClosed(f"cannot connect to {where}: {error.strerror or error}")
        self.core.connected(self.loop.time())
        self.flush()
        return await self._socket.gone

    def _disconnect(self) -> None:
        if self._socket is not None and self._socket.transport is not None:
            self._socket.transport.close()
        self._socket = None
        self.room.set()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            self.core.tick(self.loop.time())
            self.flush()
