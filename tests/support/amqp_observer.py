"""What the tests look at, and how they wait for it: polling with a limit, never a blind sleep."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from headrace.testing import wait_for


@contextmanager
def channel_refused(code: int) -> Iterator[None]:
    """The block must end with the broker closing the channel by `code`."""
    with pytest.raises(ChannelClosedByBroker) as caught:
        yield
    assert caught.value.reply_code == code, caught.value.reply_text


def ready(channel: BlockingChannel, queue: str) -> int:
    """Number of ready messages."""
    return int(channel.queue_declare(queue, passive=True).method.message_count)


def consumers(channel: BlockingChannel, queue: str) -> int:
    return int(channel.queue_declare(queue, passive=True).method.consumer_count)


def take_all(channel: BlockingChannel, queue: str) -> list[bytes]:
    """The bodies of all ready messages, which are taken for good."""
    bodies = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return bodies
        bodies.append(body)


def take_soon(channel: BlockingChannel, queue: str) -> tuple[Any, pika.BasicProperties, bytes]:
    """One message which is on its way to the queue: (method, properties, body)."""

    def take() -> tuple[Any, Any, Any] | None:
        got = channel.basic_get(queue, auto_ack=True)
        return None if got[0] is None else got

    return wait_for(take)


def publish_all(channel: BlockingChannel, queue: str, *bodies: str, **properties: Any) -> None:  # noqa: ANN401
    """Sends each body to `queue` through the default exchange."""
    for body in bodies:
        channel.basic_publish("", queue, body.encode(), pika.BasicProperties(**properties))


def exists(connection: pika.BlockingConnection, queue: str) -> bool:
    """Whether the queue is there; a channel of its own is spent on the question."""
    channel = connection.channel()
    try:
        channel.queue_declare(queue, passive=True)
    except ChannelClosedByBroker as closed:
        assert closed.reply_code == 404, closed
        return False
    channel.close()
    return True


def exchange_exists(connection: pika.BlockingConnection, exchange: str) -> bool:
    channel = connection.channel()
    try:
        channel.exchange_declare(exchange, passive=True)
    except ChannelClosedByBroker as closed:
        assert closed.reply_code == 404, closed
        return False
    channel.close()
    return True


class Inbox:
    """A consumer which notes what it is given: bodies in order, and the deliveries themselves."""

    def __init__(self, channel: BlockingChannel, queue: str, **options: Any) -> None:  # noqa: ANN401
        self.channel = channel
        self.queue = queue
        self.deliveries: list[tuple[Any, pika.BasicProperties, bytes]] = []
        self.tag = channel.basic_consume(queue, self._note, **options)

    def _note(self, _: object, method: Any, properties: pika.BasicProperties, body: bytes) -> None:  # noqa: ANN401
        self.deliveries.append((method, properties, body))

    @property
    def bodies(self) -> list[str]:
        return [body.decode() for _, _, body in self.deliveries]

    @property
    def tags(self) -> list[int]:
        return [method.delivery_tag for method, _, _ in self.deliveries]

    def wait(self, count: int, limit: float = 5.0) -> list[str]:
        """Bodies, once at least `count` have come."""
        deadline = time.monotonic() + limit
        while len(self.deliveries) < count and time.monotonic() < deadline:
            self.channel.connection.process_data_events(time_limit=0.02)
        assert len(self.deliveries) >= count, f"{self.bodies} instead of {count}"
        return self.bodies

    def settled(self) -> list[str]:
        """Bodies, after the broker had every occasion to send more.

        The questions go to the queue itself, so its deliveries come before the answers.
        """
        for _ in range(2):
            self.channel.queue_declare(self.queue, passive=True)
        self.channel.connection.process_data_events(time_limit=0.02)
        return self.bodies
