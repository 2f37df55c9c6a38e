"""Orderly reading: a member leases a queue of a priority and reads it alone, in order.

Each queue of a group has a row in `msg_c` with owner, epoch and lease. Only who holds it commits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from headrace.errors import BadTopicValue, ClaimLost
from headrace.model.topics.message_priority import Priority
from headrace.store.mysql import tables
from headrace.store.mysql.context import COMMITTED, MySqlContext, check_reader
from headrace.store.mysql.groups import group_rows
from headrace.store.mysql.message_rows import SELECTED, message_of
from headrace.store.mysql.stable_ids import TopicBounds
from headrace.store.mysql.tables import NOW
from headrace.store.sql.connection import DbConnection
from headrace.store.topics.types import DEFAULT_LEASE_MS, ConsumerSpec, StoredMessage

_ROW_TOKEN: Final = "#q"
_THIS: Final = "group_key=%s AND token='#q' AND queue_id=%s AND priority=%s"


@dataclass(frozen=True, slots=True)
class QueueLease:
    """One queue of one priority, held by one member of a group."""

    group: str
    token: str
    priority: Priority
    queue: int
    epoch: int
    position: int

    @property
    def row(self) -> tuple[str, int, str]:
        return self.group, self.queue, self.priority.label


class QueueLeases:
    """Orderly reading: queues leased to members of groups."""

    def __init__(self, context: MySqlContext) -> None:
        self._context = context

    def lease(
        self, topic: str, reader: ConsumerSpec, priority: Priority, queue: int
    ) -> QueueLease | None:
        """The queue, when no other member of the group holds it."""
        check_reader(reader)
        found = self._context.catalog.get(topic)
        if not 0 <= queue < found.queues:
            raise BadTopicValue(
                f"topic {topic!r} has no queue {queue}: queues are 0 to {found.queues - 1}"
            )
        if reader.group is None:
            raise BadTopicValue("queues are leased by members of a group")
        group, table = reader.group, tables.cursors(topic)
        row = (group, queue, priority.label)

        def work(session: DbConnection, bounds: TopicBounds) -> QueueLease | None:
            start = group_rows.start_of(reader, bounds[priority])
            session.run(
                f"INSERT IGNORE INTO {table} (group_id,token,priority,queue_id,`offset`,epoch) "
                "VALUES (%s,%s,%s,%s,%s,%s)",
                (group, _ROW_TOKEN, priority.label, queue, start, group_rows.new_epoch()),
            )
            with session.transaction():
                count = session.run(
                    f"UPDATE {table} SET owner=%s, epoch=epoch+1, lease_until_ms={NOW}+%s "
                    f"WHERE {_THIS} AND (owner IS NULL OR owner=%s OR lease_until_ms<{NOW})",
                    (reader.token, reader.lease_ms, *row, reader.token),
                )
                if not count:
                    return None
                [(epoch, position)] = session.rows(
                    f"SELECT epoch,`offset` FROM {table} WHERE {_THIS}", row
                )
            return QueueLease(group, reader.token, priority, queue, int(epoch), int(position))

        return self._context.read(topic, work)

    def read(
        self, topic: str, held: QueueLease, limit: int, after: int | None = None
    ) -> list[StoredMessage]:
        """The next messages of a leased queue, in order: behind what was committed when it was
        leased, or behind the id ``after``."""
        position = held.position if after is None else after

        def work(session: DbConnection, bounds: TopicBounds) -> list[StoredMessage]:
            its = bounds[held.priority]
            rows = session.rows(
                f"SELECT {SELECTED} FROM {tables.messages(topic, held.priority)} "
                f"WHERE queue_id=%s AND id>%s AND id<=%s AND flags=0 ORDER BY id LIMIT {limit}",
                (held.queue, max(position, its.low - 1), its.stable),
            )
            return [message_of(row, held.priority, 1) for row in rows]

        return self._context.read(topic, work)

    def commit(
        self, topic: str, held: QueueLease, position: int, lease_ms: int = DEFAULT_LEASE_MS
    ) -> None:
        """Everything of the queue up to that id is done; the lease starts again. ClaimLost."""
        sql = (
            f"UPDATE {tables.cursors(topic)} SET `offset`=GREATEST(`offset`,%s), "
            f"lease_until_ms={NOW}+%s WHERE {_THIS} AND owner=%s AND epoch=%s "
            f"AND lease_until_ms>={NOW}"
        )
        values = (position, lease_ms, *held.row, held.token, held.epoch)
        work = partial(DbConnection.run, sql=sql, values=values)
        if not self._context.run(topic, work, unknown=COMMITTED):
            raise ClaimLost(
                f"{held.token!r} does not hold the lease of queue {held.queue} (priority "
                f"{held.priority.label}) of topic {topic!r} any more; nothing was committed"
            )

    def release(self, topic: str, held: QueueLease) -> None:
        """Another member may have it at once."""
        sql = (
            f"UPDATE {tables.cursors(topic)} SET owner=NULL, lease_until_ms=0 WHERE {_THIS} "
            "AND owner=%s AND epoch=%s"
        )
        values = (*held.row, held.token, held.epoch)
        self._context.run(topic, partial(DbConnection.run, sql=sql, values=values), repeatable=True)
