"""Clients of the order shop: pika connections whose deliveries are collected. Nothing else.

One thread serves them all in turn; waiting means serving until something has happened.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

import pika  # type: ignore[import-untyped]
from pika.exceptions import AMQPError, UnroutableError  # type: ignore[import-untyped]

ClientError = AMQPError

PATIENCE = 5.0


class CollectedMessage(NamedTuple):
    """One message as a client saw it."""

    body: str
    tag: int
    redelivered: bool
    properties: Any
    at: float

    @classmethod
    def now(cls, method: Any, properties: Any, body: bytes) -> CollectedMessage:  # noqa: ANN401
        tag, redelivered = method.delivery_tag, method.redelivered
        return cls(body.decode(), tag, redelivered, properties, time.monotonic())


class DemoClient:
    """One connection with one channel."""

    def __init__(self, url: str) -> None:
        self.connection = pika.BlockingConnection(pika.URLParameters(url))
        self.channel = self.connection.channel()
        self.inbox: list[CollectedMessage] = []

    def queue(self, name: str, arguments: Mapping[str, object] | None = None) -> str:
        """Declare a durable queue."""
        self.channel.queue_declare(name, durable=True, arguments=arguments)
        return name

    def ready(self, queue: str) -> int:
        """How many messages wait in the queue."""
        count: int = self.channel.queue_declare(queue, passive=True).method.message_count
        return count

    def publish(
        self, queue_or_key: str, body: str, *, exchange: str = "", **properties: object
    ) -> None:
        self.channel.basic_publish(
            exchange, queue_or_key, body.encode(), pika.BasicProperties(**properties)
        )

    def is_returned(self, key: str, body: str) -> bool:
        """Publish with `mandatory` on a confirming channel; whether it was returned."""
        try:
            self.channel.basic_publish("", key, body.encode(), mandatory=True)
        except UnroutableError:
            return True
        return False

    def get(self, queue: str) -> CollectedMessage | None:
        method, properties, body = self.channel.basic_get(queue)
        return None if method is None else CollectedMessage.now(method, properties, body)

    def consume(
        self,
        queue: str,
        *,
        prefetch: int = 0,
        acks: bool = True,
        then: Callable[[CollectedMessage], None] | None = None,
    ) -> None:
        """Collect deliveries; ``then`` is called with each of them."""

        def arrived(channel: Any, method: Any, properties: Any, body: bytes) -> None:  # noqa: ANN401
            delivery = CollectedMessage.now(method, properties, body)
            self.inbox.append(delivery)
            if then is not None:
                then(delivery)

        self.channel.basic_qos(prefetch_count=prefetch)
        self.channel.basic_consume(queue, arrived, auto_ack=not acks)

    def ack(self, delivery: CollectedMessage) -> None:
        self.channel.basic_ack(delivery.tag)

    def bodies(self) -> list[str]:
        return [delivery.body for delivery in self.inbox]


class Clients:
    """The clients of one chapter; all connections are closed at its end."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._open = ExitStack()
        self._all: list[DemoClient] = []

    def __enter__(self) -> Clients:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def connect(self) -> DemoClient:
        client = DemoClient(self.url)
        self._open.callback(_close, client)
        self._all.append(client)
        return client

    def until(
        self,
        happened: Callable[[], bool],
        served: Iterable[DemoClient] | None = None,
        seconds: float = PATIENCE,
    ) -> bool:
        """Serve clients (default: all) until the condition holds; False if it does not in time."""
        serve = self._all if served is None else list(served)
        deadline = time.monotonic() + seconds
        while not happened():
            if time.monotonic() > deadline:
                return False
            for client in serve:
                client.connection.process_data_events(time_limit=0.002)
        return True


def _close(client: DemoClient) -> None:
    with suppress(AMQPError):  # closed already, by the other side
        client.connection.close()
