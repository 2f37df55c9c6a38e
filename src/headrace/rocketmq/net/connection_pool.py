"""Requests to addresses: connections are opened when needed and shared."""

from __future__ import annotations

import asyncio
import concurrent.futures
import ssl
from collections.abc import Awaitable, Callable
from threading import Lock

from headrace.rocketmq.errors import ConnectError, ConnectionLostError, RocketMQError, StateError
from headrace.rocketmq.net.connection import (
    Connection,
    Credentials,
    OnRequest,
    request_name,
    timed_out,
)
from headrace.wire.remoting.command import Command

Register = Callable[[Connection], Awaitable[None]]
_CONNECT_TIMEOUT = 3.0


class ResponseWaiter:
    """One thread waits here for one answer; lighter than an event."""

    __slots__ = ("_lock", "found")

    def __init__(self) -> None:
        self.found: Command | RocketMQError | None = None
        self._lock = Lock()
        self._lock.acquire()

    def __call__(self, found: Command | RocketMQError) -> None:
        self.found = found
        self._lock.release()

    def wait(self, timeout: float) -> bool:
        return self._lock.acquire(timeout=max(timeout, 0.0))


class ConnectionPool:
    """All connections of one client."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_request: OnRequest,
        register: Register,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.loop = loop
        self._on_request = on_request
        self._register = register
        self._credentials = credentials
        self._tls = tls
        self._open: dict[str, Connection] = {}
        self._opening: dict[str, asyncio.Task[Connection]] = {}
        self._closed = False

    # -- on the loop -------------------------------------------------------------------------

    async def connection(self, address: str, seconds: float = _CONNECT_TIMEOUT) -> Connection:
        """An open connection that has been greeted."""
        found = self._open.get(address)
        if found is not None and found.is_open:
            return found
        if self._closed:
            raise StateError("the client is shut down")
        task = self._opening.get(address)
        if task is None:
            task = self.loop.create_task(self._connect(address, seconds))
            self._opening[address] = task
            task.add_done_callback(lambda done: self._opened(address, done))
        return await asyncio.shield(task)

    def _opened(self, address: str, task: asyncio.Task[Connection]) -> None:
        self._opening.pop(address, None)
        if not task.cancelled():
            task.exception()  # all waiting callers get it

    async def _connect(self, address: str, seconds: float) -> Connection:
        made = Connection(
            self.loop, address, self._on_request, self._forget, self._credentials, self._tls
        )
        await made.open(seconds)
        try:
            await self._register(made)
        except BaseException:
            made.close()
            raise
        if self._closed or not made.is_open:
            made.close()
            raise ConnectError(f"the connection to {address} was closed while it was opened")
        self._open[address] = made
        return made

    def _forget(self, connection: Connection) -> None:
        if self._open.get(connection.address) is connection:
            del self._open[connection.address]

    async def ask(self, address: str, command: Command, seconds: float) -> Command:
        """The answer, whatever its code."""
        connection = await self.connection(address)
        return await self.ask_on(connection, command, seconds)

    async def ask_on(self, connection: Connection, command: Command, seconds: float) -> Command:
        future: asyncio.Future[Command] = self.loop.create_future()

        def done(found: Command | RocketMQError) -> None:
            if future.done():
                return
            if isinstance(found, Command):
                future.set_result(found)
            else:
                future.set_exception(found)

        number = connection.call(command, done, seconds)
        try:
            return await future
        finally:
            connection.forget(number)

    async def post(self, address: str, command: Command) -> None:
        (await self.connection(address)).post(command)

    async def close(self) -> None:
        self._closed = True
        for task in list(self._opening.values()):
            task.cancel()
        await asyncio.gather(*self._opening.values(), return_exceptions=True)
        for connection in list(self._open.values()):
            connection.close()

    def drop(self, address: str) -> None:
        """Close a connection, so that the next request opens another."""
        found = self._open.get(address)
        if found is not None:
            found.close()

    def addresses(self) -> list[str]:
        return list(self._open)

    def connections(self) -> list[Connection]:
        return list(self._open.values())

    def abandon(self) -> None:
        for connection in self._open.values():
            connection.abandon()
        self._open.clear()
        self._closed = True

    # -- any other thread --------------------------------------------------------------------

    def connection_now(self, address: str, timeout: float) -> Connection:
        """An open connection; waits when it has to be opened."""
        found = self._open.get(address)
        if found is not None and found.is_open:
            return found
        future = asyncio.run_coroutine_threadsafe(
            self.connection(address, min(timeout, _CONNECT_TIMEOUT)), self.loop
        )
        try:
            return future.result(timeout)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise ConnectError(f"cannot connect to {address}: no answer in time") from None

    def ask_blocking(self, address: str, command: Command, timeout: float) -> Command:
        connection = self.connection_now(address, timeout)
        waiter = ResponseWaiter()
        number = connection.call(command, waiter, timeout)
        if not waiter.wait(timeout + 1.0) and connection.forget(number):
            raise timed_out(request_name(command.code), address)
        found = waiter.found
        if isinstance(found, Command):
            return found
        raise found if found is not None else ConnectionLostError(f"{address} is gone")
