"""Blocking connections: the factory, and the connection that many threads may share."""

from __future__ import annotations

import contextlib
import os
import time
import weakref
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import fields, replace
from itertools import count
from typing import Any, TypeVar

from headrace.client.channel import Channel
from headrace.client.core.channel_core import ChannelCore
from headrace.client.core.channel_state import ChannelState
from headrace.client.core.requests import ClientRequest
from headrace.client.core.unsettled import Delivery
from headrace.client.deliveries import CallbackQueue, CallbackThreads, ConsumerCallback
from headrace.client.errors import ConnectionClosed, HeadraceError, RequestTimeout
from headrace.client.settings import Settings, settings_of
from headrace.client.transport import Transport
from headrace.closing import Closing
from headrace.wire.native.payloads import Op

T = TypeVar("T")
_numbers = count(1)
_GRACE = 5.0  # seconds for a closing connection to send the rest
_SETTINGS = tuple(field.name for field in fields(Settings))
_living: weakref.WeakSet[Connection] = weakref.WeakSet()


class ConnectionFactory:
    """Where a broker is and how to behave towards it; makes connections.

    The keywords are the fields of `Settings`, and so are its attributes, which may be set.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 9090,
        user: str | None = "guest",
        password: str = "guest",
        vhost: str = "/",
        **options: Any,  # noqa: ANN401 - checked by Settings
    ) -> None:
        self.settings = replace(Settings(host, port, user, password, vhost), **options)

    def __setattr__(self, name: str, value: Any) -> None:  # noqa: ANN401 - of any setting
        """`factory.host = ...`: a setting of the connections made from now on."""
        if name != "settings":
            name, value = "settings", replace(self.settings, **{_known(name): value})
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - of any setting
        known = _known(name)  # before `settings`, which a copy does not have yet
        return getattr(self.settings, known)

    @classmethod
    def from_url(cls, url: str, **options: Any) -> ConnectionFactory:  # noqa: ANN401
        """From `headrace://user:password@host:port/vhost`; `headraces://` is over TLS."""
        factory = cls()
        factory.settings = replace(settings_of(url), **options)
        return factory

    def new_connection(self) -> Connection:
        """Connect and log in; LoginRefused, ConnectionClosed or RequestTimeout when it fails."""
        return Connection(self.settings)


def _known(name: str) -> str:
    if name not in _SETTINGS:
        raise AttributeError(
            f"unknown setting {name!r} of ConnectionFactory; expected one of {', '.join(_SETTINGS)}"
        )
    return name


class Connection(Closing):
    """One socket, many channels. All methods may be called from any thread."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        name = f"headrace-{next(_numbers)}"
        self._pid = os.getpid()
        self._transport = Transport(settings, name)
        self._threads = CallbackThreads(settings.callback_threads, name)
        self._channels: set[Channel] = set()
        self._transport.start()
        _living.add(self)
        try:
            ping = ClientRequest(Op.PING, {}, lambda reply: None)
            self.call(None, ping, settings.connect_timeout + settings.request_timeout)
        except BaseException:
            self._end()
            raise

    # -- for programs ----------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """False once it is closed; True while it is reconnecting."""
        return self._transport.core.is_open

    @property
    def is_connected(self) -> bool:
        """True when requests are sent at once."""
        return self._transport.core.is_ready

    def create_channel(self) -> Channel:
        with self._transport.lock:
            core = self._transport.core
            state = core.new_channel()
        callbacks = CallbackQueue(self._threads)
        requests = ChannelCore(core, state, callbacks, ConsumerCallback, Delivery)
        self.call(state, requests.open())
        channel = Channel(self, state, requests, callbacks)
        self._channels.add(channel)
        return channel

    def close(self) -> None:
        """Finish the callbacks that run, send what is to be sent, close. Twice does no harm."""
        if self._pid != os.getpid():
            return
        deadline = time.monotonic() + _GRACE
        if self.is_connected:
            for channel in tuple(self._channels):
                channel.quiesce(max(0.0, deadline - time.monotonic()))
            closing = [one.send_close() for one in tuple(self._channels)]
            for future in closing:
                with contextlib.suppress(HeadraceError, FutureTimeout):
                    future.result(max(0.0, deadline - time.monotonic()))
        self._end()

    def _end(self) -> None:
        with self._transport.lock:
            self._transport.core.close()
        self._transport.hand_over()
        self._transport.stop(_GRACE)
        self._threads.stop(_GRACE)
        self._channels.clear()
        _living.discard(self)

    # -- for channels ----------------------------------------------------------------------------

    def submit(
        self, channel: ChannelState | None, request: ClientRequest[T], timeout: float | None = None
    ) -> Future[T]:
        """Send a request; its result comes with the future."""
        if self._pid != os.getpid():
            raise ConnectionClosed(
                "a connection cannot be used in a forked process: open a new one"
            )
        future: Future[T] = Future()
        transport = self._transport
        deadline = time.monotonic() + (timeout or self.settings.request_timeout)
        with transport.lock:
            if request.op == Op.PUBLISH and not transport.is_reader():
                transport.wait_for_room(deadline)
            transport.core.submit(channel, request, future, deadline)
            transport.flush()
            results = transport.core.requests.take_results()
        results()
        return future

    def call(
        self, channel: ChannelState | None, request: ClientRequest[T], timeout: float | None = None
    ) -> T:
        """Send a request and wait for its result."""
        if self._transport.is_reader():
            raise RuntimeError(
                "no blocking calls in a callback of a future: run them in another thread"
            )
        future = self.submit(channel, request, timeout)
        try:
            return future.result(timeout or self.settings.request_timeout)
        except FutureTimeout:
            with self._transport.lock:
                self._transport.core.requests.abandon(future)
            raise RequestTimeout("no answer in time") from None

    def forget(self, channel: Channel) -> None:
        """The channel is closed."""
        self._channels.discard(channel)
        with self._transport.lock:
            self._transport.core.channels.pop(channel.state.id, None)


def _after_fork() -> None:
    for connection in tuple(_living):
        connection._transport.abandon()


os.register_at_fork(after_in_child=_after_fork)
