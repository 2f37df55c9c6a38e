"""A connection without a network: scripted bytes in, recorded bytes out."""

from __future__ import annotations


class FakeSocket:
    def __init__(self, incoming: list[bytes] | None = None) -> None:
        self.incoming = incoming or []
        self.writes: list[bytes] = []

    def sendall(self, data: bytes | memoryview) -> None:
        self.writes.append(bytes(data))

    def recv_into(self, buffer: bytearray) -> int:
        data = self.incoming.pop(0) if self.incoming else b""
        buffer[: len(data)] = data
        return len(data)


class FakeLink:
    """Stands in for headrace.bench.load.amqp_connection.AmqpConnection."""

    sock = FakeSocket()

    def __init__(self, address: tuple[str, int], *, channel: int = 1) -> None:
        self.channel = channel
        self.consumed: list[tuple[str, str, bool]] = []
        self.credit = 0

    def prefetch(self, count: int) -> None:
        self.credit = count

    def consume(self, queue: str, tag: str, *, auto_ack: bool) -> None:
        self.consumed.append((queue, tag, auto_ack))

    def set_timeout(self, seconds: float) -> None:
        pass
