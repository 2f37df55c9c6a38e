"""Partitions by id: a million messages go in some milliseconds, and their space with them."""

from __future__ import annotations

import logging
from typing import Final

from headrace.model.topics.message_priority import Priority
from headrace.store.mysql import tables
from headrace.store.mysql.catalog import CatalogTopic
from headrace.store.mysql.connection import DbConnection
from headrace.store.mysql.faults import Fault, FaultKind

logger = logging.getLogger(__name__)

AHEAD: Final = 2  # empty ones kept ready
_LAST: Final = "pmax"


def bounds_of(session: DbConnection, topic: str, lane: Priority) -> list[int]:
    """The ids at which partitions end, without the last one."""
    rows = session.rows(
        "SELECT PARTITION_NAME FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA=DATABASE() "
        "AND TABLE_NAME=%s AND PARTITION_NAME IS NOT NULL",
        (tables.messages(topic, lane).strip("`"),),
    )
    return sorted(int(name[1:]) for (name,) in rows if name != _LAST)


def keep_ahead(session: DbConnection, topic: CatalogTopic, lane: Priority, stable: int) -> None:
    """Split the last partition while it is empty, which costs next to nothing."""
    assert topic.partition_rows
    known = bounds_of(session, topic.name, lane)
    bound = known[-1] if known else stable + 1
    wanted = []
    while bound - stable <= AHEAD * topic.partition_rows:
        bound += topic.partition_rows
        wanted.append(f"PARTITION p{bound} VALUES LESS THAN ({bound})")
    if wanted:
        _alter(
            session,
            f"ALTER TABLE {tables.messages(topic.name, lane)} REORGANIZE PARTITION {_LAST} INTO "
            f"({', '.join(wanted)}, PARTITION {_LAST} VALUES LESS THAN MAXVALUE)",
        )


def drop_below(session: DbConnection, topic: str, lane: Priority, low: int) -> int:
    """Drop partitions of which everything lies below; how many went."""
    old = [bound for bound in bounds_of(session, topic, lane) if bound <= low]
    if not old:
        return 0
    names = ", ".join(f"p{bound}" for bound in old)
    done = _alter(session, f"ALTER TABLE {tables.messages(topic, lane)} DROP PARTITION {names}")
    return len(old) if done else 0


def _alter(session: DbConnection, statement: str) -> bool:
    """Everything queues behind an ALTER that waits for an open reader: it waits one second, and
    the next round tries again."""
    session.run("SET SESSION lock_wait_timeout=1")
    try:
        session.run(statement)
    except Fault as fault:
        if fault.kind is not FaultKind.AGAIN:
            raise
        logger.info("a table is in use, its partitions stay for now: %s", fault)
        return False
    finally:
        if not session.is_broken:
            session.run("SET SESSION lock_wait_timeout=DEFAULT")
    return True
