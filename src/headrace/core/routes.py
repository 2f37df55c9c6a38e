"""Routes of a vhost: the walk from an exchange to its destinations, and the route cache."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from itertools import count
from typing import ClassVar, NamedTuple, Protocol, TypeVar

from headrace.cache import BoundedCache
from headrace.core.exchange import Exchange, Target
from headrace.core.loop_turn import Steps
from headrace.core.queues.queue import Queue
from headrace.core.reply_to import PREFIX, ReplyAddresses
from headrace.errors import AccessRefused, NotFound
from headrace.model.message import Destination, Route

MAX_CACHED = 8192
PREPARE_AGAIN = 3  # times that routes may change during long work
T = TypeVar("T", bound="Discardable")
_NO_HEADERS: Mapping[str, object] = {}


class Discardable(Protocol):
    def discard(self) -> None: ...


class DefaultRouter:
    """The default exchange: every queue is bound by its own name, and nothing else."""

    kind: ClassVar[str] = "direct"
    by_headers: ClassVar[bool] = False

    def __init__(self, queues: Mapping[str, Queue], replies: ReplyAddresses) -> None:
        self._queues = queues
        self._replies = replies

    def match(self, key: str, headers: Mapping[str, object]) -> tuple[Target, ...]:
        queue = self._queues.get(key)
        if queue is not None:
            return (queue,)
        if key.startswith(PREFIX):
            address = self._replies.find(key)
            return (address,) if address else ()
        return ()

    def bind(self, key: str, arguments: Mapping[str, object], target: Target) -> None:
        raise AccessRefused("operation not permitted on the default exchange")

    unbind = bind


class WalkResult(NamedTuple):
    """The outcome of a walk through exchanges."""

    destinations: list[Destination]
    by_headers: bool


class Routes:
    """The routes of one vhost, cached until something changes."""

    def __init__(
        self,
        vhost: str,
        exchanges: Mapping[str, Exchange],
        queues: Mapping[str, Queue],
        delayed: Callable[[Exchange], Destination],
    ) -> None:
        self._vhost = vhost
        self._exchanges = exchanges
        self._queues = queues
        self._delayed = delayed  # where messages of a delayed exchange wait
        self.epoch = 0  # changes whenever a route that a publisher has cached may be wrong
        self._cached: BoundedCache[tuple[str, str], Route] = BoundedCache(MAX_CACHED)

    def changed(self) -> None:
        """Some route may lead elsewhere now."""
        self.epoch += 1
        self._cached.clear()

    def exchange(self, name: str) -> Exchange:
        exchange = self._exchanges.get(name)
        if exchange is None:
            raise NotFound(f"no exchange '{name}' in vhost '{self._vhost}'")
        return exchange

    def get(self, exchange_name: str, key: str) -> Route:
        """Where messages with this exchange and key go."""
        route = self._cached.get((exchange_name, key))
        if route is None:
            found = self.walk(self.exchange(exchange_name), (key,), _NO_HEADERS)
            route = Route(exchange_name, key, found.destinations, by_headers=found.by_headers)
            self._cached.keep((exchange_name, key), route)
        return route

    def prepared(
        self, new: Callable[[], T], prepare: Callable[[T], Steps]
    ) -> Generator[None, None, T]:
        """Something ``new`` that ``prepare`` fills in several steps, by the routes at their end.

        It is done again when routes changed meanwhile; after a few times in one step.
        """
        for attempt in count():
            epoch, found = self.epoch, new()
            try:
                for _ in prepare(found):
                    if attempt < PREPARE_AGAIN:
                        yield
            except BaseException:
                found.discard()
                raise
            if epoch == self.epoch:
                return found
            found.discard()
        raise AssertionError

    def find(self, exchange_name: str, keys: Iterable[str], headers: Mapping[str, object]) -> Route:
        """The same for one message with its headers and all its keys (the first one is shown)."""
        keys = tuple(keys)
        found = self.walk(self.exchange(exchange_name), keys, headers)
        return Route(exchange_name, keys[0], found.destinations)

    def walk(
        self,
        start: Exchange,
        keys: Iterable[str],
        headers: Mapping[str, object],
        *,
        inside: bool = False,
    ) -> WalkResult:
        """Every destination of the message, once, through bound and alternate exchanges.

        ``inside``: the first exchange has the message already: it was delayed, or is in its topic.
        """
        keys = tuple(keys)
        queues, exchanges = self._queues, self._exchanges
        seen = {start}
        todo = [start]
        found: dict[Destination, None] = {}
        by_headers = False
        while todo:
            exchange = todo.pop()
            if not (inside and exchange is start) and self._stops_at(exchange, found):
                continue
            by_headers = by_headers or exchange.router.by_headers
            matched = exchange.match(keys, headers)
            if exchange.direct_to_queue:
                matched = [*matched, *[queues[key] for key in keys if key in queues]]
            for target in matched:
                if not isinstance(target, Exchange):
                    found[target] = None
                elif target not in seen:
                    seen.add(target)
                    todo.append(target)
            if not matched and exchange.sink is None and exchange.alternate is not None:
                other = exchanges.get(exchange.alternate)
                if other is not None and other not in seen:
                    seen.add(other)
                    todo.append(other)
        return WalkResult(list(found), by_headers)

    def _stops_at(self, exchange: Exchange, found: dict[Destination, None]) -> bool:
        """A delayed exchange, or a topic: messages may go no further, or not yet."""
        if exchange.delayed:
            found[self._delayed(exchange)] = None
            return True
        if exchange.sink is not None:
            found[exchange.sink] = None
            return exchange.is_tailed
        return False
