"""A channel on asyncio: the calls of a program."""

from __future__ import annotations

import contextlib
from asyncio import Future, gather
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from headrace.client.aio.deliveries import CallbackQueue, Delivery, DeliveryStream
from headrace.client.core.channel_core import ChannelCore
from headrace.client.core.channel_state import ChannelState
from headrace.client.core.requests import (
    REPLY_TO,
    Arguments,
    ClientRequest,
    Message,
    described,
)
from headrace.client.errors import ChannelClosed, HeadraceError
from headrace.client.properties import Properties

if TYPE_CHECKING:
    from headrace.client.aio.connection import Connection

T = TypeVar("T")
P = ParamSpec("P")
_PATIENCE = 5.0  # seconds for a running callback when its channel closes


def _awaited(
    build: Callable[Concatenate[ChannelCore[Delivery], P], ClientRequest[T] | None],
) -> Callable[Concatenate[Channel, P], Coroutine[Any, Any, T]]:
    """A coroutine method: its request is sent, and its result awaited."""

    async def call(self: Channel, /, *args: P.args, **kwargs: P.kwargs) -> T:
        request = build(self._core, *args, **kwargs)
        if request is None:
            return None  # type: ignore[return-value]  # an ack that is sent with others
        if request.first is not None:
            await self.connection.call(self.state, request.first)
        return await self.connection.call(self.state, request)

    return described(call, build)


class Channel:
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

    exchange_declare = _awaited(ChannelCore.exchange_declare)
    exchange_delete = _awaited(ChannelCore.exchange_delete)
    queue_declare = _awaited(ChannelCore.queue_declare)
    queue_delete = _awaited(ChannelCore.queue_delete)
    queue_purge = _awaited(ChannelCore.queue_purge)
    queue_bind = _awaited(ChannelCore.queue_bind)
    queue_unbind = _awaited(ChannelCore.queue_unbind)
    exchange_bind = _awaited(ChannelCore.exchange_bind)
    exchange_unbind = _awaited(ChannelCore.exchange_unbind)

    async def rows(self, kind: str) -> AsyncIterator[dict[str, object]]:
        """List the broker's queues, exchanges, bindings or consumers."""
        page, more = 0, True
        while more:
            rows, more = await self.connection.call(self.state, self._core.rows(kind, page))
            for row in rows:
                yield row
            page += 1

    # -- publishing ------------------------------------------------------------------------------

    basic_publish = _awaited(ChannelCore.basic_publish)

    async def publish_async(
        self,
        exchange: str | None,
        key: str,
        properties: Properties = None,
        body: bytes | str = b"",
        *,
        retry: bool | None = None,
    ) -> Future[int]:
        """The same without waiting: the future is done when the message is confirmed."""
        await self.connection.room()
        request = self._core.basic_publish(exchange, key, properties, body, retry=retry)
        return self.connection.submit(self.state, request)

    async def publish_batch(
        self, messages: Iterable[Message], *, retry: bool | None = None
    ) -> list[int]:
        """Publish many (exchange, key, properties, body); returns when all are confirmed."""
        pending = []
        for request in self._core.publish_batches(messages, retry):
            await self.connection.room()
            pending.append(self.connection.submit(self.state, request))
        return [count for counts in await gather(*pending) for count in counts]

    # -- consuming -------------------------------------------------------------------------------

    basic_qos = _awaited(ChannelCore.basic_qos)
    basic_consume = _awaited(ChannelCore.basic_consume)
    _consume = _awaited(ChannelCore.consume)
    basic_cancel = _awaited(ChannelCore.basic_cancel)
    basic_get = _awaited(ChannelCore.basic_get)

    def deliveries(
        self,
        queue: str,
        *,
        auto_ack: bool = False,
        idle_timeout: float | None = None,
        exclusive: bool = False,
        arguments: Arguments = None,
    ) -> DeliveryStream:
        """Iterate over the messages: `async for delivery in channel.deliveries(queue)`.

        ``auto_ack=True``: acknowledged when the next one is asked for.
        """

        tag = self._core.new_tag()
        return DeliveryStream(
            self.state.unsettled,
            tag,
            lambda stream: self._consume(queue, tag, stream, exclusive, arguments),
            lambda: self.basic_cancel(tag),
            auto_ack=auto_ack or queue == REPLY_TO,
            idle_timeout=idle_timeout,
        )

    # -- settling --------------------------------------------------------------------------------

    basic_ack = _awaited(ChannelCore.basic_ack)
    basic_nack = _awaited(ChannelCore.basic_nack)

    # -- the end ---------------------------------------------------------------------------------

    async def close(self) -> None:
        """Finish the running callback, then close; unsettled messages are requeued. Idempotent."""
        if self.state.closed is not None or not self.connection.is_open:
            return
        await self.quiesce(_PATIENCE)
        with contextlib.suppress(HeadraceError):  # channel or connection gone: closed as well
            await self.connection.call(self.state, self._core.close())
        self.state.closed = ChannelClosed("the channel is closed")
        self.connection.forget(self)
        self.state.end(None)

    async def quiesce(self, within: float) -> None:
        """Stop callbacks; wait for the running one, so that its acknowledgement is sent."""
        await self._callbacks.stop(within)

    async def __aenter__(self) -> Channel:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
