"""A raw-socket AMQP client for the tests: it does what it is told and hides nothing.

One thread, one socket, every read with a limit. Frames of other channels wait until they are
asked for.
"""

import contextlib
import socket
import struct
import time
from collections import deque
from typing import Any

from support.amqp_codec import (
    BODY,
    CONTENT_METHODS,
    HEADER,
    HEARTBEAT,
    METHOD,
    PROTOCOL_HEADER,
    Content,
    Frame,
    Method,
    decode_method,
    frame,
    header_payload,
    method_payload,
)

DEFAULT_LIMIT = 5.0

# Class and method of connection.close and connection.close-ok.
_CLOSE, _CLOSE_OK = struct.pack(">HH", 10, 50), struct.pack(">HH", 10, 51)

CAPABILITIES = {
    "publisher_confirms": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
}


class SocketEnded(Exception):
    """The broker hung up without (or after) a word."""


class NothingCame(Exception):
    """No frame arrived within the limit."""


class Closed(Exception):
    """The broker closed a channel or the connection."""

    def __init__(self, close: Method) -> None:
        super().__init__(f"{close.name} {close.code} {close.text}")
        self.close = close
        self.code: int = close.code
        self.text: str = close.text


class ChannelClosed(Closed):
    pass


class ConnectionClosed(Closed):
    pass


class RawClient:
    """One connection. Unless told otherwise it is a polite client with all capabilities."""

    def __init__(self, address: tuple[str, int], *, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(DEFAULT_LIMIT)
        self.socket.connect(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray()
        self._waiting: dict[int, deque[Method]] = {}
        self._unfinished: dict[int, Method] = {}
        self.server_properties: dict[str, Any] = {}
        self.frame_max = 131072
        self.is_open = False

    # -- writing

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_frame(self, kind: int, channel: int, payload: bytes) -> None:
        self.send(frame(kind, channel, payload))

    def send_method(self, channel: int, name: str, **arguments: Any) -> None:  # noqa: ANN401
        self.send_frame(METHOD, channel, method_payload(name, **arguments))

    # -- reading

    def read_bytes(self, size: int, limit: float = DEFAULT_LIMIT) -> bytes:
        """Exactly `size` bytes; raises SocketEnded or NothingCame."""
        deadline = time.monotonic() + limit
        while len(self._buffer) < size:
            left = deadline - time.monotonic()
            if left <= 0:
                raise NothingCame(f"{len(self._buffer)} of {size} bytes within {limit} s")
            self.socket.settimeout(left)
            self._fill()
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def _fill(self) -> None:
        try:
            data = self.socket.recv(262144)
        except TimeoutError:
            return
        except OSError as error:
            raise SocketEnded(str(error)) from error
        if not data:
            raise SocketEnded("end of stream")
        self._buffer += data

    def read_frame(self, limit: float = DEFAULT_LIMIT) -> Frame:
        """The next frame of any kind; a half read frame stays in the buffer on a time-out."""
        deadline = time.monotonic() + limit
        start = self.read_bytes(7, limit)
        kind, channel, size = struct.unpack(">BHI", start)
        try:
            rest = self.read_bytes(size + 1, max(0.001, deadline - time.monotonic()))
        except NothingCame:
            self._buffer[:0] = start
            raise
        assert rest[-1] == 0xCE, "the broker's frame has no end octet"
        return Frame(kind, channel, rest[:-1])

    def read_method(self, channel: int | None = None, limit: float = DEFAULT_LIMIT) -> Method:
        """The next whole method (with its content) of `channel`, or of any; raises Closed."""
        deadline = time.monotonic() + limit
        while True:
            found = self._next_waiting(channel)
            if found is not None:
                return _unless_closed(found)
            incoming = self.read_frame(max(0.001, deadline - time.monotonic()))
            method = self._accept(incoming)
            if method is not None:
                self._waiting.setdefault(method.channel, deque()).append(method)

    def _next_waiting(self, channel: int | None) -> Method | None:
        # Channel 0 comes first: a connection.close concerns everybody.
        numbers = list(self._waiting) if channel is None else [0, channel]
        for number in numbers:
            if self._waiting.get(number):
                return self._waiting[number].popleft()
        return None

    def _accept(self, incoming: Frame) -> Method | None:
        if incoming.kind == HEARTBEAT:
            return None
        if incoming.kind == METHOD:
            self.is_open &= incoming.payload[:4] not in (_CLOSE, _CLOSE_OK)
            assert incoming.channel not in self._unfinished, "a method inside another's content"
            method = decode_method(incoming)
            if method.name not in CONTENT_METHODS:
                return method
            self._unfinished[incoming.channel] = method
            return None
        method = self._unfinished[incoming.channel]
        if incoming.kind == HEADER:
            method.content = Content(incoming.payload)
        else:
            assert incoming.kind == BODY
            assert method.content is not None
            method.content.body += incoming.payload
            method.content.frame_sizes.append(len(incoming.payload) + 8)
        assert method.content is not None
        if len(method.content.body) < method.content.size:
            return None
        return self._unfinished.pop(incoming.channel)

    # -- the conversation

    def start(self) -> Method:
        """Protocol header out, connection.start back."""
        self.send(PROTOCOL_HEADER)
        start = self.read_method(0)
        self.server_properties = start.properties
        return start

    def login(
        self,
        *,
        user: str = "guest",
        password: str = "guest",
        properties: dict[str, Any] | None = None,
    ) -> None:
        """Start-ok by PLAIN; the answer is left unread."""
        client = {"product": "tests", "capabilities": CAPABILITIES}
        self.send_method(
            0,
            "connection.start-ok",
            properties=client if properties is None else properties,
            mechanism="PLAIN",
            response=f"\0{user}\0{password}",
            locale="en_US",
        )

    def handshake(
        self,
        *,
        vhost: str = "/",
        channel_max: int | None = None,
        frame_max: int | None = None,
        heartbeat: int = 0,
        properties: dict[str, Any] | None = None,
    ) -> "RawClient":
        """From the protocol header to open-ok; what is not given is as the broker proposes."""
        self.start()
        self.login(properties=properties)
        tune = self.read_method(0)
        self.frame_max = tune.frame_max if frame_max is None else frame_max
        self.send_method(
            0,
            "connection.tune-ok",
            channel_max=tune.channel_max if channel_max is None else channel_max,
            frame_max=self.frame_max,
            heartbeat=heartbeat,
        )
        self.send_method(0, "connection.open", vhost=vhost)
        assert self.read_method(0).name == "connection.open-ok"
        self.is_open = True
        return self

    def open_channel(self, number: int = 1) -> "RawChannel":
        channel = RawChannel(self, number)
        assert channel.call("channel.open").name == "channel.open-ok"
        return channel

    def expect_close(self, *codes: int, limit: float = DEFAULT_LIMIT) -> Method:
        """Reads until the connection is closed by one of `codes`, and answers as one should."""
        try:
            while True:
                self.read_method(limit=limit)
        except ConnectionClosed as closed:
            assert closed.code in codes, closed
            with contextlib.suppress(OSError):
                self.send_method(0, "connection.close-ok")
            return closed.close

    def expect_end(self, limit: float = DEFAULT_LIMIT) -> None:
        """Reads until the broker hangs up; a connection.close on the way is allowed."""
        deadline = time.monotonic() + limit
        with contextlib.suppress(SocketEnded):
            while True:
                self.read_bytes(1, max(0.001, deadline - time.monotonic()))

    def close(self) -> None:
        """Closes in order when possible, in any case lets go of the socket."""
        with contextlib.suppress(OSError, Closed, SocketEnded, NothingCame, AssertionError):
            if self.is_open:
                self.send_method(0, "connection.close", code=200)
            while self.is_open:
                self.is_open = self.read_method(limit=2).name != "connection.close-ok"
        self.socket.close()

    def cut(self) -> None:
        """Ends the TCP connection with a reset, without a word of AMQP."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


class RawChannel:
    """One channel of a RawClient."""

    def __init__(self, client: RawClient, number: int) -> None:
        self.client = client
        self.number = number

    def send(self, name: str, **arguments: Any) -> None:  # noqa: ANN401
        self.client.send_method(self.number, name, **arguments)

    def read(self, limit: float = DEFAULT_LIMIT) -> Method:
        return self.client.read_method(self.number, limit)

    def call(self, name: str, **arguments: Any) -> Method:  # noqa: ANN401
        """Sends and returns the very next method of this channel; raises Closed on a close."""
        self.send(name, **arguments)
        return self.read()

    def publish(
        self,
        exchange: str,
        routing_key: str,
        body: bytes = b"",
        properties: dict[str, Any] | bytes | None = None,
        *,
        mandatory: bool = False,
        immediate: bool = False,
    ) -> None:
        self.client.send(
            self.publish_bytes(
                exchange, routing_key, body, properties, mandatory=mandatory, immediate=immediate
            )
        )

    def publish_bytes(
        self,
        exchange: str,
        routing_key: str,
        body: bytes = b"",
        properties: dict[str, Any] | bytes | None = None,
        **flags: bool,
    ) -> bytes:
        method = method_payload(
            "basic.publish", exchange=exchange, routing_key=routing_key, **flags
        )
        out = frame(METHOD, self.number, method)
        out += frame(HEADER, self.number, header_payload(len(body), properties or {}))
        step = self.client.frame_max - 8
        for at in range(0, len(body), step):
            out += frame(BODY, self.number, body[at : at + step])
        return out

    def get(self, queue: str, *, no_ack: bool = True) -> Method | None:
        """One message, or None when the queue is empty."""
        reply = self.call("basic.get", queue=queue, no_ack=no_ack)
        return None if reply.name == "basic.get-empty" else reply

    def get_soon(self, queue: str, *, no_ack: bool = True, limit: float = 5.0) -> Method:
        """One message which another party of the broker is about to put there."""
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            found = self.get(queue, no_ack=no_ack)
            if found is not None:
                return found
            time.sleep(0.005)
        raise AssertionError(f"nothing came to {queue} within {limit} s")

    def round_trip(self) -> None:
        """Everything sent before has been handled when this returns; deliveries stay readable."""
        self.send("channel.flow", active=True)
        passed: list[Method] = []
        while True:
            method = self.read()
            if method.name == "channel.flow-ok":
                break
            passed.append(method)
        self.client._waiting.setdefault(self.number, deque()).extendleft(reversed(passed))

    def expect_close(self, code: int, limit: float = DEFAULT_LIMIT) -> Method:
        """Reads until the channel is closed by `code`, and answers with close-ok."""
        try:
            while True:
                self.read(limit)
        except ChannelClosed as closed:
            assert closed.code == code, closed
            self.send("channel.close-ok")
            return closed.close


def _unless_closed(method: Method) -> Method:
    if method.name == "connection.close":
        raise ConnectionClosed(method)
    if method.name == "channel.close":
        raise ChannelClosed(method)
    return method
