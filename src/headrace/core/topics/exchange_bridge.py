"""Topics and exchanges: every topic has an exchange `topic.<name>` of type x-topic.

What is published to it, or reaches it from another exchange, is appended to the topic (the sink).
Its own bindings are taps: queues that get what comes into the topic, from any producer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Final

from headrace.core.exchange import Exchange
from headrace.core.publication import EntrySink
from headrace.core.routes import Routes
from headrace.core.topics.amqp_mapping import content_of, entry_of
from headrace.core.topics.async_engine import AsyncTopicEngine, EngineReply
from headrace.core.topics.engine_confirms import EngineConfirms
from headrace.core.topics.log_topic import LogTopic
from headrace.errors import BrokerError, PreconditionFailed, TopicConflict
from headrace.model.message import Destination, PublishedRun, Route
from headrace.model.retention import Retention, parse_retention
from headrace.model.topics.message_priority import Priority
from headrace.store.topics.entry import EntryFields, decode_entry
from headrace.store.topics.types import Entry, TopicSpec

logger = logging.getLogger(__name__)

X_TOPIC: Final = "x-topic"
PREFIX: Final = "topic."
CHANNEL_NUMBER: Final = 1  # the channel number in the frames of contents made here


def topic_exchange_name(topic: str) -> str:
    """The exchange of a topic; a topic's permissions are those of its exchange."""
    return PREFIX + topic


def exchange_arguments(queues: int, retention: Retention | None) -> dict[str, object]:
    """A topic's settings as the arguments of its exchange; the inverse of spec_of()."""
    given: dict[str, object] = {}
    if queues != 1:
        given["x-queues"] = queues
    limits = [] if retention is None else [(retention.ms, "ms"), (retention.size, "B")]
    if text := ",".join(f"{value}{unit}" for value, unit in limits if value is not None):
        given["x-retention"] = text
    return given


def spec_of(name: str, arguments: Mapping[str, object]) -> TopicSpec:
    """The topic declared by a client through its exchange; PreconditionFailed."""
    if not name.startswith(PREFIX):
        raise PreconditionFailed(
            f"exchange '{name}' cannot be of type {X_TOPIC}: its name must be {PREFIX}<topic>"
        )
    queues, text = arguments.get("x-queues", 1), arguments.get("x-retention")
    if type(queues) is not int:
        raise PreconditionFailed(f"invalid arg 'x-queues' for exchange '{name}': a whole number")
    retention = None
    if text is not None:
        retention = parse_retention(text) if isinstance(text, str) else None
        if retention is None:
            raise PreconditionFailed(
                f"invalid arg 'x-retention' for exchange '{name}': like 7d, 500MB or 7d,500MB"
            )
    return TopicSpec(name.removeprefix(PREFIX), queues, retention)


class LogSink(EntrySink):
    """Appends to a log topic: in the same commit as everything else of the turn."""

    __slots__ = ("_topic", "name")

    def __init__(self, topic: LogTopic) -> None:
        self._topic = topic
        self.name = topic_exchange_name(topic.name)

    def entries(self, batch: PublishedRun) -> list[Entry]:
        key = batch.route.key
        return [entry_of(content, key) for content in batch.contents]

    def put(self, batch: PublishedRun) -> bool:
        position = self.prepare(self.entries(batch))()
        if position is None:
            batch.refused = set(range(len(batch.contents)))
            return False
        batch.position = max(batch.position, position)
        return True

    def prepare(self, entries: Sequence[Entry]) -> Callable[[], int | None]:
        """Encode entries; what is returned appends them, and returns the position to wait for."""
        append = self._topic.prepare(entries, tapped=False)

        def appended() -> int | None:
            try:
                return append().position
            except BrokerError as error:
                logger.error("nothing was appended to topic '%s': %s", self._topic.name, error)
                return None

        return appended


class EngineSink:
    """Appends to a topic of another engine: the run's engine confirms wait for it."""

    __slots__ = ("_engine", "_topic", "name")

    def __init__(self, engine: AsyncTopicEngine, topic: str) -> None:
        self._engine = engine
        self._topic = topic
        self.name = topic_exchange_name(topic)

    def put(self, batch: PublishedRun) -> bool:
        key = batch.route.key
        entries = [entry_of(content, key) for content in batch.contents]
        engine_confirms = batch.engine_confirms
        if engine_confirms is None:
            engine_confirms = batch.engine_confirms = EngineConfirms()
        engine_confirms.add()
        self._engine.append(
            self._topic, entries, lambda answer: self._appended(engine_confirms, answer)
        )
        return True

    def _appended(self, engine_confirms: EngineConfirms, answer: EngineReply[list[int]]) -> None:
        if answer.error is not None:
            logger.error("nothing was appended to topic '%s': %s", self._topic, answer.error)
        engine_confirms.done(ok=answer.error is None)


class RefusingSink:
    """In place of a topic that takes no messages: only the broker appends to it, or its engine has
    not been heard of yet, after a restart."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def put(self, batch: PublishedRun) -> bool:
        batch.refused = set(range(len(batch.contents)))
        return False


class ExchangeBridge:
    """The exchanges of a vhost's topics."""

    def __init__(
        self,
        exchanges: dict[str, Exchange],
        routes: Routes,
        publish: Callable[[PublishedRun], object],
        remove_exchange: Callable[[Exchange], None],
    ) -> None:
        self._exchanges = exchanges
        self._routes = routes
        self._publish = publish
        self._remove_exchange = remove_exchange
        self.frame_max = 131072  # of the contents made here

    def exchange(self, name: str) -> Exchange:
        return self._exchanges[name]

    def set_queues(self, topic: str, queues: int) -> None:
        """The topic has another number of queues: its exchange says so."""
        exchange = self._exchanges[topic_exchange_name(topic)]
        exchange.arguments = {**exchange.arguments, **exchange_arguments(queues, None)}

    def check_free(self, topic: str) -> None:
        """Before a topic is created: an exchange may have its name already."""
        found = self._exchanges.get(topic_exchange_name(topic))
        if found is not None and found.sink is None:
            raise TopicConflict(
                f"exchange '{found.name}' has the name that topic '{topic}' needs: delete it first"
            )

    def open(
        self,
        topic: str,
        sink: Destination,
        *,
        is_tailed: bool = False,
        durable: bool = True,
        arguments: Mapping[str, object] | None = None,
    ) -> Exchange:
        """The exchange of a topic."""
        name = topic_exchange_name(topic)
        exchange = self._exchanges.get(name)
        if exchange is None or exchange.kind != X_TOPIC:
            exchange = Exchange(name, X_TOPIC, durable=durable, arguments=arguments or {})
            self._exchanges[name] = exchange
        exchange.sink = sink
        exchange.is_tailed = is_tailed
        self._routes.changed()
        return exchange

    def expect(self, name: str) -> None:
        """At start: something is bound to the exchange of a topic that is not known yet."""
        if name.startswith(PREFIX) and name not in self._exchanges:
            self.open(name.removeprefix(PREFIX), RefusingSink(name), is_tailed=True)

    def close(self, topic: str) -> None:
        """The topic is deleted: its exchange and bindings go with it."""
        exchange = self._exchanges.get(topic_exchange_name(topic))
        if exchange is not None and exchange.sink is not None:
            self._remove_exchange(exchange)

    # -- taps ------------------------------------------------------------------------------------

    def has_taps(self, topic: str) -> bool:
        exchange = self._exchanges.get(topic_exchange_name(topic))
        return exchange is not None and exchange.is_bound

    def tap(self, topic: str, appended: Sequence[tuple[Priority, bytes]]) -> int:
        """Deliver encoded entries to bound queues; returns the log's position to wait for."""
        parts = [(priority, decode_entry(content)) for priority, content in appended]
        return self.give(topic, parts)

    def give(self, topic: str, appended: Sequence[tuple[Priority, EntryFields]]) -> int:
        """The same with entries that are decoded."""
        name = topic_exchange_name(topic)
        exchange = self._exchanges.get(name)
        if exchange is None or not exchange.is_bound:
            return 0
        position = 0
        for tags, group in groupby(appended, key=lambda one: one[1].tags or ""):
            targets = self._routes.walk(exchange, (tags,), {}, inside=True).destinations
            if not targets:
                continue
            contents = [content_of(parts, priority, self.frame_max) for priority, parts in group]
            batch = PublishedRun(
                Route(name, tags, targets),
                contents,
                sum(map(len, contents)),
                channel_number=CHANNEL_NUMBER,
                persistent=True,
            )
            self._publish(batch)
            position = max(position, batch.position)
        return position
