"""Dead letters: messages published to the dead-letter exchange of their queue, with their history.

The history is the header `x-death`, written as RabbitMQ writes it. A message in a cycle of queues
in which no consumer rejected it is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headrace.core.clock import Clock
from headrace.core.exchange import Exchange
from headrace.core.queues.queue import Queue
from headrace.core.routes import Routes
from headrace.model.message import PublishedRun, Route, Run
from headrace.model.x_death import add_death, is_cycle
from headrace.wire.amqp.content import properties_of, with_properties
from headrace.wire.amqp.properties import HeaderTable
from headrace.wire.amqp.values import LongInt, Timestamp


@dataclass(frozen=True, slots=True, eq=False)
class DeadLetterPublisher:
    """Publishes the dead letters of one vhost."""

    clock: Clock
    exchanges: Mapping[str, Exchange]
    routes: Routes
    put: Callable[[PublishedRun], object]  # to the destinations of the run's route

    def publish(self, queue: Queue, run: Run, reason: str) -> None:
        """Publish the messages to the queue's dead-letter exchange; if it is gone, drop them."""
        exchange = self.exchanges.get(queue.settings.dead_letter_exchange or "")
        if exchange is not None:
            for content in run.contents[run.start :]:
                self._publish_one(queue, exchange.name, run, content, reason)

    def _publish_one(
        self, queue: Queue, exchange: str, run: Run, content: bytes, reason: str
    ) -> None:
        properties = properties_of(content)
        headers = properties.headers or HeaderTable(b"")
        carbon = _strings(headers.get("CC"))
        history = add_death(
            _history(headers),
            queue=queue.name,
            reason=reason,
            exchange=run.route.exchange,
            routing_keys=[run.route.key, *carbon],
            time=int(self.clock.wall_seconds()),
            original_expiration=properties.expiration,
        )
        headers.set("x-death", [_typed(entry) for entry in history])
        for name, value in (
            ("x-first-death-exchange", run.route.exchange),
            ("x-first-death-queue", queue.name),
            ("x-first-death-reason", reason),
        ):
            if name not in headers:
                headers.set(name, value)
        keys = [run.route.key, *carbon]
        if queue.settings.dead_letter_routing_key is not None:
            keys = [queue.settings.dead_letter_routing_key]
            headers.remove("CC")
        properties.headers = headers
        properties.expiration = None
        self._publish_to(exchange, keys, with_properties(content, properties), run, history)

    def _publish_to(
        self,
        exchange: str,
        keys: list[str],
        content: bytes,
        run: Run,
        history: list[dict[str, object]],
    ) -> None:
        headers = properties_of(content).headers
        found = self.routes.find(exchange, keys, headers.as_dict() if headers else {})
        targets = [one for one in found.destinations if not is_cycle(history, one.name)]
        if targets:
            route = Route(exchange, keys[0], targets)
            self.put(
                PublishedRun(
                    route,
                    [content],
                    len(content),
                    channel_number=run.channel_number,
                    persistent=run.persistent,
                )
            )


def _strings(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _history(headers: HeaderTable) -> list[dict[str, object]]:
    value = headers.get("x-death")
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _typed(entry: dict[str, object]) -> dict[str, object]:
    """The entry with the field types that clients of RabbitMQ expect."""
    typed = dict(entry)
    if isinstance(typed.get("count"), int):
        typed["count"] = LongInt(typed["count"])  # type: ignore[call-overload]
    if isinstance(typed.get("time"), int):
        typed["time"] = Timestamp(typed["time"])  # type: ignore[call-overload]
    return typed
