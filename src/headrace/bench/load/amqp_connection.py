"""A blocking AMQP connection for setting up a measurement; the hot loops then use its socket."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Mapping
from typing import TypeVar

from headrace.bench.target import AmqpAddress, MeasureError
from headrace.wire.amqp import methods as m
from headrace.wire.amqp.method_codec import Method, decode_method, method_frame

M = TypeVar("M", bound=Method)

_RPC_SECONDS = 120  # deleting a large queue, or ten thousand bindings, is slow on some brokers


class AmqpConnection:
    """One connection with one open channel. Reads exactly what it expects, never ahead."""

    def __init__(self, address: AmqpAddress, *, channel: int = 1) -> None:
        self.channel = channel
        self._address = address
        self.server = "unknown broker"
        self.sock = socket.create_connection(address[:2], timeout=10)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Kernel timeouts on a blocking socket: Python's own would add a poll() to every call.
        self.sock.settimeout(None)
        self.set_timeout(_RPC_SECONDS)
        try:
            self._open()
        except BaseException:
            self.sock.close()
            raise

    def set_timeout(self, seconds: float) -> None:
        """How long a send or receive may stall; afterwards it raises BlockingIOError."""
        value = struct.pack("@ll", int(seconds), int(seconds % 1 * 1_000_000))
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", 120, 0))

    def _open(self) -> None:
        self.sock.sendall(b"AMQP\x00\x00\x09\x01")
        self.server = _server_name(self._expect(m.ConnectionStart).server_properties)
        _, _, user, password, vhost = self._address
        login = f"\0{user}\0{password}".encode()
        self._send(0, m.ConnectionStartOk({}, "PLAIN", login, "en_US"))
        self._expect(m.ConnectionTune)
        self._send(0, m.ConnectionTuneOk(2047, 131_072, 0))  # heartbeats break counting
        self._send(0, m.ConnectionOpen(vhost))
        self._expect(m.ConnectionOpenOk)
        self._call(m.ChannelOpen(), m.ChannelOpenOk)

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
            self.sock.sendall(b"".join(method_frame(self.channel, one) for one in binds))
            for _ in block:
                self._expect(m.QueueBindOk)

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
        self._call(m.BasicConsume(queue=queue, consumer_tag=tag, no_ack=auto_ack), m.BasicConsumeOk)

    def finish(self) -> None:
        """Close in order: returns when the broker has taken everything sent before."""
        self.set_timeout(20)
        with contextlib.suppress(OSError, MeasureError):
            self._send(0, m.ConnectionClose(200, "done"))
            while not isinstance(self._read(), m.ConnectionCloseOk):
                pass
        self.sock.close()

    def __enter__(self) -> AmqpConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    # -- frames --------------------------------------------------------------------------------

    def _send(self, channel: int, method: Method) -> None:
        self.sock.sendall(method_frame(channel, method))

    def _call(self, method: Method, answer: type[M]) -> M:
        self._send(self.channel, method)
        return self._expect(answer)

    def _expect(self, wanted: type[M]) -> M:
        method = self._read()
        if isinstance(method, wanted):
            return method
        if isinstance(method, m.ConnectionClose | m.ChannelClose):
            raise MeasureError(f"the broker closed: {method.reply_text}")
        raise MeasureError(f"expected {wanted.name}, got {method.name}")

    def _read(self) -> Method:
        """The next method; other frames are skipped."""
        while True:
            kind, _, size = struct.unpack(">BHI", self._take(7))
            payload = self._take(size + 1)
            if payload[-1] != 0xCE:
                raise MeasureError("a frame without its end byte")
            if kind == 1:
                return decode_method(payload[:-1])

    def _take(self, size: int) -> bytes:
        parts = []
        while size:
            try:
                part = self.sock.recv(size)
            except BlockingIOError:
                raise MeasureError("the broker did not answer in time") from None
            if not part:
                raise MeasureError("the broker closed the connection")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def _server_name(announced: Mapping[str, object]) -> str:
    name = f"{announced.get('product', 'unknown broker')} {announced.get('version', '')}".strip()
    # Headrace gives RabbitMQ's name, for clients derive features from it, and its own elsewhere.
    return f"Headrace, announced as {name}" if "Headrace" in str(announced) else name
