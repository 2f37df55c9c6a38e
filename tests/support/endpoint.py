"""Where the broker under test is, and names on it which no other test uses."""

from __future__ import annotations

import uuid
from typing import NamedTuple

import pika


class Address(NamedTuple):
    host: str
    port: int

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@{self.host}:{self.port}/%2F"


class Names:
    """Hands out names which are unique to one test, and deletes what bears them afterwards."""

    def __init__(self) -> None:
        self.queues: list[str] = []
        self.exchanges: list[str] = []

    def queue(self, label: str = "queue") -> str:
        self.queues.append(f"t.{uuid.uuid4().hex[:10]}.{label}")
        return self.queues[-1]

    def exchange(self, label: str = "exchange") -> str:
        self.exchanges.append(f"t.{uuid.uuid4().hex[:10]}.{label}")
        return self.exchanges[-1]

    def delete_all(self, address: Address) -> None:
        with pika.BlockingConnection(pika.URLParameters(address.url)) as connection:
            channel = connection.channel()
            for queue in self.queues:
                channel.queue_delete(queue)
            for exchange in self.exchanges:
                channel.exchange_delete(exchange)
