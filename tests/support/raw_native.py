"""A client of the native protocol with no manners: it sends whatever a test wants."""

from __future__ import annotations

import socket
import struct
import time
from typing import Any

import msgpack

(
    CHANNEL_OPEN,
    CHANNEL_CLOSE,
    EXCHANGE_DECLARE,
    EXCHANGE_DELETE,
    QUEUE_DECLARE,
    QUEUE_DELETE,
    BIND,
    UNBIND,
    PUBLISH,
    CONSUME,
    ACK,
    PUSH,
    HELLO,
    PING,
    CANCEL,
    NACK,
    QOS,
    GET,
    PURGE,
    LIST,
) = range(1, 0x15)

Fields = dict[str, Any]


class Refused(Exception):
    """An answer that is not ok."""

    def __init__(self, answer: Fields) -> None:
        super().__init__(f"{answer['code']}: {answer['text']}")
        self.code: str = answer["code"]
        self.answer = answer


class NothingCame(Exception):
    """The broker was silent for as long as a test wanted to wait."""


class SocketEnded(Exception):
    """The broker hung up."""


def payload_frame(kind: int, payload: bytes) -> bytes:
    return struct.pack(">ii", kind, len(payload)) + payload


def request_frame(kind: int, fields: object) -> bytes:
    return payload_frame(kind, msgpack.packb(fields))


class Native:
    """One connection. Answers are found by rid; everything else waits in `pushed`."""

    def __init__(self, address: tuple[str, int], *, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray()
        self._rid = 0
        self._answers: dict[int, Fields] = {}
        self.pushed: list[tuple[int, Fields]] = []

    def close(self) -> None:
        self.socket.close()

    # -- sending

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def request(self, kind: int, ch: object = 1, /, **fields: object) -> int:
        self._rid += 1
        named = {} if ch is None else {"ch": ch}
        self.send(request_frame(kind, {"rid": self._rid, **named, **fields}))
        return self._rid

    def call(self, kind: int, ch: object = 1, /, **fields: object) -> Fields:
        """Send a request and wait for its answer; Refused unless it is ok."""
        return self.answer(self.request(kind, ch, **fields))

    def hello(self, **fields: object) -> Fields:
        known = {"version": 1, "user": "guest", "password": "guest", "vhost": "/", "client": "t"}
        return self.call(HELLO, None, **{**known, **fields})

    def open(self, ch: object = 1) -> Native:
        self.hello()
        self.call(CHANNEL_OPEN, ch)
        return self

    # -- receiving

    def read(self, limit: float = 5) -> tuple[int, Fields]:
        """The next frame."""
        deadline = time.monotonic() + limit
        while True:
            if len(self._buffer) >= 8:
                kind, length = struct.unpack_from(">ii", self._buffer)
                if len(self._buffer) >= 8 + length:
                    payload = bytes(self._buffer[8 : 8 + length])
                    del self._buffer[: 8 + length]
                    return kind, msgpack.unpackb(payload)
            self.socket.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                data = self.socket.recv(1 << 16)
            except TimeoutError:
                raise NothingCame(f"nothing within {limit} s") from None
            except ConnectionResetError:
                data = b""
            if not data:
                raise SocketEnded
            self._buffer += data

    def answer(self, rid: int, limit: float = 5) -> Fields:
        while rid not in self._answers:
            kind, fields = self.read(limit)
            if fields.get("rid") is None:
                self.pushed.append((kind, fields))
            else:
                self._answers[fields["rid"]] = fields
        found = self._answers.pop(rid)
        if not found["ok"]:
            raise Refused(found)
        return found

    def event(self, limit: float = 5) -> tuple[int, Fields]:
        """The next frame that answers nothing."""
        while not self.pushed:
            kind, fields = self.read(limit)
            if fields.get("rid") is None:
                self.pushed.append((kind, fields))
            else:
                self._answers[fields["rid"]] = fields
        return self.pushed.pop(0)

    def deliveries(self, count: int, limit: float = 5) -> list[Fields]:
        """At least ``count`` pushed messages, each with its consumer's tag."""
        found: list[Fields] = []
        while len(found) < count:
            kind, fields = self.event(limit)
            assert kind == PUSH, (kind, fields)
            top = {"ch": fields["ch"], "consumer_tag": fields["consumer_tag"]}
            found += [{**top, **one} for one in fields.get("batch", [fields])]
        return found

    def nothing_comes(self, limit: float = 0.2) -> bool:
        if self.pushed:
            return False
        try:
            self.event(limit)
        except NothingCame:
            return True
        return False

    def expect_end(self, limit: float = 5) -> list[Fields]:
        """Whatever is still sent before the broker hangs up."""
        last = []
        while True:
            try:
                last.append(self.read(limit)[1])
            except SocketEnded:
                return last

    # -- shorthands

    def queue(self, name: str = "", **fields: object) -> str:
        declared: str = self.call(QUEUE_DECLARE, name=name, **fields)["name"]
        return declared

    def publish(self, exchange: str, key: str, body: bytes, **properties: object) -> Fields:
        return self.call(PUBLISH, exchange=exchange, key=key, properties=properties, body=body)

    def get(self, queue: str, **fields: object) -> Fields | None:
        message: Fields | None = self.call(GET, queue=queue, **fields)["message"]
        return message

    def bodies(self, queue: str) -> list[bytes]:
        found = []
        while (one := self.get(queue, auto_ack=True)) is not None:
            found.append(one["body"])
        return found

    def rows(self, kind: str, **wanted: object) -> list[Fields]:
        rows: list[Fields] = self.call(LIST, kind=kind)["rows"]
        return [row for row in rows if wanted.items() <= row.items()]
