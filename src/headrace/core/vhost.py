"""One virtual host: its exchanges, its queues, what binds them, and what belongs to them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from uuid import uuid4

from headrace.core.access.limits import MAX_QUEUES, is_reached
from headrace.core.clock import Clock, Timers
from headrace.core.counters import VhostCounters
from headrace.core.dead_letter_publisher import DeadLetterPublisher
from headrace.core.delays import DelayedExchanges
from headrace.core.exchange import KINDS, Exchange, Target
from headrace.core.loop_turn import LoopTurn, Steps
from headrace.core.message_events import MessageEvents
from headrace.core.policies import OperatorPolicies, Policies, applied_policies
from headrace.core.publication import Publication
from headrace.core.queues.queue import Queue
from headrace.core.reply_to import ReplyAddresses
from headrace.core.routes import DefaultRouter, Routes
from headrace.core.spark_support.pins import Pins, PinTarget
from headrace.core.spark_support.pipeline_status import Pipelines
from headrace.core.spark_support.staged_batches import StagedBatches
from headrace.core.storage import Storage
from headrace.core.topics.exchange_bridge import PREFIX as TOPIC_PREFIX
from headrace.core.topics.exchange_bridge import X_TOPIC, ExchangeBridge, RefusingSink
from headrace.core.topics.log_engine import LogEngine
from headrace.core.topics.registry import TopicRegistry
from headrace.core.vhost_services import VhostServices
from headrace.errors import AccessRefused, NotFound, PreconditionFailed, ResourceLocked
from headrace.model.exchange_arguments import (
    Declaration,
    check_equivalent_exchange,
    check_exchange_arguments,
)
from headrace.model.message import PublishedRun
from headrace.model.names import check_new_name, generated_queue_name
from headrace.model.policy import AppliedPolicies
from headrace.model.queue_arguments import (
    check_equivalent_queue,
    check_queue_arguments,
    queue_settings,
)
from headrace.model.routing.headers import check_arguments as check_headers_arguments
from headrace.store.api.message_log import OutgoingMessages, RecordDestination
from headrace.store.api.rows import BindingRow, ExchangeRow, QueueRow
from headrace.wire.amqp.values import type_name

_PREDECLARED = (
    ("amq.direct", "direct", False),
    ("amq.fanout", "fanout", False),
    ("amq.topic", "topic", False),
    ("amq.headers", "headers", False),
    ("amq.match", "headers", False),
    ("amq.rabbitmq.trace", "topic", True),
)
_NOTHING: Mapping[str, object] = {}


class Vhost:
    """Everything in it is invisible from other vhosts."""

    def __init__(
        self,
        name: str,
        clock: Clock,
        timers: Timers,
        turn: LoopTurn,
        storage: Storage | None = None,
    ) -> None:
        self.name = name
        self.storage = storage or Storage(turn)
        self.clock = clock
        self.timers = timers
        self.turn = turn
        self.services = services = VhostServices(name, clock, timers, turn, self.storage)
        self.queues: dict[str, Queue] = {}
        self.exchanges: dict[str, Exchange] = {}
        self.policies = Policies(services, self._apply_policies)
        self.operator_policies = OperatorPolicies(services, self._apply_policies)
        self.counters = VhostCounters()
        self.limits: dict[str, int] = {}
        self.created = 0  # queues, exchanges and bindings so far
        self.replies = ReplyAddresses()
        self.routes = Routes(
            name, self.exchanges, self.queues, lambda exchange: self.delays.of(exchange)
        )
        self.delays = DelayedExchanges(services, self.exchanges, self.routes, self.publish)
        self.dead_letters = DeadLetterPublisher(clock, self.exchanges, self.routes, self.publish)
        self.pins = Pins(services, self._find_pin_target)
        self.pipelines = Pipelines(clock)
        self.staging = StagedBatches(services)
        bridge = ExchangeBridge(self.exchanges, self.routes, self.publish, self.remove_exchange)
        self.topics = TopicRegistry(services, bridge, LogEngine(services, bridge, self.pins))
        self.events = MessageEvents(services, self.topics.log.append_to)
        self._exclusive: dict[object, set[Queue]] = {}
        self.exchanges[""] = default = Exchange("", "direct")
        default.router = DefaultRouter(self.queues, self.replies)
        for exchange, kind, internal in _PREDECLARED:
            self.exchanges[exchange] = Exchange(exchange, kind, internal=internal)

    # -- messages ---------------------------------------------------------------------------------

    def new_publication(self) -> Publication:
        """For messages that become visible in one step."""
        return Publication(self.storage, self.counters, self.publish)

    def publish(self, batch: PublishedRun) -> bool:
        """Put the messages on every destination of their route; False when one refused some.

        Returning does not mean durable, and one full queue does not starve the others.
        """
        accepted = True
        for destination in batch.route.destinations:
            if not destination.put(batch):
                accepted = False
        if batch.placed:
            self._store(batch)
        return accepted

    def _store(self, batch: PublishedRun) -> None:
        log = self.storage.log
        assert log is not None, "only a log numbers queues"
        contents = batch.contents
        longest = max([count for _, _, count in batch.placed])
        self.counters.stored += longest
        batch.position = log.append(
            OutgoingMessages(
                contents if longest == len(contents) else contents[:longest],
                [RecordDestination(*one) for one in batch.placed],
                batch.level,
                exchange=batch.route.exchange,
                key=batch.route.key,
                channel_number=batch.channel_number,
                ttl_ms=batch.ttl_ms,
            )
        )

    # -- exchanges ------------------------------------------------------------------------------

    def get_exchange(self, name: str) -> Exchange:
        return self.routes.exchange(name)

    def declare_exchange(
        self,
        name: str,
        kind: str,
        *,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Mapping[str, object] = _NOTHING,
    ) -> Exchange:
        """Make the exchange, or check that the one there is the same."""
        self.not_default(name)
        if kind not in KINDS:
            raise PreconditionFailed(f"invalid exchange type '{kind}'")
        current = self.exchanges.get(name)
        if current is None and kind == X_TOPIC:
            permanent = durable and not auto_delete and not internal
            return self.topics.declare_exchange(name, arguments, permanent=permanent)
        if current is not None:
            check_equivalent_exchange(
                name,
                self.name,
                received=Declaration(durable, auto_delete, False, internal, kind, arguments),
                current=Declaration(
                    current.durable,
                    current.auto_delete,
                    False,
                    current.internal,
                    current.kind,
                    current.arguments,
                ),
                type_name=type_name,
            )
            return current
        check_new_name("exchange", name)
        check_exchange_arguments(name, self.name, kind, arguments, type_name=type_name)
        exchange = Exchange(
            name,
            kind,
            durable=durable,
            auto_delete=auto_delete,
            internal=internal,
            arguments=arguments,
        )
        self.exchanges[name] = exchange
        self.created += 1
        if durable:
            self.storage.save(ExchangeRow(self.name, name, kind, auto_delete, internal, arguments))
        self.policies.apply_to(exchange)
        self.routes.changed()
        return exchange

    def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        """Remove the exchange and its bindings; one that is not there is no error."""
        self.not_default(name)
        exchange = self.exchanges.get(name)
        if exchange is None:
            return
        if name.startswith("amq."):
            raise AccessRefused(
                f"deletion of system exchange '{name}' in vhost '{self.name}' not allowed"
            )
        if exchange.sink is not None and not isinstance(exchange.sink, RefusingSink):
            raise AccessRefused(f"exchange '{name}' belongs to a topic: delete the topic")
        if if_unused and exchange.is_bound:
            raise PreconditionFailed(f"exchange '{name}' in vhost '{self.name}' in use")
        self.remove_exchange(exchange)

    def remove_exchange(self, exchange: Exchange) -> None:
        """Delete unconditionally."""
        del self.exchanges[exchange.name]
        self.counters.published += exchange.published
        if exchange.durable:
            self.storage.delete(ExchangeRow(self.name, exchange.name, exchange.kind))
        self.delays.remove(exchange)
        self._in_shares(exchange.close())
        self._unbind_everywhere(exchange)
        self.routes.changed()

    def not_default(self, name: str) -> None:
        if not name:
            raise AccessRefused("operation not permitted on the default exchange")

    # -- queues ---------------------------------------------------------------------------------

    def get_queue(self, name: str) -> Queue:
        queue = self.queues.get(name)
        if queue is None:
            raise NotFound(f"no queue '{name}' in vhost '{self.name}'")
        return queue

    def get_queue_for(self, name: str, connection: object) -> Queue:
        """The queue, if ``connection`` may use it: an exclusive one has a single owner."""
        queue = self.get_queue(name)
        if queue.owner is not None and queue.owner is not connection:
            raise self._locked(name)
        return queue

    def _locked(self, name: str) -> ResourceLocked:
        return ResourceLocked(
            f"cannot obtain exclusive access to locked queue '{name}' in vhost '{self.name}'. It "
            "could be originally declared on another connection or the exclusive property value "
            "does not match that of the original declaration."
        )

    def declare_queue(
        self,
        name: str,
        *,
        durable: bool = False,
        auto_delete: bool = False,
        owner: object | None = None,
        connection: object | None = None,
        arguments: Mapping[str, object] = _NOTHING,
        stored: QueueRow | None = None,
        is_generated: bool = False,
    ) -> Queue:
        """Make the queue, or check that the one there is the same. ``owner``: it is exclusive.

        ``is_generated``: the name is from new_queue_name(), as that of a queue without one.
        """
        self.counters.queues_declared += 1
        if not name:
            name = self.new_queue_name()
        elif stored is None and not is_generated:
            check_new_name("queue", name)
        asked = Declaration(durable, auto_delete, owner is not None, arguments=arguments)
        current = self.queues.get(name)
        if current is not None:
            if current.owner is not owner or (current.owner and current.owner is not connection):
                raise self._locked(name)
            check_equivalent_queue(
                name,
                self.name,
                received=asked,
                current=Declaration(
                    current.durable,
                    current.auto_delete,
                    current.owner is not None,
                    arguments=current.arguments,
                ),
                type_name=type_name,
            )
            current.touch()
            current.dispatch()
            return current
        if stored is None and is_reached(self.limits, MAX_QUEUES, len(self.queues)):
            raise PreconditionFailed(
                f"cannot declare queue '{name}': queue limit in vhost '{self.name}' "
                f"({self.limits[MAX_QUEUES]}) is reached"
            )
        check_queue_arguments(name, self.name, asked, type_name=type_name)
        policies = self._policies_of(name, arguments)
        number = stored.id if stored else None
        if durable and owner is None and stored is None:
            number = self.storage.new_queue_number()
        queue = Queue(
            self.services,
            name,
            durable=durable,
            auto_delete=auto_delete,
            owner=owner,
            arguments=arguments,
            settings=queue_settings(arguments, policies.definition),
            message_events=self.events,
            dead_letter=self.dead_letters.publish,
            on_delete=self.remove_queue,
            number=number,
            uuid=stored.uuid if stored else uuid4().hex,
        )
        if number is not None and stored is None:
            row = QueueRow(number, queue.uuid, self.name, name, auto_delete, arguments)
            self.storage.save(row)
        queue.policies = policies
        self.queues[name] = queue
        self.counters.queues_created += 1
        self.created += 1
        if owner is not None:
            self._exclusive.setdefault(owner, set()).add(queue)
        self.routes.changed()
        return queue

    def new_queue_name(self) -> str:
        return generated_queue_name(os.urandom(16))

    def delete_queue(
        self,
        name: str,
        connection: object,
        *,
        if_unused: bool = False,
        if_empty: bool = False,
    ) -> int:
        """Remove the queue; return how many ready messages went with it. None there = 0."""
        if name not in self.queues:
            return 0
        queue = self.get_queue_for(name, connection)
        queue.dispatch()
        if if_unused and len(queue.consumers):
            raise PreconditionFailed(f"queue '{name}' in vhost '{self.name}' in use")
        if if_empty and queue.backlog.count:
            raise PreconditionFailed(f"queue '{name}' in vhost '{self.name}' not empty")
        return self.remove_queue(queue)

    def remove_queue(self, queue: Queue) -> int:
        """Delete unconditionally."""
        if queue.deleted:
            return 0
        self.queues.pop(queue.name, None)
        if queue.number is not None:
            self.storage.delete(QueueRow(queue.number, queue.uuid, self.name, queue.name))
        if queue.owner in self._exclusive:
            self._exclusive[queue.owner].discard(queue)
        self._unbind_everywhere(queue)
        self.routes.changed()
        count = queue.close()
        self.counters.queues_deleted += 1
        self.counters.gone.add(queue.counters)
        return count

    # -- bindings -------------------------------------------------------------------------------

    def bind(
        self, source: str, target: Target, key: str, arguments: Mapping[str, object] = _NOTHING
    ) -> None:
        self.not_default(source)
        exchange = self.get_exchange(source)
        if exchange.router.by_headers:
            check_headers_arguments(arguments)
        if exchange.bind(target, key, arguments):
            self.created += 1
            self._follow_taps(exchange)
            if (row := self._binding_row(exchange, target, key, arguments)) is not None:
                self.storage.save(row)
            self.routes.changed()

    def when_bound(self, source: str, then: Callable[[], None]) -> None:
        """Bindings that were made get every message from then on: a topic of another engine must
        be followed first."""
        exchange = self.exchanges.get(source)
        if exchange is not None and exchange.is_tailed:
            self.topics.when_followed(source.removeprefix(TOPIC_PREFIX), then)
        else:
            then()

    def unbind(
        self, source: str, target: Target, key: str, arguments: Mapping[str, object] = _NOTHING
    ) -> None:
        self.not_default(source)
        exchange = self.exchanges.get(source)
        if exchange is None:
            return
        binding = exchange.unbind(target, key, arguments)
        if binding is not None:
            # Its own arguments: those of the request may be equal and yet written differently.
            row = self._binding_row(exchange, target, key, binding.arguments)
            if row is not None:
                self.storage.delete(row)
            self.routes.changed()
            self._follow_taps(exchange)
            self._auto_delete(exchange)

    def _binding_row(
        self, source: Exchange, target: Target, key: str, arguments: Mapping[str, object]
    ) -> BindingRow | None:
        """A binding is durable when both its ends are."""
        to_queue = isinstance(target, Queue)
        if not source.durable or not getattr(target, "durable", False):
            return None
        if isinstance(target, Queue) and target.number is None:
            return None
        return BindingRow(self.name, source.name, to_queue, target.name, key, arguments)

    def _unbind_everywhere(self, target: Target) -> None:
        for exchange in list(self.exchanges.values()):
            if exchange.name and (steps := exchange.unbind_all(target)) is not None:
                self._in_shares(steps)
                self._follow_taps(exchange)
                self._auto_delete(exchange)

    def _in_shares(self, steps: Steps | None) -> None:
        """What clients can no longer see is cleared over several turns."""
        if steps is not None:
            self.turn.run(steps)

    def _follow_taps(self, exchange: Exchange) -> None:
        """A topic of another engine is followed as long as something is bound to it."""
        if exchange.is_tailed and not isinstance(exchange.sink, RefusingSink):
            self.topics.taps_changed(exchange.name.removeprefix(TOPIC_PREFIX), is_new=True)

    def _auto_delete(self, exchange: Exchange) -> None:
        if exchange.auto_delete and not exchange.is_bound and exchange.name in self.exchanges:
            self.remove_exchange(exchange)

    # -- policies -------------------------------------------------------------------------------

    def _policies_of(self, name: str, arguments: Mapping[str, object]) -> AppliedPolicies:
        return applied_policies(self.policies, self.operator_policies, name, arguments)

    def _apply_policies(self) -> None:
        """A policy has changed: it takes effect on everything at once."""
        for queue in self.queues.values():
            queue.policies = self._policies_of(queue.name, queue.arguments)
            queue.configure(queue_settings(queue.arguments, queue.policies.definition))
        for exchange in self.exchanges.values():
            self.policies.apply_to(exchange)
        self.routes.changed()

    # -- life -----------------------------------------------------------------------------------

    def release_exclusive(self, connection: object) -> None:
        """The connection ends: its exclusive queues go with it."""
        self._in_shares(self._remove_all(self._exclusive.pop(connection, set())))

    def _remove_all(self, queues: set[Queue]) -> Steps:
        while queues:
            self.remove_queue(queues.pop())
            yield

    def close(self) -> None:
        for queue in list(self.queues.values()):
            self.remove_queue(queue)
        self.topics.close()
        self.staging.close()

    def _find_pin_target(self, kind: str, name: str) -> PinTarget | None:
        """A queue or topic whose messages are in the log."""
        if kind == "topic":
            topic = self.topics.log.by_name.get(name)
            if topic is None:
                return None
            return PinTarget(kind, name, topic.uuid, topic.numbers_by_partition_id(), topic.queues)
        queue = self.queues.get(name)
        if queue is None or queue.number is None:
            return None
        return PinTarget(kind, name, queue.uuid, {0: queue.number})
