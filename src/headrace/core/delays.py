"""Delayed messages: exchanges of type x-delayed-message hold a message for its `x-delay`.

Such an exchange is reached through a Waiting destination, which lets undelayed messages pass and
keeps the others until their time has come; then they are routed as if just published.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import BrokerError
from headrace.model.message import Batch, Route
from headrace.wire.amqp.content import properties_of, with_properties
from headrace.wire.amqp.properties import Properties

if TYPE_CHECKING:
    from headrace.core.exchange import Exchange
    from headrace.core.vhost import Vhost

# As the plugin: about 49 days. More is taken for an accident, not for a wish.
MAX_DELAY_MS = (1 << 32) - 1


class Waiting:
    """The place where messages of one delayed exchange wait."""

    __slots__ = ("_exchange", "_vhost", "count", "name")

    def __init__(self, vhost: Vhost, exchange: Exchange) -> None:
        self._vhost = vhost
        self._exchange = exchange
        # A name no queue can have: a dead letter that comes here has not come round to its queue.
        self.name = "amq.delayed." + exchange.name
        self.count = 0

    def put(self, batch: Batch) -> bool:
        later = Batch(  # what a waiting message needs to know of its batch, without its neighbours
            batch.route,
            [],
            0,
            origin=batch.origin,
            persistent=batch.persistent,
            ttl_ms=batch.ttl_ms,
        )
        for content in batch.contents:
            properties = properties_of(content)
            delay = _delay_of(properties)
            if delay <= 0:
                self._release(batch, content, properties)
                continue
            # The header stays, turned negative: the receiver sees that the wait is over.
            assert properties.headers is not None
            properties.headers.set("x-delay", -delay)
            waiting = with_properties(content, properties)
            self.count += 1
            self._vhost.timers.after(delay, lambda c=waiting: self._due(later, c))  # type: ignore[misc]
        return True

    def _due(self, batch: Batch, content: bytes) -> None:
        self.count -= 1
        try:
            self._release(batch, content, properties_of(content))
        except BrokerError:
            return  # the exchange was deleted meanwhile: there is nowhere to go

    def _release(self, batch: Batch, content: bytes, properties: Properties) -> None:
        if self._vhost.exchanges.get(self._exchange.name) is not self._exchange:
            return
        headers = properties.headers.as_dict() if properties.headers else {}
        key = batch.route.key
        carbon = headers.get("CC")
        copies = carbon if isinstance(carbon, list) else []
        queues = self._vhost.walk(self._exchange, [key, *copies], headers, past_delay=True)
        route = Route(batch.route.exchange, key, queues.destinations)
        self._vhost.publish(
            Batch(
                route,
                [content],
                len(content),
                origin=batch.origin,
                persistent=batch.persistent,
                ttl_ms=batch.ttl_ms,
            )
        )


def _delay_of(properties: Properties) -> int:
    value = properties.headers.get("x-delay") if properties.headers else None
    if isinstance(value, str):
        value = int(value) if value.isascii() and value.isdigit() and len(value) < 20 else 0
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return 0
    return int(value) if value <= MAX_DELAY_MS else 0
