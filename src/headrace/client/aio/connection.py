"""Connections on asyncio. Everything belongs to the event loop in which it was made."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Generator
from dataclasses import replace
from typing import Any, TypeVar

from headrace.client.aio.channel import Channel
from headrace.client.aio.deliveries import CallbackQueue, ConsumerCallback, Delivery
from headrace.client.aio.transport import Transport
from headrace.client.core.channel_core import ChannelCore
from headrace.client.core.channel_state import ChannelState
from headrace.client.core.requests import ClientRequest
from headrace.client.errors import ConnectionClosed, HeadraceError, RequestTimeout
from headrace.client.settings import Settings, settings_of
from headrace.wire.native.payloads import Op

T = TypeVar("T")
_GRACE = 5.0  # seconds for the last words of a closing connection


def connect(
    host: str = "127.0.0.1",
    port: int = 9090,
    user: str | None = "guest",
    password: str = "guest",
    vhost: str = "/",
    **options: Any,  # noqa: ANN401 - checked by Settings
) -> PendingConnection:
    """`connection = await connect(...)`, or `async with connect(...) as connection`.

    The keywords are the fields of `headrace.client.Settings`.
    """
    return PendingConnection(replace(Settings(host, port, user, password, vhost), **options))


def connect_url(url: str, **options: Any) -> PendingConnection:  # noqa: ANN401 - checked by Settings
    """The same from `headrace://user:password@host:port/vhost`; `headraces://` is over TLS."""
    return PendingConnection(replace(settings_of(url), **options))


class PendingConnection:
    """A connection to be: await it, or use it as a context manager."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._connection: Connection | None = None

    def __await__(self) -> Generator[Any, None, Connection]:
        return self._open().__await__()

    async def _open(self) -> Connection:
        connection = self._connection = Connection(self._settings)
        await connection.open()
        return connection

    async def __aenter__(self) -> Connection:
        return await self._open()

    async def __aexit__(self, *_: object) -> None:
        if self._connection is not None:
            await self._connection.close()


class Connection:
    """One socket, many channels."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._pid = os.getpid()
        self._transport = Transport(settings)
        self._channels: set[Channel] = set()

    async def open(self) -> None:
        """Wait for the login; `connect()` has done so."""
        settings = self.settings
        try:
            ping = ClientRequest(Op.PING, {}, lambda reply: None)
            await self.call(None, ping, settings.connect_timeout + settings.request_timeout)
        except BaseException:
            await self._transport.stop()
            raise

    @property
    def is_open(self) -> bool:
        """False once it is closed; True while it is reconnecting."""
        return self._transport.core.is_open

    @property
    def is_connected(self) -> bool:
        """True when requests are sent at once."""
        return self._transport.core.is_ready

    async def create_channel(self) -> Channel:
        core = self._transport.core
        state = core.new_channel()
        callbacks = CallbackQueue()
        requests = ChannelCore(core, state, callbacks, ConsumerCallback, Delivery)
        await self.call(state, requests.open())
        channel = Channel(self, state, requests, callbacks)
        self._channels.add(channel)
        return channel

    async def close(self) -> None:
        """Finish the callbacks that run, send what is to be sent, close. Twice does no harm."""
        if self.is_connected:
            with contextlib.suppress(HeadraceError, TimeoutError):
                async with asyncio.timeout(_GRACE):
                    await asyncio.gather(*(one.close() for one in tuple(self._channels)))
        self._channels.clear()
        await self._transport.stop()

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- for channels ----------------------------------------------------------------------------

    def submit(
        self, channel: ChannelState | None, request: ClientRequest[T], timeout: float | None = None
    ) -> asyncio.Future[T]:
        """Send a request; its result comes with the future."""
        transport = self._transport
        if self._pid != os.getpid():
            raise ConnectionClosed("a connection is of no use in a forked process: open another")
        future: asyncio.Future[T] = transport.loop.create_future()
        deadline = transport.loop.time() + (timeout or self.settings.request_timeout)
        transport.core.submit(channel, request, future, deadline)
        transport.wake()
        return future

    async def call(
        self, channel: ChannelState | None, request: ClientRequest[T], within: float | None = None
    ) -> T:
        """Send a request and wait for its result."""
        limit = within or self.settings.request_timeout
        if request.op == Op.PUBLISH:
            await self.room()
        future = self.submit(channel, request, within)
        try:
            # Not wait_for(): before Python 3.12 it may swallow a cancellation.
            async with asyncio.timeout(limit):
                return await future
        except TimeoutError:
            self._transport.core.requests.abandon(future)
            raise RequestTimeout("no answer in time") from None

    async def room(self) -> None:
        """Publishers wait while the broker does not read."""
        if self._transport.room.is_set():
            return
        try:
            async with asyncio.timeout(self.settings.request_timeout):
                await self._transport.room.wait()
        except TimeoutError:
            raise RequestTimeout("the broker does not read") from None

    def forget(self, channel: Channel) -> None:
        """The channel is closed."""
        self._channels.discard(channel)
        self._transport.core.channels.pop(channel.state.id, None)
