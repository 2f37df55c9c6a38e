"""A blocking channel: the calls of a program. All methods may be called from any thread."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from headrace.client.core.channel_core import ChannelCore
from headrace.client.core.channel_state import ChannelState
from headrace.client.core.requests import (
    REPLY_TO,
    Arguments,
    ClientRequest,
    Message,
    described,
)
from headrace.client.core.unsettled import Delivery
from headrace.client.deliveries import CallbackQueue, DeliveryStream
from headrace.client.errors import ChannelClosed, HeadraceError
from headrace.client.properties import Properties
from headrace.closing import Closing

if TYPE_CHECKING:
    from headrace.client.connection import Connection

T = TypeVar("T")
P = ParamSpec("P")
_PATIENCE = 5.0  # seconds for a running callback when its channel closes


def _blocking(
    build: Callable[Concatenate[ChannelCore[Delivery], P], ClientRequest[T] | None],
) -> Callable[Concatenate[Channel, P], T]:
    """A method that sends its request, and waits for the result."""

    def call(self: Channel, /, *args: P.args, **kwargs: P.kwargs) -> T:
        request = build(self._core, *args, **kwargs)
        if request is None:
            return None  # type: ignore[return-value]  # an ack that is sent with others
        if request.first is not None:
            self.connection.call(self.state, request.first)
        return self.connection.call(self.state, request)

    return described(call, build)


class Channel(Closing):
    """Made by `Connection.create_channel()`. Failures raise; see `headrace.client.errors`."""

    def __init__(
        self,
        connection: Connection,
        state: ChannelState,
        core: ChannelCore[Delivery],
        callbacks: CallbackQueue,
    ) -> None:
        self.connection = connection
        self.state = state
        self._core = core
        self._callbacks = callbacks

    @property
    def is_open(self) -> bool:
        return self.state.closed is None and self.connection.is_open

    def __repr__(self) -> str:
        return f"<Channel {self.state.id}: {self.state.closed or 'open'}>"

    # -- exchanges, queues, bindings -------------------------------------------------------------

    exchange_declare = _blocking(ChannelCore.exchange_declare)
    exchange_delete = _blocking(ChannelCore.exchange_delete)
    queue_declare = _blocking(ChannelCore.queue_declare)
    queue_delete = _blocking(ChannelCore.queue_delete)
    queue_purge = _blocking(ChannelCore.queue_purge)
    queue_bind = _blocking(ChannelCore.queue_bind)
    queue_unbind = _blocking(ChannelCore.queue_unbind)
    exchange_bind = _blocking(ChannelCore.exchange_bind)
    exchange_unbind = _blocking(ChannelCore.exchange_unbind)

    def rows(self, kind: str) -> Iterator[dict[str, object]]:
        """List the broker's queues, exchanges, bindings or consumers."""
        page, more = 0, True
        while more:
            rows, more = self.connection.call(self.state, self._core.rows(kind, page))
            yield from rows
            page += 1

    # -- publishing ------------------------------------------------------------------------------

    basic_publish = _blocking(ChannelCore.basic_publish)

    def publish_async(
        self,
        exchange: str | None,
        key: str,
        properties: Properties = None,
        body: bytes | str = b"",
        *,
        retry: bool | None = None,
    ) -> Future[int]:
        """The same without waiting: the future is done when the message is confirmed."""
        request = self._core.basic_publish(exchange, key, properties, body, retry=retry)
        return self.connection.submit(self.state, request)

    def publish_batch(self, messages: Iterable[Message], *, retry: bool | None = None) -> list[int]:
        """Publish many (exchange, key, properties, body); returns when all are confirmed."""
        found: list[int] = []
        futures = self.publish_batch_async(messages, retry=retry)
        for future in futures:
            found += future.result(self.connection.settings.request_timeout + 1)
        return found

    def publish_batch_async(
        self, messages: Iterable[Message], *, retry: bool | None = None
    ) -> list[Future[list[int]]]:
        """One future for each request that it takes."""
        requests = self._core.publish_batches(messages, retry)
        return [self.connection.submit(self.state, request) for request in requests]

    # -- consuming -------------------------------------------------------------------------------

    basic_qos = _blocking(ChannelCore.basic_qos)
    basic_consume = _blocking(ChannelCore.basic_consume)
    _consume = _blocking(ChannelCore.consume)
    basic_cancel = _blocking(ChannelCore.basic_cancel)
    basic_get = _blocking(ChannelCore.basic_get)

    def deliveries(
        self,
        queue: str,
        *,
        auto_ack: bool = False,
        idle_timeout: float | None = None,
        exclusive: bool = False,
        arguments: Arguments = None,
    ) -> DeliveryStream:
        """Iterate over the messages of a queue: `for delivery in channel.deliveries(queue)`.

        ``auto_ack=True``: acknowledged when the next one is asked for.
        """
        tag = self._core.new_tag()
        stream = DeliveryStream(
            self.state.unsettled,
            tag,
            auto_ack=auto_ack or queue == REPLY_TO,
            idle_timeout=idle_timeout,
        )
        self._consume(queue, tag, stream, exclusive, arguments)
        stream.cancel = lambda: self.basic_cancel(tag)
        return stream

    # -- settling --------------------------------------------------------------------------------

    basic_ack = _blocking(ChannelCore.basic_ack)
    basic_nack = _blocking(ChannelCore.basic_nack)

    # -- the end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Finish the running callback, then close; unsettled messages are requeued. Idempotent."""
        if self.state.closed is not None or not self.connection.is_open:
            return
        self.quiesce(_PATIENCE)
        with contextlib.suppress(HeadraceError):  # channel or connection gone: closed as well
            self.connection.call(self.state, self._core.close())
        self.state.closed = ChannelClosed("the channel is closed")
        self.connection.forget(self)
        self.state.end(None)

    def send_close(self) -> Future[None]:
        """Send the request that closes it, for a connection that closes all its channels."""
        return self.connection.submit(self.state, self._core.close())

    def quiesce(self, timeout: float) -> None:
        """Stop callbacks; wait for the running one, so that its acknowledgement is sent."""
        self._callbacks.stop(timeout)
