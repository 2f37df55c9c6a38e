"""A blocking AMQP connection for setting up a measurement; the hot loops then use its socket."""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import NamedTuple

from headrace.bench.errors import MeasureError
from headrace.bench.load import frames

_RPC_SECONDS = 120  # deleting a large queue, or ten thousand bindings, is slow on some brokers


class AmqpAddress(NamedTuple):
    """Where a broker listens, and how to log in."""

    host: str
    port: int
    user: str = "guest"
    password: str = "guest"
    vhost: str = "/"


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
        self.sock.sendall(frames.PROTOCOL_HEADER)
        self.server = _server_name(self._expect(10, 10))
        _, _, user, password, name = self._address
        login = frames.long(f"\0{user}\0{password}".encode())
        start_ok = frames.long(b"") + frames.short("PLAIN") + login + frames.short("en_US")
        self.sock.sendall(frames.method(0, 10, 11, start_ok))
        self._expect(10, 30)
        tune_ok = struct.pack(
            ">HIH", 2047, frames.FRAME_MAX, 0
        )  # no heartbeats: they break counting
        vhost = frames.short(name) + b"\x00\x00"
        self.sock.sendall(frames.method(0, 10, 31, tune_ok) + frames.method(0, 10, 40, vhost))
        self._expect(10, 41)
        self._call(20, 10, b"\x00")

    # -- topology ------------------------------------------------------------------------------

    def declare_queue(self, name: str, *, durable: bool = False) -> None:
        bits = bytes((2 if durable else 0,))
        self._call(50, 10, b"\x00\x00" + frames.short(name) + bits + frames.long(b""))

    def count(self, name: str) -> int:
        """Messages ready in the queue, by a passive declaration."""
        reply = self._call(50, 10, b"\x00\x00" + frames.short(name) + b"\x01" + frames.long(b""))
        at = 1 + reply[0]
        return int.from_bytes(reply[at : at + 4], "big")

    def declare_exchange(self, name: str, kind: str, *, durable: bool = False) -> None:
        bits = bytes((2 if durable else 0,))
        names = frames.short(name) + frames.short(kind)
        self._call(40, 10, b"\x00\x00" + names + bits + frames.long(b""))

    def bind(self, queue: str, exchange: str, keys: list[str]) -> None:
        """Bind with every key; requests are sent in blocks, answers counted."""
        names = b"\x00\x00" + frames.short(queue) + frames.short(exchange)
        for start in range(0, len(keys), 100):
            block = keys[start : start + 100]
            tails = [frames.short(key) + b"\x00" + frames.long(b"") for key in block]
            self.sock.sendall(
                b"".join(frames.method(self.channel, 50, 20, names + t) for t in tails)
            )
            for _ in block:
                self._expect(50, 21)

    def delete_queue(self, name: str) -> None:
        self._call(50, 40, b"\x00\x00" + frames.short(name) + b"\x00")

    def delete_exchange(self, name: str) -> None:
        self._call(40, 20, b"\x00\x00" + frames.short(name) + b"\x00")

    # -- modes ---------------------------------------------------------------------------------

    def select_confirms(self) -> None:
        self._call(85, 10, b"\x00")

    def prefetch(self, count: int) -> None:
        self._call(60, 10, struct.pack(">IHB", 0, count, 0))

    def consume(self, queue: str, tag: str, *, auto_ack: bool) -> None:
        names = b"\x00\x00" + frames.short(queue) + frames.short(tag)
        self._call(60, 20, names + bytes((2 if auto_ack else 0,)) + frames.long(b""))

    def finish(self) -> None:
        """Close in order: returns when the broker has taken everything sent before."""
        self.set_timeout(20)
        with contextlib.suppress(OSError, MeasureError):
            close = struct.pack(">H", 200) + frames.short("done") + struct.pack(">HH", 0, 0)
            self.sock.sendall(frames.method(0, 10, 50, close))
            while self._read()[0] != (10, 51):
                pass
        self.sock.close()

    def __enter__(self) -> AmqpConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    # -- frames --------------------------------------------------------------------------------

    def _call(self, class_id: int, method_id: int, arguments: bytes) -> bytes:
        self.sock.sendall(frames.method(self.channel, class_id, method_id, arguments))
        return self._expect(class_id, method_id + 1)

    def _expect(self, class_id: int, method_id: int) -> bytes:
        name, arguments = self._read()
        if name == (class_id, method_id):
            return arguments
        if name in ((10, 50), (20, 40)):
            text = arguments[3 : 3 + arguments[2]].decode(errors="replace")
            raise MeasureError(f"the broker closed: {text}")
        raise MeasureError(f"expected method {class_id}.{method_id}, got {name[0]}.{name[1]}")

    def _read(self) -> tuple[tuple[int, int], bytes]:
        """The next method and its arguments; other frames are skipped."""
        while True:
            kind, _, size = struct.unpack(">BHI", self._take(7))
            payload = self._take(size + 1)
            if payload[-1] != 0xCE:
                raise MeasureError("a frame without its end byte")
            if kind == frames.METHOD:
                class_id, method_id = struct.unpack_from(">HH", payload)
                return (class_id, method_id), payload[4:-1]

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


def _server_name(start: bytes) -> str:
    """Product and version from the server properties, without decoding the whole table."""
    found = []
    for name in (b"\x07productS", b"\x07versionS"):
        at = start.find(name)
        if at >= 0:
            at += len(name) + 4
            size = int.from_bytes(start[at - 4 : at], "big")
            found.append(start[at : at + size].decode(errors="replace"))
    announced = " ".join(found) or "unknown broker"
    # Headrace gives RabbitMQ's name, for clients derive features from it, and its own elsewhere.
    return f"Headrace, announced as {announced}" if b"Headrace" in start else announced
