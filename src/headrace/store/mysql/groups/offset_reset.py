"""Positions by time, and setting a group to another position."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.errors import BadTopicValue
from headrace.model.topics.message_priority import Priority
from headrace.store.mysql import single_consumer, tables
from headrace.store.mysql.groups.group_rows import FREE, ReaderRows
from headrace.store.mysql.stable_ids import Bounds, TopicBounds
from headrace.store.sql.connection import DbConnection

_AT: Final = "CAST(UNIX_TIMESTAMP(created_at)*1000 AS SIGNED)"
# Times do not rise strictly with ids: statements that ran side by side may cross.
_CROSSING: Final = 2000


def reset(
    own: ReaderRows, bounds: TopicBounds, positions: Mapping[Priority, int], time_ms: int | None
) -> None:
    """Set a group or single consumer to other positions."""
    if time_ms is not None:
        target = positions_at(own.session, own.topic, bounds, time_ms)
    else:
        target = _within(positions, bounds)
    own.find_or_make_cursors(bounds)
    if own.reader.group is None:
        single_consumer.reset(own, target)
    else:
        _reset_group(own, target)


def positions_at(
    session: DbConnection, topic: str, bounds: TopicBounds, time_ms: int
) -> dict[Priority, int]:
    return {
        priority: position_at(session, topic, priority, its, time_ms)
        for priority, its in bounds.items()
    }


def _within(positions: Mapping[Priority, int], bounds: TopicBounds) -> dict[Priority, int]:
    """Positions inside what there is: before the first message means the first."""
    if any(position < 0 for position in positions.values()):
        raise BadTopicValue(
            f"invalid positions {dict(positions)}: expected ids, or 0 for the start"
        )
    return {
        priority: min(max(position, bounds[priority].low - 1), bounds[priority].stable)
        for priority, position in positions.items()
    }


def position_at(
    session: DbConnection, topic: str, priority: Priority, bounds: Bounds, time_ms: int
) -> int:
    """The position before the first message stored at that time or later.

    A search by halves over the ids: there is no index on the time, it would cost every append.
    """
    table = tables.messages(topic, priority)
    low, high = bounds.low, bounds.stable + 1  # the first id at or after the time is in between
    while low < high:
        middle = (low + high) // 2
        rows = session.rows(
            f"SELECT id,{_AT} FROM {table} WHERE id>=%s AND id<%s ORDER BY id LIMIT 1",
            (middle, high),
        )
        if not rows:
            high = middle
        elif rows[0][1] < time_ms:
            low = rows[0][0] + 1
        else:
            high = middle
    rows = session.rows(
        f"SELECT id FROM {table} WHERE id>=%s AND id<%s AND created_at>=FROM_UNIXTIME(%s/1000) "
        "ORDER BY id LIMIT 1",
        (max(bounds.low, low - _CROSSING), low, time_ms),
    )
    return int(rows[0][0]) - 1 if rows else low - 1


def _reset_group(own: ReaderRows, positions: Mapping[Priority, int]) -> None:
    """All that is out becomes void; in priorities that stay it is handed out again at once."""
    with own.session.transaction():
        own.lock_group()
        for priority, position in positions.items():
            own.session.run(
                f"UPDATE {own.claims} SET {FREE} WHERE group_id=%s AND priority=%s",
                (own.reader.group, priority.label),
            )
            own.session.run(
                f"DELETE FROM {own.retries} WHERE group_id=%s AND priority=%s "
                "AND (state='retry' OR msg_id>%s)",
                (own.reader.group, priority.label, position),
            )
        own.reset(positions)
        own.session.run(
            f"UPDATE {own.claims} SET epoch=epoch+1, lease_until_ms=0 "
            "WHERE group_id=%s AND end_id>0",
            (own.reader.group,),
        )
