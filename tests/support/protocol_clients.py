"""One set of words for both protocols, so that a scenario is written once."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

import pika

from headrace.client import Connection, ConnectionFactory
from headrace.testing import wait_for


class Got(NamedTuple):
    """What a subscriber is told of a message."""

    key: str
    mode: int
    body: bytes


class Subscription(abc.ABC):
    """Results of callbacks, handed to the test's thread."""

    @abc.abstractmethod
    def wait(self, count: int) -> list[Got]:
        """The first messages, as soon as there are so many."""


class ProtocolClient(abc.ABC):
    """A connection with one channel; what it declared is deleted in the end."""

    def __init__(self) -> None:
        self.exchanges: list[str] = []
        self.queues: list[str] = []

    def tidy(self) -> None:
        for name in self.queues[:]:
            self.delete_queue(name)
        for name in self.exchanges[:]:
            self.delete_exchange(name)

    def exchange(self, name: str, kind: str = "direct", **attributes: Any) -> None:  # noqa: ANN401
        self.declare_exchange(name, kind, **attributes)
        self.exchanges.append(name)

    def queue(self, name: str, **attributes: Any) -> None:  # noqa: ANN401
        self.declare_queue(name, **attributes)
        self.queues.append(name)

    def delete_exchange(self, name: str) -> None:
        self.exchanges.remove(name)
        self.drop_exchange(name)

    def delete_queue(self, name: str) -> None:
        self.queues.remove(name)
        self.drop_queue(name)

    @abc.abstractmethod
    def declare_exchange(self, name: str, kind: str, **attributes: Any) -> None: ...  # noqa: ANN401
    @abc.abstractmethod
    def declare_queue(self, name: str, **attributes: Any) -> None: ...  # noqa: ANN401
    @abc.abstractmethod
    def drop_exchange(self, name: str) -> None: ...
    @abc.abstractmethod
    def drop_queue(self, name: str) -> None: ...
    @abc.abstractmethod
    def bind(self, queue: str, exchange: str, key: str) -> None: ...
    @abc.abstractmethod
    def unbind(self, queue: str, exchange: str, key: str) -> None: ...
    @abc.abstractmethod
    def publish(self, exchange: str, key: str, body: bytes, mode: int | None = None) -> None: ...
    @abc.abstractmethod
    def take(self, queue: str) -> Got | None:
        """One message, acknowledged; None when there is none."""

    @abc.abstractmethod
    def subscribe(self, queue: str, *, auto_ack: bool) -> Subscription: ...
    @abc.abstractmethod
    def close(self) -> None: ...

    def take_all(self, queue: str) -> list[bytes]:
        bodies = []
        while (got := self.take(queue)) is not None:
            bodies.append(got.body)
        return bodies


class _Seen(Subscription):
    def __init__(self) -> None:
        self.seen: list[Got] = []

    def wait(self, count: int) -> list[Got]:
        wait_for(lambda: len(self.seen) >= count, timeout=10)
        return self.seen[:count]


class NativeClient(ProtocolClient):
    """Through headrace.client."""

    def __init__(self, ports: dict[str, int]) -> None:
        super().__init__()
        self.connection: Connection = ConnectionFactory(port=ports["native"]).new_connection()
        self.channel = self.connection.create_channel()

    def declare_exchange(self, name: str, kind: str, **attributes: Any) -> None:  # noqa: ANN401
        self.channel.exchange_declare(name, kind, **attributes)

    def declare_queue(self, name: str, **attributes: Any) -> None:  # noqa: ANN401
        self.channel.queue_declare(name, **attributes)

    def drop_exchange(self, name: str) -> None:
        self.channel.exchange_delete(name)

    def drop_queue(self, name: str) -> None:
        self.channel.queue_delete(name)

    def bind(self, queue: str, exchange: str, key: str) -> None:
        self.channel.queue_bind(queue, exchange, key)

    def unbind(self, queue: str, exchange: str, key: str) -> None:
        self.channel.queue_unbind(queue, exchange, key)

    def publish(self, exchange: str, key: str, body: bytes, mode: int | None = None) -> None:
        properties = None if mode is None else {"delivery_mode": mode}
        self.channel.basic_publish(exchange, key, properties, body)

    def take(self, queue: str) -> Got | None:
        delivery = self.channel.basic_get(queue)
        if delivery is None:
            return None
        delivery.ack()
        properties = delivery.properties
        assert properties.message_id
        return Got(str(properties.routing_key), properties.delivery_mode or 0, delivery.body)

    def subscribe(self, queue: str, *, auto_ack: bool) -> Subscription:
        found = _Seen()

        def callback(consumer_tag: str, properties: Any, body: bytes) -> None:  # noqa: ANN401
            found.seen.append(Got(properties.routing_key, properties.delivery_mode, body))

        self.channel.basic_consume(queue, auto_ack, callback)
        return found

    def rows(self, kind: str) -> list[dict[str, Any]]:
        return list(self.channel.rows(kind))

    def close(self) -> None:
        self.connection.close()


class AmqpClient(ProtocolClient):
    """Through pika, with confirms."""

    def __init__(self, ports: dict[str, int]) -> None:
        super().__init__()
        parameters = pika.ConnectionParameters("127.0.0.1", ports["amqp"])
        self.connection = pika.BlockingConnection(parameters)
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()

    def declare_exchange(self, name: str, kind: str, **attributes: Any) -> None:  # noqa: ANN401
        # What the native protocol does by itself: a direct exchange reaches queues by name.
        arguments = dict(attributes.pop("arguments", None) or {})
        if kind == "direct":
            arguments["x-direct-to-queue"] = True
        self.channel.exchange_declare(name, kind, arguments=arguments, **attributes)

    def declare_queue(self, name: str, **attributes: Any) -> None:  # noqa: ANN401
        self.channel.queue_declare(name, **attributes)

    def drop_exchange(self, name: str) -> None:
        self.channel.exchange_delete(name)

    def drop_queue(self, name: str) -> None:
        self.channel.queue_delete(name)

    def bind(self, queue: str, exchange: str, key: str) -> None:
        self.channel.queue_bind(queue, exchange, key)

    def unbind(self, queue: str, exchange: str, key: str) -> None:
        self.channel.queue_unbind(queue, exchange, key)

    def publish(self, exchange: str, key: str, body: bytes, mode: int | None = None) -> None:
        properties = pika.BasicProperties(delivery_mode=mode)
        self.channel.basic_publish(exchange, key, body, properties)

    def take(self, queue: str) -> Got | None:
        method, properties, body = self.channel.basic_get(queue, auto_ack=True)
        if method is None:
            return None
        return Got(method.routing_key, properties.delivery_mode or 1, body)

    def subscribe(self, queue: str, *, auto_ack: bool) -> Subscription:
        found = _PikaSeen(self.connection)

        def callback(_: object, method: Any, properties: Any, body: bytes) -> None:  # noqa: ANN401
            found.seen.append(Got(method.routing_key, properties.delivery_mode or 1, body))

        self.channel.basic_consume(queue, callback, auto_ack=auto_ack)
        return found

    def close(self) -> None:
        self.connection.close()


class _PikaSeen(_Seen):
    """pika reads only when it is asked to."""

    def __init__(self, connection: pika.BlockingConnection) -> None:
        super().__init__()
        self._connection = connection

    def wait(self, count: int) -> list[Got]:
        def is_there() -> bool:
            self._connection.process_data_events(0.01)
            return len(self.seen) >= count

        wait_for(is_there, timeout=10)
        return self.seen[:count]
