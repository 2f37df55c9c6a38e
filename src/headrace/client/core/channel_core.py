"""Every call of a channel: its request, and what the reply changes. No I/O.

Both clients take their calls from here, with names, parameters and documentation; they differ only
in how they wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any, Generic

from headrace.client.core import requests
from headrace.client.core.callback_failures import (
    BaseConsumerCallback,
    Callback,
    Callbacks,
    DeliveryHandler,
    OnCancel,
)
from headrace.client.core.channel_state import ChannelState, ConsumerState, DeliverySink
from headrace.client.core.checks import checked_table
from headrace.client.core.connection_core import ConnectionCore
from headrace.client.core.requests import (
    REPLY_TO,
    Arguments,
    ClientRequest,
    Fields,
    Message,
    QueueInfo,
    Reply,
    nothing,
)
from headrace.client.core.unsettled import D
from headrace.client.errors import ConnectionClosed, NotFound
from headrace.client.properties import Properties
from headrace.client.settings import ExchangeType, OnFailure
from headrace.wire.native.payloads import Op


class ChannelCore(Generic[D]):
    """Builds the requests of one channel. Records change when the broker has agreed."""

    def __init__(
        self,
        connection: ConnectionCore,
        state: ChannelState,
        callbacks: Callbacks[Any],
        callback_class: type[BaseConsumerCallback[Any]],
        delivery_class: type[D],
    ) -> None:
        self._callbacks = callbacks
        self._callback_class = callback_class
        self._connection = connection
        self._state = state
        self._topology = connection.topology
        self._delivery_class = delivery_class
        self._numbers = count(1)

    # -- the channel -----------------------------------------------------------------------------

    def open(self) -> ClientRequest[None]:
        def finish(reply: Reply) -> None:
            self._connection.channels[self._state.id] = self._state

        return ClientRequest(Op.CHANNEL_OPEN, {}, finish, repeatable=True)

    def close(self) -> ClientRequest[None]:
        return ClientRequest(Op.CHANNEL_CLOSE, {}, nothing, waits=False)

    def basic_qos(self, prefetch: int) -> ClientRequest[None]:
        """At most so many unacknowledged messages for each consumer started later; 0: no limit."""

        def finish(reply: Reply) -> None:
            self._state.prefetch = prefetch
            self._state.unsettled.expect(prefetch)

        return ClientRequest(Op.QOS, {"prefetch": prefetch}, finish, repeatable=True)

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
    ) -> ClientRequest[None]:
        """No effect when it exists with these attributes; PreconditionFailed with others."""
        fields = {
            "name": name,
            "type": str(type),
            "durable": durable,
            "auto_delete": auto_delete,
            "internal": internal,
            "arguments": checked_table("arguments", arguments),
        }

        def finish(reply: Reply) -> None:
            self._topology.add_exchange(fields)

        return ClientRequest(Op.EXCHANGE_DECLARE, fields, finish, repeatable=True)

    def exchange_delete(self, name: str, *, if_unused: bool = False) -> ClientRequest[None]:
        """NotFound when it does not exist."""

        def finish(reply: Reply) -> None:
            self._topology.drop_exchange(name)

        return ClientRequest(Op.EXCHANGE_DELETE, {"name": name, "if_unused": if_unused}, finish)

    def queue_declare(
        self,
        name: str = "",
        *,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Arguments = None,
    ) -> ClientRequest[QueueInfo]:
        """Without a name the broker generates one, which is in the result."""
        fields = {
            "name": name,
            "durable": durable,
            "exclusive": exclusive,
            "auto_delete": auto_delete,
            "arguments": checked_table("arguments", arguments),
        }

        def finish(reply: Reply) -> QueueInfo:
            found = QueueInfo(reply["name"], reply["messages"], reply["consumers"])
            self._topology.add_queue(fields, found.name)
            return found

        # An exclusive queue is deleted with the lost connection; another without a name stays.
        return ClientRequest(Op.QUEUE_DECLARE, fields, finish, repeatable=bool(name) or exclusive)

    def queue_delete(
        self, name: str, *, if_unused: bool = False, if_empty: bool = False
    ) -> ClientRequest[int]:
        """Returns the number of messages deleted with it; NotFound when it does not exist."""

        def finish(reply: Reply) -> int:
            self._topology.drop_queue(self._topology.aliases.get(name, name))
            return int(reply["messages"])

        fields = {"name": name, "if_unused": if_unused, "if_empty": if_empty}
        return ClientRequest(Op.QUEUE_DELETE, fields, finish)

    def queue_purge(self, name: str) -> ClientRequest[int]:
        """Drop the ready messages; returns how many."""
        return ClientRequest(Op.PURGE, {"queue": name}, lambda reply: int(reply["messages"]))

    def queue_bind(
        self, queue: str, exchange: str, key: str = "", arguments: Arguments = None
    ) -> ClientRequest[None]:
        """The same binding twice is one binding."""
        return self._bind({"queue": queue, "source": exchange}, key, arguments)

    def queue_unbind(
        self, queue: str, exchange: str, key: str | None = None, arguments: Arguments = None
    ) -> ClientRequest[None]:
        """Without a key: all bindings of the pair."""
        return self._unbind({"queue": queue, "source": exchange}, key, arguments)

    def exchange_bind(
        self, destination: str, source: str, key: str = "", arguments: Arguments = None
    ) -> ClientRequest[None]:
        """Like queue_bind(), for the messages that ``source`` passes on to ``destination``."""
        return self._bind({"exchange": destination, "source": source}, key, arguments)

    def exchange_unbind(
        self, destination: str, source: str, key: str | None = None, arguments: Arguments = None
    ) -> ClientRequest[None]:
        """Without a key: all bindings of the pair."""
        return self._unbind({"exchange": destination, "source": source}, key, arguments)

    def _bind(self, ends: Fields, key: str, arguments: Arguments) -> ClientRequest[None]:
        fields = {**ends, "key": key, "arguments": checked_table("arguments", arguments)}

        def finish(reply: Reply) -> None:
            self._topology.add_binding(self._topology.resolve(Op.BIND, fields))

        return ClientRequest(Op.BIND, fields, finish, repeatable=True)

    def _unbind(self, ends: Fields, key: str | None, arguments: Arguments) -> ClientRequest[None]:
        fields = dict(ends)
        if key is not None:
            fields |= {"key": key, "arguments": checked_table("arguments", arguments)}

        def finish(reply: Reply) -> None:
            self._topology.drop_binding(self._topology.resolve(Op.UNBIND, fields))

        return ClientRequest(Op.UNBIND, fields, finish)

    def rows(self, kind: str, page: int) -> ClientRequest[tuple[list[dict[str, object]], bool]]:
        fields = {"kind": kind, "page": page}

        def finish(reply: Reply) -> tuple[list[dict[str, object]], bool]:
            return list(reply["rows"]), bool(reply.get("more"))

        return ClientRequest(Op.LIST, fields, finish, repeatable=True)

    # -- publishing ------------------------------------------------------------------------------

    def basic_publish(
        self,
        exchange: str | None,
        key: str,
        properties: Properties = None,
        body: bytes | str = b"",
        *,
        retry: bool | None = None,
    ) -> ClientRequest[int]:
        """Publish and wait for the confirm; returns the number of queues that got it.

        ``retry=True``: when the connection is lost before the confirm, it is sent again on the
        next one, so it arrives at least once. Otherwise ConnectionClosed is raised.
        """
        fields = requests.message_fields(exchange, key, properties, body)
        return requests.publish(fields, self._is_repeatable(retry))

    def publish_batches(
        self, messages: Iterable[Message], retry: bool | None
    ) -> Iterator[ClientRequest[list[int]]]:
        return requests.publish_batches(messages, self._is_repeatable(retry))

    def _is_repeatable(self, retry: bool | None) -> bool:
        return self._connection.settings.retry_publishes if retry is None else retry

    # -- consuming -------------------------------------------------------------------------------

    def new_tag(self) -> str:
        return f"ctag{self._state.id}.{next(self._numbers)}"

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
    ) -> ClientRequest[str]:
        """Call ``callback(consumer_tag, properties, body)`` for each message; the consumer's tag.

        Callbacks of one channel run in order: in threads of a blocking connection, or as functions
        or coroutine functions in the event loop. An object with a method `handle_delivery` may
        stand for the function. ``auto_ack=True``: acknowledged when the callback has returned. A
        callback that raises is logged, and ``on_failure`` says what becomes of the message.
        ``on_cancel(consumer_tag, error)`` is called when the consumer ends without having been
        asked to.
        """
        tag = consumer_tag or self.new_tag()
        sink = self._callback_class(
            self._callbacks,
            self._state.unsettled,
            callback,
            consumer_tag=tag,
            auto_ack=auto_ack or queue == REPLY_TO,
            on_failure=OnFailure(on_failure or self._connection.settings.on_failure),
            on_cancel=on_cancel,
        )
        return self.consume(queue, tag, sink, exclusive, arguments)

    def consume(
        self, queue: str, tag: str, sink: DeliverySink, exclusive: bool, arguments: Arguments
    ) -> ClientRequest[str]:
        # The client acknowledges, after the callback. Only replies to requests are in no queue, and
        # cannot be acknowledged.
        fields: Fields = {
            "queue": queue,
            "consumer_tag": tag,
            "auto_ack": queue == REPLY_TO,
            "exclusive": exclusive,
            "arguments": checked_table("arguments", arguments),
        }
        consumers = self._state.consumers
        consumer = ConsumerState(tag, fields, sink)

        def prepare() -> None:
            # Before the answer: the first messages may come in the same packet.
            if tag in consumers:
                raise ValueError(f"this channel has a consumer {tag!r} already")
            consumer.fields = self._topology.resolve(Op.CONSUME, fields)
            consumers[tag] = consumer

        def failed(error: Exception) -> None:
            if consumers.get(tag) is consumer:
                del consumers[tag]

        def finish(reply: Reply) -> str:
            return str(reply["consumer_tag"])

        prefetch = self._connection.settings.prefetch
        first = self.basic_qos(prefetch) if self._state.prefetch is None else None
        return ClientRequest(
            Op.CONSUME, fields, finish, prepare=prepare, failed=failed, first=first
        )

    def basic_cancel(self, consumer_tag: str) -> ClientRequest[None]:
        """No more messages; those delivered already may still be settled."""
        consumers = self._state.consumers
        consumer = consumers.get(consumer_tag)

        def finish(reply: Reply) -> None:
            if consumer is None:
                return
            consumers.pop(consumer_tag, None)
            others = (one for state in self._connection.channels.values() for one in state.queues())
            if consumer.queue not in others:
                self._topology.last_consumer_left(consumer.queue)

        def failed(error: Exception) -> None:
            # Without a connection it has ended as well, and must not come back with the next.
            if isinstance(error, ConnectionClosed | NotFound):
                consumers.pop(consumer_tag, None)

        return ClientRequest(Op.CANCEL, {"consumer_tag": consumer_tag}, finish, failed=failed)

    def basic_get(self, queue: str, auto_ack: bool = False) -> ClientRequest[D | None]:
        """One message, or None when the queue is empty."""
        unsettled = self._state.unsettled

        def finish(reply: Reply) -> D | None:
            row = reply.get("message")
            if row is None:
                return None
            if auto_ack:
                return self._delivery_class(unsettled, unsettled.settled_already(row), "", row)
            (tag,) = unsettled.register((row,))
            return self._delivery_class(unsettled, tag, "", row)

        return ClientRequest(Op.GET, {"queue": queue, "auto_ack": auto_ack}, finish)

    # -- settling --------------------------------------------------------------------------------

    def basic_ack(
        self,
        queue: str | None = None,
        message_id: str | None = None,
        *,
        tag: int | None = None,
        multiple: bool = False,
        wait: bool | None = None,
    ) -> ClientRequest[None] | None:
        """Acknowledge by (queue, message id) or by tag; NotFound when it is not outstanding.

        ``wait=True``: returns when the broker has replied. ``wait=False``: sent soon, together
        with others; then only errors that the client detects raise. The default is False for a
        callback that acknowledges on its channel, and True otherwise.
        """
        # What nearly all callbacks do: acknowledge the message they are at.
        is_plain = wait is None and tag is None and not multiple
        if (
            is_plain
            and self._callbacks.is_here()
            and self._state.unsettled.ack_current(queue, message_id)
        ):
            return None
        return self._settle(queue, message_id, tag, multiple, wait)

    def basic_nack(
        self,
        queue: str | None = None,
        message_id: str | None = None,
        requeue: bool = True,
        *,
        tag: int | None = None,
        multiple: bool = False,
        wait: bool | None = None,
    ) -> ClientRequest[None] | None:
        """Requeue it, or (``requeue=False``) dead-letter or drop it."""
        return self._settle(queue, message_id, tag, multiple, wait, requeue)

    def _settle(
        self,
        queue: str | None,
        message_id: str | None,
        tag: int | None,
        multiple: bool,
        wait: bool | None,
        requeue: bool | None = None,
    ) -> ClientRequest[None] | None:
        """An ack, or a nack when ``requeue`` is not None. None: there is nothing to wait for."""
        if tag is None and (queue is None or message_id is None):
            raise TypeError("name the message by queue and message_id, or by tag")
        if multiple or wait or (wait is None and not self._callbacks.is_here()):
            return self._settlement(queue or "", message_id or "", tag, multiple, requeue)
        self._settle_later(queue or "", message_id or "", tag, requeue)
        return None

    def _settlement(
        self, queue: str, message_id: str, tag: int | None, multiple: bool, requeue: bool | None
    ) -> ClientRequest[None] | None:
        """The request to wait for. None: its connection is gone."""
        unsettled = self._state.unsettled
        if tag is not None and unsettled.is_stale(tag):
            return None
        fields: Fields = {"multiple": multiple}
        if requeue is not None:
            fields["requeue"] = requeue

        def prepare() -> None:
            number = tag if tag is not None else self._find(queue, message_id)
            if number is None:  # the broker refuses it
                fields.update(queue=queue, message_id=message_id)
                return
            if unsettled.is_stale(number):
                raise ConnectionClosed("the connection was lost; the message is redelivered")
            fields["tag"] = unsettled.wire_tag(number)
            unsettled.claim(number, multiple)

        op = Op.ACK if requeue is None else Op.NACK
        return ClientRequest(op, fields, nothing, waits=False, prepare=prepare)

    def _settle_later(
        self, queue: str, message_id: str, tag: int | None, requeue: bool | None
    ) -> None:
        """Settle without waiting for the broker's reply."""
        if tag is None:
            tag = self._find(queue, message_id)
        if tag is None:
            raise NotFound(
                f"this channel has no unacknowledged message {message_id!r} of queue {queue!r}"
            )
        if requeue is None:
            self._state.unsettled.ack(tag)
        else:
            self._state.unsettled.nack(tag, requeue)

    def _find(self, queue: str, message_id: str) -> int | None:
        name = self._topology.aliases.get(queue, queue)
        return self._state.unsettled.find(name, message_id)
