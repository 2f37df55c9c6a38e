"""The smallest RocketMQ client: frames made beforehand, so that the broker is what is measured."""

from __future__ import annotations

import socket
from collections.abc import Callable
from itertools import count

from headrace.bench.errors import MeasureError
from headrace.wire.remoting.codes import RequestCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.frames import Reader, command_bytes
from headrace.wire.remoting.headers.pull import PullMessage
from headrace.wire.remoting.headers.send import SendMessage
from headrace.wire.remoting.message import BatchElement, batch_bytes

SUBSCRIPTION = 4  # flag of a pull that says what it wants


class RemotingConnection:
    """One connection."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 30)
        self._reader = Reader()
        self._opaques = count(1)
        self._answered = 0

    def __enter__(self) -> RemotingConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def sending(self, topic: str, body: bytes, batch: int, under_way: int) -> Callable[[], int]:
        """A step: one more request under way; how many messages were confirmed."""
        properties = b"UNIQ_KEY\x010123456789ABCDEF0123456789ABCDEF\x02"
        text = properties.decode()
        header = SendMessage("bench", topic, 0, 0, 1, properties=text, batch=batch > 1)
        code, data = RequestCode.SEND_MESSAGE_V2, body
        if batch > 1:
            code = RequestCode.SEND_BATCH_MESSAGE
            data = batch_bytes([BatchElement(0, body, properties)] * batch)
        frame = command_bytes(Command(code, header.ext_v2(), data, opaque=1))
        waiting = 0

        def step() -> int:
            nonlocal waiting
            self._socket.sendall(frame)
            waiting += 1
            if waiting < under_way:
                return 0
            answers = self._receive()
            waiting -= len(answers)
            return len(answers) * batch

        return step

    def pulling(self, topic: str, size: int, end: int) -> Callable[[], int]:
        """A step: one pull; how many messages came. At the end it begins again."""
        at = 0

        def step() -> int:
            nonlocal at
            header = PullMessage("bench", topic, 0, at, size, SUBSCRIPTION, subscription="*")
            request = Command(header.CODE, header.ext(), opaque=next(self._opaques))
            self._socket.sendall(command_bytes(request))
            (answer,) = self._receive()
            following = int(answer.ext["nextBeginOffset"])
            done, at = following - at, following if following < end else 0
            return done

        return step

    def _receive(self) -> list[Command]:
        found: list[Command] = []
        while not found:
            data = self._socket.recv(1 << 18)
            found += self._reader.feed(data)
            if not data or self._reader.fault is not None:
                raise MeasureError("the broker closed the connection")
        if bad := [one for one in found if one.code != 0]:
            raise MeasureError(f"the broker refused: {bad[0].remark}")
        return found
