"""All topics of a vhost, and in which engine each of them is."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from headrace.core.exchange import Exchange
from headrace.core.topics.async_engine import AsyncTopicEngine, DeclaredTopic, Then, collect
from headrace.core.topics.blocking_adapter import BlockingAdapter
from headrace.core.topics.exchange_bridge import EngineSink, ExchangeBridge, spec_of
from headrace.core.topics.log_engine import LogEngine, LoopAdapter
from headrace.core.topics.queue_feed import DatabaseTap
from headrace.core.vhost_services import VhostServices
from headrace.errors import (
    BadTopicValue,
    EngineUnavailable,
    NoSuchTopic,
    PreconditionFailed,
    TopicConflict,
)
from headrace.model.topics.names import check_topic
from headrace.store.topics.types import TopicInfo, TopicSpec
from headrace.wire.remoting.names import HIDDEN_TOPICS
from headrace.wire.remoting.names import check_topic as check_remoting_topic

logger = logging.getLogger(__name__)

MAX_QUEUES = 1024


class TopicRegistry:
    """Topic names are one space, whatever the engine."""

    def __init__(self, services: VhostServices, bridge: ExchangeBridge, log: LogEngine) -> None:
        self._services = services
        self.bridge = bridge
        self.log = log
        self._log_adapter = LoopAdapter(log, services)
        self.engines: dict[str, AsyncTopicEngine] = {log.name: self._log_adapter}
        self._opened: dict[str, set[str]] = {}  # by engine: topics that have their exchange
        self._hidden: set[tuple[str, str]] = set()  # engine and topic: said once
        self._tails: dict[str, DatabaseTap] = {}
        self.tap_token = "tap"  # under which this node follows topics of other engines

    def add_engine(self, engine: BlockingAdapter) -> None:
        """Topics of another engine: their exchanges come and go with them."""
        self.engines[engine.name] = engine
        engine.on_change = lambda: self._follow(engine)

    def _follow(self, engine: BlockingAdapter) -> None:
        known = {name for name in engine.names() if self._is_free(name, engine)}
        opened = self._opened.setdefault(engine.name, set())
        self._opened[engine.name] = known
        for name in opened - known:
            self._stop_tail(name)
            self.bridge.close(name)
        for name in known - opened:
            sink = EngineSink(engine, name)
            self.bridge.open(name, sink, is_tailed=True, durable=engine.durable)
            self.taps_changed(name)

    def _is_free(self, name: str, engine: BlockingAdapter) -> bool:
        """Other nodes know nothing of our log: a topic there, or the first one, keeps its name."""
        owner = self._owner_of(name)
        if owner is None or owner is engine:
            return True
        if (engine.name, name) not in self._hidden:
            self._hidden.add((engine.name, name))
            logger.warning(
                "topic '%s' of engine '%s' is hidden by that of engine '%s'",
                name, engine.name, owner.name,
            )  # fmt: skip
        return False

    def _owner_of(self, name: str) -> AsyncTopicEngine | None:
        """The engine whose topic has the exchange."""
        if self._log_adapter.knows(name):
            return self._log_adapter
        found = (engine for engine, names in self._opened.items() if name in names)
        return next((self.engines[engine] for engine in found), None)

    def taps_changed(self, name: str, *, is_new: bool = False) -> None:
        """Bindings of the topic's exchange came or went: follow it as long as there are some.
        ``is_new``: from now on, not from where this node stopped."""
        if not self.bridge.has_taps(name):
            self._stop_tail(name)
        elif name not in self._tails:
            engine = self._owner_of(name)  # none yet: it is followed when it is heard of
            if isinstance(engine, BlockingAdapter):
                tail = self._tails[name] = DatabaseTap(
                    engine, name, self.bridge, self._services.storage, self._services.timers,
                    self.tap_token, is_new=is_new,
                )  # fmt: skip
                tail.start()

    def when_followed(self, name: str, then: Callable[[], None]) -> None:
        """When its cursor is placed: what any node appends afterwards reaches the bound queues."""
        tail = self._tails.get(name)
        if tail is None:
            then()
        else:
            tail.when_placed(then)

    def _stop_tail(self, name: str) -> None:
        tail = self._tails.pop(name, None)
        if tail is not None:
            tail.stop()

    def declare_exchange(
        self, name: str, arguments: Mapping[str, object], *, permanent: bool
    ) -> Exchange:
        """A log topic declared by its exchange, as AMQP clients can."""
        if not permanent:
            raise PreconditionFailed(
                f"exchange '{name}' belongs to a topic: it is durable, neither auto-delete "
                "nor internal"
            )
        spec = spec_of(name, arguments)
        self._checked(spec, self.log.name)
        self.log.make(spec)
        return self.bridge.exchange(name)

    def import_exchange(self, name: str, arguments: Mapping[str, object]) -> None:
        """The exchange of an exported log topic: RocketMQ's names are legal, and its hidden topics
        are left out, because the broker creates them."""
        spec = spec_of(name, arguments)
        if spec.name not in HIDDEN_TOPICS:
            self._checked(spec, self.log.name, check_remoting_topic)
            self.log.make(spec)

    def declare(self, spec: TopicSpec, engine: str, then: Then[DeclaredTopic]) -> None:
        """Create the topic, or check that the one there is the same."""
        self._checked(spec, engine).declare(spec, then)

    def _checked(
        self, spec: TopicSpec, engine: str, check_name: Callable[[str], object] = check_topic
    ) -> AsyncTopicEngine:
        """The engine of that name, after checks of the declaration that all engines share."""
        check_name(spec.name)
        if not 1 <= spec.queues <= MAX_QUEUES:
            raise BadTopicValue(f"queues: 1 to {MAX_QUEUES} are allowed, not {spec.queues}")
        self.bridge.check_free(spec.name)
        wanted = self.engines.get(engine)
        if wanted is None:
            raise BadTopicValue(
                f"engine {engine!r} is unknown in vhost '{self._services.name}': "
                f"{', '.join(sorted(self.engines))}"
            )
        for name, other in self.engines.items():
            if other is not wanted and other.knows(spec.name):
                raise TopicConflict(f"topic '{spec.name}' already exists in engine '{name}'")
        return wanted

    def engine_of(self, topic: str) -> AsyncTopicEngine:
        """The engine that has the topic; NoSuchTopic."""
        owner = self._owner_of(topic)
        if owner is not None:
            return owner
        for engine in self.engines.values():
            if isinstance(engine, BlockingAdapter) and not engine.is_heard_of:
                raise EngineUnavailable(
                    f"no topic '{topic}' is known in vhost '{self._services.name}', but engine "
                    f"'{engine.name}' has not been reachable yet: it may be in that engine"
                )
        raise NoSuchTopic(f"no topic '{topic}' in vhost '{self._services.name}'")

    def names(self) -> list[str]:
        return sorted({name for engine in self.engines.values() for name in engine.names()})

    def infos(self, then: Then[list[TopicInfo]]) -> None:
        """All topics, engine by engine."""
        collect([engine.infos for engine in self.engines.values()], then)

    def close(self) -> None:
        for name in list(self._tails):
            self._stop_tail(name)
        for engine in self.engines.values():
            engine.close()
