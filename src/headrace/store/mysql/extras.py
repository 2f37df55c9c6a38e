"""What the engine does beyond its contract: adoption, outside readers, orderly reading."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from headrace.errors import BadTopicValue
from headrace.model.topics.message_priority import Priority
from headrace.model.topics.names import check_token
from headrace.store.mysql import adopt, pins
from headrace.store.mysql.checks import check_reader
from headrace.store.mysql.connection import DbConnection
from headrace.store.mysql.context import COMMITTED, MySqlContext
from headrace.store.mysql.groups import offset_reset, queue_leases
from headrace.store.mysql.groups.queue_leases import QueueLease
from headrace.store.mysql.housekeeper import Housekeeper
from headrace.store.mysql.stable_ids import Bounds
from headrace.store.topics.types import DEFAULT_LEASE_MS, ConsumerSpec, StoredMessage

T = TypeVar("T")


class Extras(MySqlContext):
    """All methods may be called from any thread."""

    def adopt(self, topic: str) -> None:
        """Make a topic out of tables of the original DDL, in place."""
        self._catalogue.locked(topic, adopt.adopt)

    def uuid(self, topic: str) -> str:
        """What tells the topic, as it is now, from others of its name."""
        return self._catalogue.look(topic).uuid

    def bounds(self, topic: str) -> dict[Priority, Bounds]:
        """What may be read now, for those who read ranges of ids by themselves."""
        found = self._catalogue.get(topic)
        return self._on(topic, lambda session: self._bounds(session, found), repeatable=True)

    def pin(
        self,
        topic: str,
        query: str,
        start: Mapping[Priority, int],
        end: Mapping[Priority, int],
        token: str = "query",
    ) -> None:
        """The query is about to read the ids above ``start`` up to ``end`` by itself: committed
        before this returns. Retention keeps everything above ``start``. Call it again, with what
        is next, when they are done."""
        check_token(query, "query")
        check_token(token)
        self._catalogue.get(topic)
        self._on(
            topic,
            lambda session: pins.pin(session, topic, query, token, start, end),
            repeatable=True,
        )

    def first_ids_at(self, topic: str, time_ms: int) -> dict[Priority, int]:
        """The id of the first message of each priority stored at that time or later."""
        found = self._catalogue.get(topic)

        def work(session: DbConnection) -> dict[Priority, int]:
            return {
                priority: offset_reset.position_at(session, topic, priority, its, time_ms) + 1
                for priority, its in self._bounds(session, found).items()
            }

        return self._on(topic, work, repeatable=True)

    def on_writer(self, work: Callable[[DbConnection], T], *, repeatable: bool = False) -> T:
        """Work of batch writers, on a connection for appends."""
        return self._writers.call(work, unknown="it may have been done", repeatable=repeatable)

    def pinned(self, topic: str, query: str, token: str = "query") -> dict[Priority, int]:
        """The ids that the query has done with, by priority; empty when it has no pin."""
        return self._on(
            topic, lambda session: pins.pinned(session, topic, query, token), repeatable=True
        )

    def unpin(self, topic: str, query: str, token: str = "query") -> None:
        """The query will not read any more."""
        self._on(topic, lambda session: pins.unpin(session, topic, query, token), repeatable=True)

    def lease_queue(
        self, topic: str, reader: ConsumerSpec, priority: Priority, queue: int
    ) -> QueueLease | None:
        """Orderly reading: the queue, when no other member of the group holds it."""
        check_reader(reader)
        found = self._catalogue.get(topic)
        if not 0 <= queue < found.queues:
            raise BadTopicValue(f"topic {topic!r} has the queues 0 to {found.queues - 1}")

        def work(session: DbConnection) -> QueueLease | None:
            bounds = self._bounds(session, found)[priority]
            return queue_leases.lease(session, topic, reader, priority, queue, bounds)

        return self._on(topic, work, repeatable=True)

    def read_queue(
        self, topic: str, held: QueueLease, batch: int, after: int | None = None
    ) -> list[StoredMessage]:
        """The next messages of a leased queue, in order: behind what was committed when it was
        leased, or behind the id ``after``."""
        found = self._catalogue.get(topic)
        position = held.position if after is None else after
        return self._on(
            topic,
            lambda session: queue_leases.read(
                session, topic, held, position, self._bounds(session, found)[held.priority], batch
            ),
            repeatable=True,
        )

    def commit_queue(
        self, topic: str, held: QueueLease, position: int, lease_ms: int = DEFAULT_LEASE_MS
    ) -> None:
        """Everything of the queue up to that id is done; the lease begins anew. ClaimLost."""
        self._on(
            topic,
            lambda session: queue_leases.commit(session, topic, held, position, lease_ms),
            unknown=COMMITTED,
        )

    def release_queue(self, topic: str, held: QueueLease) -> None:
        """Another member may have it at once."""
        self._on(topic, lambda session: queue_leases.release(session, topic, held), repeatable=True)

    def housekeep(self) -> None:
        """One round of housekeeping now, in this thread."""
        Housekeeper(self._readers, self._catalogue, self._bounds, self.node).round()
