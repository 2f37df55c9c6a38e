"""Delayed messages: exchanges of type x-delayed-message hold a message for its `x-delay`.

Routes to such an exchange end at its DelayedMessageQueue, which lets undelayed messages pass and
keeps the others until they are due; then they are routed as if just published.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from headrace.core.exchange import Exchange
from headrace.core.routes import Routes
from headrace.core.vhost_services import VhostServices
from headrace.model.message import PublishedRun, Route
from headrace.store.api.message_log import DurabilityLevel, OutgoingMessages, RecordDestination
from headrace.store.api.rows import QueueRow
from headrace.wire.amqp.content import properties_of, with_properties
from headrace.wire.amqp.properties import Properties

# As the plugin: about 49 days. More is taken for an accident, not for a wish.
MAX_DELAY_MS = (1 << 32) - 1

NAME_PREFIX = "amq.delayed."


@dataclass(slots=True, eq=False, repr=False)
class DelayedMessageQueue:
    """The delayed messages of one exchange.

    Persistent ones of a durable exchange are in the log meanwhile, under a queue number; when they
    are due they leave it and enter their queues in one atomic group.
    """

    services: VhostServices
    exchange: Exchange
    publish: Callable[[Exchange, PublishedRun, bytes, Properties], int]
    number: int | None = None  # in the log
    # A name no queue can have: a dead letter that comes here has not come round to its queue.
    name: str = field(init=False)
    count: int = 0
    _next_offset: int = 0

    def __post_init__(self) -> None:
        self.name = NAME_PREFIX + self.exchange.name

    def put(self, batch: PublishedRun) -> bool:
        later = PublishedRun(  # what a waiting message needs of its run, without its neighbours
            batch.route,
            [],
            0,
            channel_number=batch.channel_number,
            persistent=batch.persistent,
            ttl_ms=batch.ttl_ms,
        )
        for content in batch.contents:
            properties = properties_of(content)
            delay = _delay_of(properties)
            if delay <= 0:
                position = self.publish(self.exchange, batch, content, properties)
            else:
                # The header stays, turned negative: the receiver sees that the wait is over.
                assert properties.headers is not None
                properties.headers.set("x-delay", -delay)
                waiting = with_properties(content, properties)
                offset, position = self._store(later, waiting)
                self._wait(later, waiting, offset, self.services.clock.now_ms() + delay)
            batch.position = max(batch.position, position)
        return True

    def _wait(self, batch: PublishedRun, content: bytes, offset: int | None, due_ms: int) -> None:
        self.count += 1
        self.services.timers.at(due_ms, partial(self._due, batch, content, offset))

    def _store(self, batch: PublishedRun, content: bytes) -> tuple[int | None, int]:
        """Append the message to the log; returns its offset and the position to wait for."""
        log = self.services.storage.log
        if not batch.persistent or not self.exchange.durable or log is None:
            return None, 0
        if self.number is None:
            row = self.services.storage.new_destination(self.services.name, self.name)
            if row is None:
                return None, 0
            self.number = row.id
        offset = self._next_offset
        self._next_offset += 1
        position = log.append(
            OutgoingMessages(
                [content],
                [RecordDestination(self.number, offset, 1)],
                DurabilityLevel.FSYNC,
                exchange=batch.route.exchange,
                key=batch.route.key,
                channel_number=batch.channel_number,
                ttl_ms=batch.ttl_ms,
            )
        )
        return offset, position

    def restore(self) -> None:
        """Wait again after a restart; what is overdue is published at once, in order."""
        log = self.services.storage.log
        assert log is not None and self.number is not None
        self._next_offset = log.reads.next_offset(self.number)
        clock = self.services.clock
        since_wall = clock.now_ms() - clock.expiry_ms()
        start = 0
        while start < self._next_offset:
            found, start = log.reads.read(self.number, start, self._next_offset)
            for stored in found:
                batch = PublishedRun(
                    Route(stored.exchange, stored.key),
                    [],
                    0,
                    channel_number=stored.channel_number,
                    persistent=True,
                    ttl_ms=stored.ttl_ms,
                )
                for offset, content in zip(stored.offsets, stored.contents, strict=True):
                    delay = -_delay_of(properties_of(content))
                    self._wait(batch, content, offset, stored.time + delay + since_wall)

    def _due(self, batch: PublishedRun, content: bytes, offset: int | None) -> None:
        self.count -= 1
        storage = self.services.storage
        with storage.atomic():
            self.publish(self.exchange, batch, content, properties_of(content))
            if offset is not None and self.number is not None and storage.log is not None:
                storage.log.settle(self.number, range(offset, offset + 1))


@dataclass(frozen=True, slots=True, eq=False)
class DelayedExchanges:
    """The delayed messages of a vhost, by exchange."""

    services: VhostServices
    exchanges: Mapping[str, Exchange]
    routes: Routes
    publish: Callable[[PublishedRun], object]
    _by_exchange: dict[Exchange, DelayedMessageQueue] = field(default_factory=dict)

    def of(self, exchange: Exchange) -> DelayedMessageQueue:
        return self._by_exchange.get(exchange) or self._add(exchange)

    def _add(self, exchange: Exchange, number: int | None = None) -> DelayedMessageQueue:
        delayed = DelayedMessageQueue(self.services, exchange, self._publish_due, number)
        self._by_exchange[exchange] = delayed
        return delayed

    def _publish_due(
        self, exchange: Exchange, batch: PublishedRun, content: bytes, properties: Properties
    ) -> int:
        """Route a message that need not wait; returns the position of the log to wait for."""
        if self.exchanges.get(exchange.name) is not exchange:
            return 0  # deleted meanwhile
        headers = properties.headers.as_dict() if properties.headers else {}
        key = batch.route.key
        carbon = headers.get("CC")
        copies = carbon if isinstance(carbon, list) else []
        found = self.routes.walk(exchange, [key, *copies], headers, inside=True)
        due = PublishedRun(
            Route(batch.route.exchange, key, found.destinations),
            [content],
            len(content),
            channel_number=batch.channel_number,
            persistent=batch.persistent,
            ttl_ms=batch.ttl_ms,
        )
        self.publish(due)
        return due.position

    def restore(self, row: QueueRow) -> None:
        """Messages found in the log wait again."""
        exchange = self.exchanges.get(row.name.removeprefix(NAME_PREFIX))
        if exchange is not None and exchange.delayed:
            self._add(exchange, row.id).restore()

    def remove(self, exchange: Exchange) -> None:
        """The exchange is deleted, and its delayed messages with it."""
        delayed = self._by_exchange.pop(exchange, None)
        if delayed is not None and delayed.number is not None:
            storage = self.services.storage
            storage.delete(QueueRow(delayed.number, "", self.services.name, delayed.name))
            if storage.log is not None:
                storage.log.space.delete_queue(delayed.number)


def _delay_of(properties: Properties) -> int:
    """In ms, as the publisher gave it; below 0: of one that waits or has waited."""
    value = properties.headers.get("x-delay") if properties.headers else None
    if isinstance(value, str):
        value = int(value) if value.isascii() and value.isdigit() and len(value) < 20 else 0
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return 0
    return int(value) if value <= MAX_DELAY_MS else 0
