"""Every call of a channel: its request, and what the reply changes. No I/O.

Both clients build their calls here; they differ only in how they wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Generic, Protocol

from headrace.client.core import requests
from headrace.client.core.channel_state import ChannelState, ConsumerState, DeliverySink
from headrace.client.core.checks import checked_table
from headrace.client.core.connection_core import ConnectionCore
from headrace.client.core.requests import (
    Arguments,
    ClientRequest,
    Message,
    QueueInfo,
    Reply,
    nothing,
)
from headrace.client.core.unsettled import D
from headrace.client.errors import ConnectionClosed, NotFound
from headrace.client.properties import Properties
from headrace.client.settings import ExchangeType
from headrace.wire.native.payloads import Op


class CallbackContext(Protocol):
    """Where callbacks of a channel run."""

    def is_here(self) -> bool:
        """True in a callback of this channel."""


class ChannelCore(Generic[D]):
    """Builds the requests of one channel. Records change when the broker has agreed."""

    def __init__(
        self, connection: ConnectionCore, state: ChannelState, delivery_class: type[D]
    ) -> None:
        self.callbacks: CallbackContext | None = None
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

    def qos(self, prefetch: int) -> ClientRequest[None]:
        def finish(reply: Reply) -> None:
            self._state.prefetch = prefetch
            self._state.unsettled.expect(prefetch)

        return ClientRequest(Op.QOS, {"prefetch": prefetch}, finish, repeatable=True)

    # -- exchanges, queues, bindings -------------------------------------------------------------

    def exchange_declare(
        self,
        name: str,
        kind: ExchangeType | str,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Arguments,
    ) -> ClientRequest[None]:
        fields = {
            "name": name,
            "type": str(kind),
            "durable": durable,
            "auto_delete": auto_delete,
            "internal": internal,
            "arguments": checked_table("arguments", arguments),
        }

        def finish(reply: Reply) -> None:
            self._topology.add_exchange(fields)

        return ClientRequest(Op.EXCHANGE_DECLARE, fields, finish, repeatable=True)

    def exchange_delete(self, name: str, if_unused: bool) -> ClientRequest[None]:
        def finish(reply: Reply) -> None:
            self._topology.drop_exchange(name)

        return ClientRequest(Op.EXCHANGE_DELETE, {"name": name, "if_unused": if_unused}, finish)

    def queue_declare(
        self, name: str, durable: bool, exclusive: bool, auto_delete: bool, arguments: Arguments
    ) -> ClientRequest[QueueInfo]:
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

    def queue_delete(self, name: str, if_unused: bool, if_empty: bool) -> ClientRequest[int]:
        def finish(reply: Reply) -> int:
            self._topology.drop_queue(self._topology.aliases.get(name, name))
            return int(reply["messages"])

        fields = {"name": name, "if_unused": if_unused, "if_empty": if_empty}
        return ClientRequest(Op.QUEUE_DELETE, fields, finish)

    def queue_purge(self, name: str) -> ClientRequest[int]:
        return ClientRequest(Op.PURGE, {"queue": name}, lambda reply: int(reply["messages"]))

    def bind(
        self, kind: str, destination: str, source: str, key: str, arguments: Arguments
    ) -> ClientRequest[None]:
        fields = requests.binding_fields(kind, destination, source, key, arguments)

        def finish(reply: Reply) -> None:
            self._topology.add_binding(self._topology.resolve(Op.BIND, fields))

        return ClientRequest(Op.BIND, fields, finish, repeatable=True)

    def unbind(
        self, kind: str, destination: str, source: str, key: str | None, arguments: Arguments
    ) -> ClientRequest[None]:
        fields = requests.binding_fields(kind, destination, source, key, arguments)

        def finish(reply: Reply) -> None:
            self._topology.drop_binding(self._topology.resolve(Op.UNBIND, fields))

        return ClientRequest(Op.UNBIND, fields, finish)

    def rows(self, kind: str, page: int) -> ClientRequest[tuple[list[dict[str, object]], bool]]:
        fields = {"kind": kind, "page": page}

        def finish(reply: Reply) -> tuple[list[dict[str, object]], bool]:
            return list(reply["rows"]), bool(reply.get("more"))

        return ClientRequest(Op.LIST, fields, finish, repeatable=True)

    # -- publishing ------------------------------------------------------------------------------

    def publish(
        self,
        exchange: str | None,
        key: str,
        properties: Properties,
        body: bytes | str,
        retry: bool | None,
    ) -> ClientRequest[int]:
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

    def consume(
        self, queue: str, tag: str, sink: DeliverySink, exclusive: bool, arguments: Arguments
    ) -> ClientRequest[str]:
        fields = requests.consume_fields(queue, tag, exclusive, arguments)
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

        return ClientRequest(Op.CONSUME, fields, finish, prepare=prepare, failed=failed)

    def cancel(self, tag: str) -> ClientRequest[None]:
        consumers = self._state.consumers
        consumer = consumers.get(tag)

        def finish(reply: Reply) -> None:
            if consumer is None:
                return
            consumers.pop(tag, None)
            others = (one for state in self._connection.channels.values() for one in state.queues())
            if consumer.queue not in others:
                self._topology.last_consumer_left(consumer.queue)

        def failed(error: Exception) -> None:
            # Without a connection it has ended as well, and must not come back with the next.
            if isinstance(error, ConnectionClosed | NotFound):
                consumers.pop(tag, None)

        return ClientRequest(Op.CANCEL, {"consumer_tag": tag}, finish, failed=failed)

    def get(self, queue: str, auto_ack: bool) -> ClientRequest[D | None]:
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

    def settle(
        self,
        queue: str | None,
        message_id: str | None,
        tag: int | None,
        multiple: bool,
        wait: bool | None,
        requeue: bool | None = None,
    ) -> ClientRequest[None] | None:
        """An ack, or a nack when ``requeue`` is not None. None: there is nothing to wait for."""
        here = self.callbacks is not None and self.callbacks.is_here()
        is_plain = wait is None and tag is None and not multiple and requeue is None
        # What nearly all callbacks do: acknowledge the message they are at.
        if here and is_plain and self._state.unsettled.ack_current(queue, message_id):
            return None
        if tag is None and (queue is None or message_id is None):
            raise TypeError("name the message by queue and message_id, or by tag")
        if multiple or wait or (wait is None and not here):
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
        fields: requests.Fields = {"multiple": multiple}
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
