"""A vhost on a virtual clock and a loop that runs when told, and subscribers who write down all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from headrace.core.clock import Timers, VirtualClock
from headrace.core.loop_turn import LoopTurn
from headrace.core.queues.consumer import Consumer
from headrace.core.queues.queue import Queue
from headrace.core.vhost import Vhost
from headrace.model.message import PublishedRun, Run
from headrace.model.unacked import Lease, SettledRange, Unacked
from headrace.wire.amqp.content import body_of, make_content, properties_of
from headrace.wire.amqp.properties import HeaderTable, Properties

UNLIMITED = 1024


class HandLoop:
    """As much of an event loop as the core needs; callbacks run when a test says so."""

    def __init__(self) -> None:
        self._soon: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    def run(self) -> None:
        while self._soon:
            callbacks, self._soon = self._soon, []
            for callback in callbacks:
                callback()


def message(body: bytes | str, headers: Mapping[str, object] | None = None, **named: Any) -> bytes:  # noqa: ANN401
    """A content as it comes from the wire; ``named`` are properties."""
    table = None if headers is None else HeaderTable.of(headers)
    return make_content(Properties(headers=table, **named), _bytes(body))


def bodies(runs: Iterable[Run]) -> list[str]:
    return [body_of(one).decode() for run in runs for one in run.contents[run.start :]]


def ready(queue: Queue) -> list[str]:
    """The bodies of a queue's ready messages, in order."""
    return bodies(queue.backlog.runs())


def _bytes(body: bytes | str) -> bytes:
    return body.encode() if isinstance(body, str) else body


class Stage:
    """Everything around the queues of one vhost."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.loop = HandLoop()
        loop = cast(asyncio.AbstractEventLoop, self.loop)
        self.timers = Timers(self.clock, loop)
        self.turn = LoopTurn(loop)
        self.vhost = Vhost("/", self.clock, self.timers, self.turn)

    def run(self) -> None:
        """End this turn of the loop."""
        self.loop.run()

    def advance(self, ms: int) -> None:
        self.clock.advance(ms)
        self.run()

    def queue(self, name: str = "q", **arguments: object) -> Queue:
        """A queue; ``message_ttl=5`` stands for the argument x-message-ttl."""
        durable = arguments.get("queue_type") == "quorum"
        named = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
        return self.vhost.declare_queue(name, arguments=named, durable=durable)

    def publish(
        self,
        *given: bytes | str,
        to: str = "q",
        exchange: str = "",
        ttl_ms: int | None = None,
        headers: Mapping[str, object] | None = None,
        turn: bool = True,
    ) -> PublishedRun:
        """Publish the bodies in one batch, and end the turn unless told not to."""
        contents = [message(one, headers) for one in given]
        return self.publish_contents(contents, to=to, exchange=exchange, ttl_ms=ttl_ms, turn=turn)

    def publish_contents(
        self,
        contents: list[bytes],
        *,
        to: str = "q",
        exchange: str = "",
        ttl_ms: int | None = None,
        turn: bool = True,
    ) -> PublishedRun:
        route = self.vhost.routes.get(exchange, to)
        if route.by_headers:
            headers = properties_of(contents[0]).headers
            route = self.vhost.routes.find(exchange, [to], headers.as_dict() if headers else {})
        batch = PublishedRun(route, contents, sum(map(len, contents)), ttl_ms=ttl_ms)
        self.vhost.publish(batch)
        if turn:
            self.run()
        return batch

    def take_all(self, queue: Queue) -> list[str]:
        """Get messages, without acks, until the queue is empty."""
        taken = []
        while (run := queue.take_one()) is not None:
            taken += bodies([run])
        return taken


class Inbox:
    """A channel with its consumers. Tags rise from 1, as those of a real channel do."""

    def __init__(self, connection: object | None = None) -> None:
        self._connection = connection or self
        self.seen: list[str] = []
        self.runs: list[Run] = []
        self.deliveries: dict[int, tuple[str, int]] = {}  # tag -> body, times delivered before
        self.cancelled_tags: list[str] = []
        self.unacked: Unacked[Consumer] = Unacked()
        self.last_tag = 0
        self.limit: int | None = None  # room for anybody, whatever the prefetch says
        self.log: list[tuple[str, str]] | None = None  # shared by several, to see the order

    @property
    def connection(self) -> object:
        return self._connection

    def consume(self, queue: Queue, tag: str = "c", **options: Any) -> Consumer:  # noqa: ANN401
        consumer = Consumer(queue, self, tag, **options)
        queue.subscribe(consumer)
        return consumer

    # -- what the core calls -----------------------------------------------------------------------

    def room(self, consumer: Consumer) -> int:
        if self.limit is not None:
            return self.limit
        if consumer.no_ack or not consumer.prefetch:
            return UNLIMITED
        return consumer.prefetch - consumer.unacked

    def deliver(self, consumer: Consumer, run: Run) -> None:
        assert run.start == 0
        n = len(run)
        self.runs.append(run)
        first = self.last_tag + 1
        for index, body in enumerate(bodies([run])):
            self.seen.append(body)
            self.deliveries[first + index] = (body, run.deliveries)
            if self.log is not None:
                self.log.append((consumer.tag, body))
        self.last_tag += n
        if self.limit is not None:
            self.limit -= n
        consumer.queue.delivered(consumer, run, n)
        if not consumer.no_ack:
            consumer.queue.watch(self, self.unacked.add(first, consumer, run))

    def cancelled(self, consumer: Consumer) -> None:
        self.cancelled_tags.append(consumer.tag)

    def expire(self, lease: Lease[Consumer]) -> list[SettledRange[Consumer]]:
        return self.unacked.expire(lease)

    # -- what a client does ------------------------------------------------------------------------

    def get(self, queue: Queue) -> str | None:
        """A basic.get with an ack to come."""
        run = queue.take_one()
        if run is None:
            return None
        getter = Consumer(queue, self, "")
        self.last_tag += 1
        queue.delivered(getter, run, 1)
        queue.watch(self, self.unacked.add(self.last_tag, getter, run))
        (body,) = bodies([run])
        self.deliveries[self.last_tag] = (body, run.deliveries)
        return body

    def ack(self, first: int, last: int | None = None) -> None:
        parts, unknown = self.unacked.take(first, last or first)
        assert unknown is None
        for part in parts:
            part.owner.queue.acknowledge(part)

    def requeue(self, *tags: int) -> None:
        """Give back one by one (no tags: everything)."""
        for queue, parts in self._taken(tags):
            queue.requeue(parts)

    def reject(self, *tags: int) -> None:
        for queue, parts in self._taken(tags):
            queue.reject(parts)

    def _taken(self, tags: tuple[int, ...]) -> list[tuple[Queue, list[SettledRange[Consumer]]]]:
        groups = [self.unacked.take(tag, tag)[0] for tag in tags] or [self.unacked.take_upto(0)]
        return [(parts[0].owner.queue, parts) for parts in groups if parts]
