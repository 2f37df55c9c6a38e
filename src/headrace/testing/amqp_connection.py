"""A small AMQP connection for tests and measurements: nothing hidden or repeated, no threads."""

from __future__ import annotations

import socket
import struct
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from headrace.errors import BrokerError
from headrace.wire.amqp import methods as m
from headrace.wire.amqp.content import make_content
from headrace.wire.amqp.method_codec import Method, decode_method, method_frame
from headrace.wire.amqp.properties import Properties

M = TypeVar("M", bound=Method)

_HEAD = struct.Struct(">BHI")
_METHOD, _HEADER, _BODY, _HEARTBEAT = 1, 2, 3, 8
_FRAME_MAX = 131072
_CAPABILITIES = {
    "publisher_confirms": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
}
SECONDS = 20.0


class NoAnswer(BrokerError):
    """The broker did not send what it has to send, or not in time."""


class ConnectionLost(BrokerError):
    """The connection is gone. ``code`` is that of the broker's close, 0 when it said nothing."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


@dataclass(slots=True)
class ReceivedMethod:
    """A method from the broker, with its content if it has one."""

    channel: int
    method: Method
    properties: Properties | None = None
    body: bytes = b""


class RawConnection:
    """One connection. Frames are read only inside poll() and call()."""

    def __init__(
        self,
        port: int,
        *,
        host: str = "127.0.0.1",
        user: str = "guest",
        password: str = "guest",
        vhost: str = "/",
        heartbeat: int = 0,
        patience: float = SECONDS,
    ) -> None:
        self.blocked = False
        self.heartbeats = 0
        self.server_properties: Mapping[str, object] = {}
        self._patience = patience
        self._buffer = bytearray()
        self._events: deque[ReceivedMethod] = deque()
        self._open: dict[int, tuple[ReceivedMethod, int]] = {}  # contents that are not complete yet
        try:
            self.sock = socket.create_connection((host, port), timeout=SECONDS)
        except OSError as error:
            raise ConnectionLost(str(error)) from error
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._log_in(f"\0{user}\0{password}".encode(), vhost, heartbeat)
        except BaseException:
            self.close()
            raise

    def _log_in(self, login: bytes, vhost: str, heartbeat: int) -> None:
        self.send_bytes(b"AMQP\x00\x00\x09\x01")
        self.server_properties = self.wait_for(m.ConnectionStart).server_properties
        properties: dict[str, object] = {"product": "verify", "capabilities": _CAPABILITIES}
        self.send(0, m.ConnectionStartOk(properties, "PLAIN", login, "en_US"))
        self.wait_for(m.ConnectionTune)
        self.send(0, m.ConnectionTuneOk(2047, _FRAME_MAX, heartbeat))
        self.call(0, m.ConnectionOpen(vhost), m.ConnectionOpenOk)

    # -- sending --------------------------------------------------------------------------------

    def send_bytes(self, data: bytes) -> None:
        try:
            self.sock.sendall(data)
        except OSError as error:
            raise ConnectionLost(str(error)) from error

    def send(self, channel: int, method: Method) -> None:
        self.send_bytes(method_frame(channel, method))

    def publish(
        self, channel: int, exchange: str, key: str, body: bytes, properties: Properties
    ) -> None:
        method = method_frame(channel, m.BasicPublish(exchange=exchange, routing_key=key))
        self.send_bytes(method + make_content(properties, body, channel))

    def open_channel(self, channel: int) -> int:
        self.call(channel, m.ChannelOpen(), m.ChannelOpenOk)
        return channel

    def beat(self) -> None:
        self.send_bytes(b"\x08\x00\x00\x00\x00\x00\x00\xce")

    # -- receiving ------------------------------------------------------------------------------

    def call(self, channel: int, method: Method, answer: type[M]) -> M:
        """Send, and wait for the answer; whatever else comes meanwhile is kept for poll()."""
        self.send(channel, method)
        return self.wait_for(answer, channel)

    def wait_for(self, wanted: type[M], channel: int = 0, seconds: float | None = None) -> M:
        """The next method of that type on the channel; others are kept for poll()."""
        seconds = self._patience if seconds is None else seconds
        deadline = time.monotonic() + seconds
        while True:
            for event in self._events:
                if isinstance(event.method, wanted) and event.channel == channel:
                    self._events.remove(event)
                    return event.method
            if time.monotonic() > deadline:
                raise NoAnswer(f"no {wanted.name} within {seconds:g} s")
            self._read(0.05)

    def poll(self, seconds: float = 0.0) -> list[ReceivedMethod]:
        """What has arrived, after up to ``seconds`` for the first; ConnectionLost at the end."""
        if not self._events:
            self._read(seconds)
        events = list(self._events)
        self._events.clear()
        return events

    def _read(self, seconds: float) -> None:
        self.sock.settimeout(max(seconds, 0.0001))
        try:
            data = self.sock.recv(1 << 18)
        except TimeoutError:
            return
        except OSError as error:
            raise ConnectionLost(str(error)) from error
        finally:
            self.sock.settimeout(self._patience)
        if not data:
            raise ConnectionLost("the broker hung up")
        self._buffer += data
        self._take_frames()

    def _take_frames(self) -> None:
        at = 0
        while len(self._buffer) - at >= _HEAD.size:
            kind, channel, size = _HEAD.unpack_from(self._buffer, at)
            stop = at + _HEAD.size + size + 1
            if stop > len(self._buffer):
                break
            if self._buffer[stop - 1] != 0xCE:
                raise NoAnswer("a frame without its end octet")
            self._frame(kind, channel, bytes(self._buffer[at + _HEAD.size : stop - 1]))
            at = stop
        del self._buffer[:at]

    def _frame(self, kind: int, channel: int, payload: bytes) -> None:
        if kind == _METHOD:
            self._method(channel, decode_method(payload))
        elif kind == _HEADER:
            event, _ = self._open[channel]
            event.properties, size = Properties.decode(payload)
            self._content(channel, event, size)
        elif kind == _BODY:
            event, size = self._open[channel]
            event.body += payload
            self._content(channel, event, size)
        elif kind == _HEARTBEAT:
            self.heartbeats += 1

    def _content(self, channel: int, event: ReceivedMethod, size: int) -> None:
        if len(event.body) < size:
            self._open[channel] = (event, size)
        else:
            self._open.pop(channel, None)
            self._events.append(event)

    def _method(self, channel: int, method: Method) -> None:
        if isinstance(method, m.ConnectionBlocked | m.ConnectionUnblocked):
            self.blocked = isinstance(method, m.ConnectionBlocked)
        elif isinstance(method, m.ConnectionClose):
            self._answer_close()
            raise ConnectionLost(method.reply_text, method.reply_code)
        elif isinstance(method, m.ChannelClose):
            raise ConnectionLost(method.reply_text, method.reply_code)
        elif isinstance(method, m.BasicDeliver | m.BasicGetOk | m.BasicReturn):
            self._open[channel] = (ReceivedMethod(channel, method), 0)
        else:
            self._events.append(ReceivedMethod(channel, method))

    def _answer_close(self) -> None:
        with suppress(ConnectionLost):  # the connection is being closed with an error anyway
            self.send(0, m.ConnectionCloseOk())

    # -- ending ---------------------------------------------------------------------------------

    def rest(self) -> list[ReceivedMethod]:
        """After the broker's end: what it had sent before, down to the last whole frame."""
        events: list[ReceivedMethod] = list(self._events)
        self._events.clear()
        try:
            while True:
                events += self.poll(1.0)
        except ConnectionLost:
            events += self._events
        self.close()
        return events

    def close(self) -> None:
        self.sock.close()
