"""Publishes many messages in batches and counts confirms. Used by `headrace publish`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import BinaryIO

from headrace.client import Channel, NotFound
from headrace.client.core.requests import Message

_BATCH = 1000
_WINDOW = 8  # requests that wait for their confirm
_READ = 1 << 18


@dataclass(frozen=True, slots=True)
class PublishTarget:
    """Where messages go; ``queue`` is set when --queue was used: it may be declared."""

    exchange: str
    key: str
    queue: str | None = None


class Sender:
    """Publishes bodies with the same properties, and counts confirmed and unroutable ones."""

    def __init__(
        self,
        channel: Channel,
        destination: PublishTarget,
        properties: dict[str, object],
        made: Callable[[str], None],
    ) -> None:
        """``made`` is called with the name of a queue that had to be declared."""
        self.confirmed = 0
        self.unrouted = 0
        self._channel = channel
        self._destination = destination
        self._properties = properties
        self._made = made
        self._under_way: deque[Future[list[int]]] = deque()
        self._is_first = True

    def send(self, bodies: Sequence[bytes]) -> None:
        """Send a batch; waits only when too many are under way."""
        if self._is_first:
            self._is_first = False
            self._send_first(bodies)
        else:
            self._under_way += self._channel.publish_batch_async(self._messages(bodies))
        while len(self._under_way) > _WINDOW:
            self._settle()

    def finish(self) -> None:
        """Wait for the confirms of everything sent."""
        while self._under_way:
            self._settle()

    def _send_first(self, bodies: Sequence[bytes]) -> None:
        # A request is checked as a whole: with the queue missing, nothing of it was published.
        try:
            self._count(self._channel.publish_batch(self._messages(bodies)))
        except NotFound:
            queue = self._destination.queue
            if queue is None:
                raise
            self._channel.queue_declare(queue, durable=True)
            self._made(queue)
            self._count(self._channel.publish_batch(self._messages(bodies)))

    def _messages(self, bodies: Sequence[bytes]) -> Iterator[Message]:
        exchange, key = self._destination.exchange, self._destination.key
        return ((exchange, key, self._properties, body) for body in bodies)

    def _settle(self) -> None:
        timeout = self._channel.connection.settings.request_timeout + 1
        self._count(self._under_way.popleft().result(timeout))

    def _count(self, routed: Sequence[int]) -> None:
        self.confirmed += len(routed)
        self.unrouted += routed.count(0)


def repeated(body: bytes, count: int) -> Iterator[list[bytes]]:
    """One body, many times."""
    whole, rest = divmod(count, _BATCH)
    for _ in range(whole):
        yield [body] * _BATCH
    if rest:
        yield [body] * rest


def lines_of(stream: BinaryIO) -> Iterator[list[bytes]]:
    """The lines of a stream without their newlines, as many at a time as can be read.

    Lines that are typed or appended to a log are sent at once; a file is read in large chunks.
    """
    pieces: list[bytes] = []
    while data := stream.read1(_READ):  # type: ignore[attr-defined]
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = b"".join(pieces) + lines[0]
            pieces.clear()
            yield from (lines[at : at + _BATCH] for at in range(0, len(lines), _BATCH))
        if rest:
            pieces.append(rest)
    if pieces:
        yield [b"".join(pieces)]
