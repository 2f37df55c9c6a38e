"""A blocking channel: the calls of a program. All methods may be called from any thread."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

from headrace.client.core.callback_failures import Callback, DeliveryHandler, OnCancel
from headrace.client.core.channel_core import ChannelCore
from headrace.client.core.channel_state import ChannelState
from headrace.client.core.requests import REPLY_TO, Arguments, ClientRequest, Message, QueueInfo
from headrace.client.core.unsettled import Delivery
from headrace.client.deliveries import (
    CallbackQueue,
    CallbackThreads,
    ConsumerCallback,
    DeliveryStream,
)
from headrace.client.errors import ChannelClosed, HeadraceError
from headrace.client.properties import Properties
from headrace.client.settings import ExchangeType, OnFailure

if TYPE_CHECKING:
    from headrace.client.connection import Connection

T = TypeVar("T")
_PATIENCE = 5.0  # seconds for a running callback when its channel closes


class Channel:
    """Made by `Connection.create_channel()`. Failures raise; see `headrace.client.errors`."""

    def __init__(
        self,
        connection: Connection,
        state: ChannelState,
        core: ChannelCore[Delivery],
        threads: CallbackThreads,
    ) -> None:
        self.connection = connection
        self.state = state
        self._core = core
        self._threads = threads
        self._callbacks: CallbackQueue | None = None

    @property
    def is_open(self) -> bool:
        return self.state.closed is None and self.connection.is_open

    def __repr__(self) -> str:
        return f"<Channel {self.state.id}: {self.state.closed or 'open'}>"

    def _wait(self, request: ClientRequest[T]) -> T:
        return self.connection.call(self.state, request)

    # -- exchanges, queues, bindings -------------------------------------------------------------

    def exchange_declare(
        self,
        name: str,
        type: ExchangeType | str = ExchangeType.DIRECT,
        *,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Arguments = None,
    ) -> None:
        """No effect when it exists with these attributes; PreconditionFailed with others."""
        flags = (durable, auto_delete, internal)
        self._wait(self._core.exchange_declare(name, type, *flags, arguments))

    def exchange_delete(self, name: str, *, if_unused: bool = False) -> None:
        """NotFound when it does not exist."""
        self._wait(self._core.exchange_delete(name, if_unused))

    def queue_declare(
        self,
        name: str = "",
        *,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Arguments = None,
    ) -> QueueInfo:
        """Without a name the broker generates one, which is in the result."""
        flags = (durable, exclusive, auto_delete)
        return self._wait(self._core.queue_declare(name, *flags, arguments))

    def queue_delete(self, name: str, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Returns the number of messages deleted with it; NotFound when it does not exist."""
        return self._wait(self._core.queue_delete(name, if_unused, if_empty))

    def queue_purge(self, name: str) -> int:
        """Drop the ready messages; returns how many."""
        return self._wait(self._core.queue_purge(name))

    def queue_bind(
        self, queue: str, exchange: str, key: str = "", arguments: Arguments = None
    ) -> None:
        """The same binding twice is one binding."""
        self._wait(self._core.bind("queue", queue, exchange, key, arguments))

    def queue_unbind(
        self, queue: str, exchange: str, key: str | None = None, arguments: Arguments = None
    ) -> None:
        """Without a key: all bindings of the pair."""
        self._wait(self._core.unbind("queue", queue, exchange, key, arguments))

    def exchange_bind(
        self, destination: str, source: str, key: str = "", arguments: Arguments = None
    ) -> None:
        self._wait(self._core.bind("exchange", destination, source, key, arguments))

    def exchange_unbind(
        self, destination: str, source: str, key: str | None = None, arguments: Arguments = None
    ) -> None:
        self._wait(self._core.unbind("exchange", destination, source, key, arguments))

    def rows(self, kind: str) -> Iterator[dict[str, object]]:
        """List the broker's queues, exchanges, bindings or consumers."""
        page, more = 0, True
        while more:
            rows, more = self._wait(self._core.rows(kind, page))
            yield from rows
            page += 1

    # -- publishing ------------------------------------------------------------------------------

    def basic_publish(
        self,
        exchange: str | None,
        key: str,
        properties: Properties = None,
        body: bytes | str = b"",
        *,
        retry: bool | None = None,
    ) -> int:
        """Publish and wait for the confirm; returns the number of queues that got it.

        ``retry=True``: when the connection is lost before the confirm, it is sent again on the
        next one, so it arrives at least once. Otherwise ConnectionClosed is raised.
        """
        return self._wait(self._core.publish(exchange, key, properties, body, retry))

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
        request = self._core.publish(exchange, key, properties, body, retry)
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

    def basic_qos(self, prefetch: int) -> None:
        """At most so many unacknowledged messages for each consumer started later; 0: no limit."""
        self._wait(self._core.qos(prefetch))

    def basic_consume(
        self,
        queue: str,
        auto_ack: bool,
        callback: Callback | DeliveryHandler,
        *,
        consumer_tag: str | None = None,
        exclusive: bool = False,
        arguments: Arguments = None,
        on_failure: OnFailure | str | None = None,
        on_cancel: OnCancel | None = None,
    ) -> str:
        """Call ``callback(consumer_tag, properties, body)`` for each message; the consumer's tag.

        Callbacks run in threads of the connection, those of one channel in order.
        An object with a method `handle_delivery` may stand for the function.
        ``auto_ack=True``: acknowledged when the callback has returned. A callback that raises is
        logged, and ``on_failure`` says what becomes of the message. ``on_cancel(consumer_tag,
        error)`` is called when the consumer ends without having been asked to.
        """
        if self._callbacks is None:
            self._callbacks = self._core.callbacks = CallbackQueue(self._threads)
        sink = ConsumerCallback(
            self._callbacks,
            self.state.unsettled,
            callback,
            auto_ack=auto_ack or queue == REPLY_TO,
            on_failure=OnFailure(on_failure or self.connection.settings.on_failure),
            on_cancel=on_cancel,
        )
        sink.consumer_tag = consumer_tag or self._core.new_tag()
        return self._consume(queue, sink, exclusive, arguments)

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
        stream = DeliveryStream(
            self.state.unsettled, auto_ack=auto_ack or queue == REPLY_TO, idle_timeout=idle_timeout
        )
        stream.consumer_tag = tag = self._core.new_tag()
        self._consume(queue, stream, exclusive, arguments)
        stream.cancel = lambda: self.basic_cancel(tag)
        return stream

    def _consume(
        self,
        queue: str,
        sink: ConsumerCallback | DeliveryStream,
        exclusive: bool,
        arguments: Arguments,
    ) -> str:
        if self.state.prefetch is None:
            self.basic_qos(self.connection.settings.prefetch)
        tag = sink.consumer_tag
        return self._wait(self._core.consume(queue, tag, sink, exclusive, arguments))

    def basic_cancel(self, consumer_tag: str) -> None:
        """No more messages; those delivered already may still be settled."""
        self._wait(self._core.cancel(consumer_tag))

    def basic_get(self, queue: str, auto_ack: bool = False) -> Delivery | None:
        """One message, or None when the queue is empty."""
        return self._wait(self._core.get(queue, auto_ack))

    # -- settling --------------------------------------------------------------------------------

    def basic_ack(
        self,
        queue: str | None = None,
        message_id: str | None = None,
        *,
        tag: int | None = None,
        multiple: bool = False,
        wait: bool | None = None,
    ) -> None:
        """Acknowledge by (queue, message id) or by tag; NotFound when it is not outstanding.

        ``wait=True``: returns when the broker has replied. ``wait=False``: sent soon, together
        with others; then only errors that the client detects raise. The default is False for a
        callback that acknowledges on its channel, and True otherwise.
        """
        request = self._core.settle(queue, message_id, tag, multiple, wait)
        if request is not None:
            self._wait(request)

    def basic_nack(
        self,
        queue: str | None = None,
        message_id: str | None = None,
        requeue: bool = True,
        *,
        tag: int | None = None,
        multiple: bool = False,
        wait: bool | None = None,
    ) -> None:
        """Requeue it, or (``requeue=False``) dead-letter or drop it."""
        request = self._core.settle(queue, message_id, tag, multiple, wait, requeue)
        if request is not None:
            self._wait(request)

    # -- the end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Finish the running callback, then close; unsettled messages are requeued. Idempotent."""
        if self.state.closed is not None or not self.connection.is_open:
            return
        self.quiesce(_PATIENCE)
        with contextlib.suppress(HeadraceError):  # channel or connection gone: closed as well
            self._wait(self._core.close())
        self.state.closed = ChannelClosed("the channel is closed")
        self.connection.forget(self)
        self.state.end(None)

    def send_close(self) -> Future[None]:
        """Send the request that closes it, for a connection that closes all its channels."""
        return self.connection.submit(self.state, self._core.close())

    def quiesce(self, timeout: float) -> None:
        """Stop callbacks; wait for the running one, so that its acknowledgement is sent."""
        if self._callbacks is not None:
            self._callbacks.stop(timeout)

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
