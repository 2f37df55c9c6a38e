"""Removes old messages: `low_id` is raised first, so that no reader looks for them.

In batches of DELETE, or by dropping whole partitions of topics that have them.
"""

from __future__ import annotations

import logging
from typing import Final

from headrace.model.retention import Retention, RetentionChunk, over_limit, pairs, removable_to
from headrace.model.topics.message_priority import BY_URGENCY, Priority, priority_named
from headrace.store.mysql import tables
from headrace.store.mysql.catalog import CatalogTopic
from headrace.store.mysql.groups import offset_reset
from headrace.store.mysql.groups.group_rows import FREE
from headrace.store.mysql.stable_ids import Bounds, TopicBounds
from headrace.store.mysql.tables import NOW
from headrace.store.sql.connection import DbConnection
from headrace.store.sql.faults import Fault, FaultKind

logger = logging.getLogger(__name__)

BATCH: Final = 1000  # rows of one DELETE: some 14 ms here
CHUNK: Final = 100  # ids whose bytes are counted together
STEP: Final = 5000  # ids counted by one statement
FEW: Final = 2000  # messages of a priority that are counted one by one, each time
MANY: Final = 50_000  # chunks


class ByteCounts:
    """Bytes of the messages of topics, counted once in chunks. Not for several threads."""

    def __init__(self) -> None:
        self._chunks: dict[tuple[str, Priority], list[RetentionChunk]] = {}

    def over(
        self, session: DbConnection, topic: CatalogTopic, bounds: TopicBounds, limit: int
    ) -> dict[Priority, int]:
        """Up to which id each priority must go."""
        found = {
            priority: self._priority(session, topic, priority, bounds[priority])
            for priority in BY_URGENCY
        }
        return over_limit(found, limit)

    def _priority(
        self, session: DbConnection, topic: CatalogTopic, priority: Priority, bounds: Bounds
    ) -> list[RetentionChunk]:
        table = tables.messages(topic.name, priority)
        if bounds.stable - bounds.low < FEW:
            return _count(session, table, bounds.low - 1, bounds.stable, 1)
        known = self._chunks.get((topic.uuid, priority), [])
        found = [one for one in known if one.end >= bounds.low]
        at = found[-1].end if found else bounds.low - 1
        while at < bounds.stable:
            end = min((at // STEP + 1) * STEP, bounds.stable)
            found += _count(session, table, at, end, CHUNK)
            at = end
        # The last chunk may grow; far too many are counted by twos.
        self._chunks[topic.uuid, priority] = pairs(found[:-1]) if len(found) > MANY else found[:-1]
        return found


def _count(
    session: DbConnection, table: str, position: int, end: int, chunk: int
) -> list[RetentionChunk]:
    rows = session.rows(
        "SELECT MAX(id),CAST(SUM(OCTET_LENGTH(body)) AS SIGNED),"
        "CAST(UNIX_TIMESTAMP(MAX(created_at))*1000 AS SIGNED) "
        f"FROM {table} WHERE id>%s AND id<=%s GROUP BY (id-1) DIV {chunk} ORDER BY 1",
        (position, end),
    )
    return [RetentionChunk(int(last), int(size), int(time)) for last, size, time in rows]


def apply(
    session: DbConnection, topic: CatalogTopic, bounds: TopicBounds, counts: ByteCounts
) -> None:
    """Remove what the policy gives up."""
    retention = topic.retention
    wanted = {priority: bounds[priority].low - 1 for priority in BY_URGENCY}
    if retention is not None:
        for priority, end in _policy(session, topic, bounds, counts, retention).items():
            wanted[priority] = max(wanted[priority], end)
    holds = held(session, topic)
    for priority, its in bounds.items():
        end = removable_to(wanted[priority], its.stable, holds.get(priority, ()))
        if end >= its.low:
            raise_low(session, topic.name, priority, end + 1)
        low = max(its.low, end + 1)
        if topic.partition_rows:
            keep_ahead(session, topic, priority, its.stable)
            drop_below(session, topic.name, priority, low)
        else:
            delete_below(session, topic.name, priority, low)


def _policy(
    session: DbConnection,
    topic: CatalogTopic,
    bounds: TopicBounds,
    counts: ByteCounts,
    retention: Retention,
) -> dict[Priority, int]:
    ends = {priority: its.low - 1 for priority, its in bounds.items()}
    if retention.ms is not None:
        [(now,)] = session.rows(f"SELECT {NOW}")
        for priority, its in bounds.items():
            ends[priority] = offset_reset.position_at(
                session, topic.name, priority, its, int(now) - retention.ms
            )
    if retention.size is not None:
        for priority, end in counts.over(session, topic, bounds, retention.size).items():
            ends[priority] = max(ends[priority], end)
    return ends


def held(session: DbConnection, topic: CatalogTopic) -> dict[Priority, list[int]]:
    """What must not be removed: ranges that outside readers have pinned; when the topic keeps what
    is unread, everything behind the slowest reader."""
    found: dict[Priority, list[int]] = {priority: [] for priority in BY_URGENCY}
    cursors, claims = tables.cursors(topic.name), tables.claims(topic.name)
    pins = "group_id IS NOT NULL AND token NOT IN ('','#q')"
    which = "" if topic.keep_unread else f"WHERE {pins} AND owner='pin'"
    for label, position in session.rows(
        f"SELECT priority,MIN(CASE WHEN group_id IS NOT NULL AND token='' THEN claimed "
        f"ELSE `offset` END) FROM {cursors} {which} GROUP BY priority"
    ):
        found[priority_named(label)].append(int(position))
    if topic.keep_unread:
        for label, first in session.rows(
            f"SELECT priority,MIN(start_id) FROM {claims} WHERE end_id>0 GROUP BY priority "
            "UNION ALL "
            f"SELECT priority,MIN(msg_id) FROM {tables.retries(topic.name)} GROUP BY priority"
        ):
            found[priority_named(label)].append(int(first) - 1)
    return found


def raise_low(session: DbConnection, topic: str, priority: Priority, low: int) -> None:
    session.run(
        "UPDATE `msg_readable` SET low_id=%s WHERE topic=%s AND priority=%s AND low_id<%s",
        (low, topic, priority.label, low),
    )
    session.run(
        f"DELETE FROM {tables.retries(topic)} WHERE priority=%s AND msg_id<%s",
        (priority.label, low),
    )
    session.run(
        f"UPDATE {tables.claims(topic)} SET {FREE} WHERE priority=%s AND end_id>0 AND end_id<%s",
        (priority.label, low),
    )


def delete_below(session: DbConnection, topic: str, priority: Priority, low: int) -> None:
    """In small statements: none holds its locks for long."""
    sql = f"DELETE FROM {tables.messages(topic, priority)} WHERE id<%s ORDER BY id LIMIT {BATCH}"
    while session.run(sql, (low,)) == BATCH:
        pass


AHEAD: Final = 2  # empty ones kept ready
_LAST: Final = "pmax"


def bounds_of(session: DbConnection, topic: str, priority: Priority) -> list[int]:
    """The ids at which partitions end, without the last one."""
    rows = session.rows(
        "SELECT PARTITION_NAME FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA=DATABASE() "
        "AND TABLE_NAME=%s AND PARTITION_NAME IS NOT NULL",
        (tables.messages(topic, priority).strip("`"),),
    )
    return sorted(int(name[1:]) for (name,) in rows if name != _LAST)


def keep_ahead(session: DbConnection, topic: CatalogTopic, priority: Priority, stable: int) -> None:
    """Split the last partition while it is empty, which costs next to nothing."""
    assert topic.partition_rows
    known = bounds_of(session, topic.name, priority)
    bound = known[-1] if known else stable + 1
    wanted = []
    while bound - stable <= AHEAD * topic.partition_rows:
        bound += topic.partition_rows
        wanted.append(f"PARTITION p{bound} VALUES LESS THAN ({bound})")
    if wanted:
        _alter(
            session,
            f"ALTER TABLE {tables.messages(topic.name, priority)} REORGANIZE PARTITION {_LAST} "
            f"INTO ({', '.join(wanted)}, PARTITION {_LAST} VALUES LESS THAN MAXVALUE)",
        )


def drop_below(session: DbConnection, topic: str, priority: Priority, low: int) -> None:
    """Drop partitions of which everything lies below."""
    old = [f"p{bound}" for bound in bounds_of(session, topic, priority) if bound <= low]
    if old:
        table = tables.messages(topic, priority)
        _alter(session, f"ALTER TABLE {table} DROP PARTITION {', '.join(old)}")


def _alter(session: DbConnection, statement: str) -> None:
    """Everything queues behind an ALTER that waits for an open reader: it waits one second, and
    the next round tries again."""
    session.run("SET SESSION lock_wait_timeout=1")
    try:
        session.run(statement)
    except Fault as fault:
        if fault.kind is not FaultKind.AGAIN:
            raise
        logger.info("a table is in use, its partitions stay for now: %s", fault)
    finally:
        if not session.is_broken:
            session.run("SET SESSION lock_wait_timeout=DEFAULT")
