"""Sets up a measurement over AMQP; the hot loops then use the socket of the connection."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Mapping
from typing import Self, TypeVar

from headrace.bench.target import AmqpAddress
from headrace.errors import BrokerError
from headrace.testing.amqp_connection import RawConnection
from headrace.wire.amqp import methods as m
from headrace.wire.amqp.method_codec import Method, method_frame

M = TypeVar("M", bound=Method)

_RPC_SECONDS = 120  # deleting a large queue, or ten thousand bindings, is slow on some brokers
_END_SECONDS = 20


class AmqpConnection(RawConnection):
    """One connection with one open channel."""

    def __init__(self, address: AmqpAddress, *, channel: int = 1) -> None:
        super().__init__(**address._asdict(), patience=_RPC_SECONDS)
        self.channel = self.open_channel(channel)
        self.server = _server_name(self.server_properties)

    def set_timeout(self, seconds: float) -> None:
        """For a hot loop: how long a receive may stall; afterwards it raises BlockingIOError.

        Kernel timeouts on a blocking socket: Python's own would add a poll() to every call.
        """
        self.sock.settimeout(None)
        value = struct.pack("@ll", int(seconds), int(seconds % 1 * 1_000_000))
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", 120, 0))

    # -- topology ------------------------------------------------------------------------------

    def declare_queue(self, name: str, *, durable: bool = False) -> None:
        self._call(m.QueueDeclare(queue=name, durable=durable), m.QueueDeclareOk)

    def count(self, name: str) -> int:
        """Messages ready in the queue, by a passive declaration."""
        return self._call(m.QueueDeclare(queue=name, passive=True), m.QueueDeclareOk).message_count

    def declare_exchange(self, name: str, kind: str, *, durable: bool = False) -> None:
        declare = m.ExchangeDeclare(exchange=name, type=kind, durable=durable)
        self._call(declare, m.ExchangeDeclareOk)

    def bind(self, queue: str, exchange: str, keys: list[str]) -> None:
        """Bind with every key; requests are sent in blocks, answers counted."""
        for start in range(0, len(keys), 100):
            block = keys[start : start + 100]
            binds = [m.QueueBind(queue=queue, exchange=exchange, routing_key=key) for key in block]
            self.send_bytes(b"".join(method_frame(self.channel, one) for one in binds))
            for _ in block:
                self.wait_for(m.QueueBindOk, self.channel)

    def delete_queue(self, name: str) -> None:
        self._call(m.QueueDelete(queue=name), m.QueueDeleteOk)

    def delete_exchange(self, name: str) -> None:
        self._call(m.ExchangeDelete(exchange=name), m.ExchangeDeleteOk)

    # -- modes ---------------------------------------------------------------------------------

    def select_confirms(self) -> None:
        self._call(m.ConfirmSelect(), m.ConfirmSelectOk)

    def prefetch(self, count: int) -> None:
        self._call(m.BasicQos(prefetch_count=count), m.BasicQosOk)

    def consume(self, queue: str, tag: str, *, auto_ack: bool) -> None:
        """Without an answer, so that all that is read afterwards is deliveries; a refusal is found
        among them."""
        consume = m.BasicConsume(queue=queue, consumer_tag=tag, no_ack=auto_ack, nowait=True)
        self.send(self.channel, consume)

    def finish(self) -> None:
        """Close in order: returns when the broker has taken everything sent before."""
        with contextlib.suppress(BrokerError):
            self.send(0, m.ConnectionClose(200, "done"))
            self.wait_for(m.ConnectionCloseOk, seconds=_END_SECONDS)
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def _call(self, method: Method, answer: type[M]) -> M:
        return self.call(self.channel, method, answer)


def _server_name(announced: Mapping[str, object]) -> str:
    name = f"{announced.get('product', 'unknown broker')} {announced.get('version', '')}".strip()
    # Headrace gives RabbitMQ's name, for clients derive features from it, and its own elsewhere.
    return f"Headrace, announced as {name}" if "Headrace" in str(announced) else name
