"""Positions by time, and setting a group to another position."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.model.topics.message_priority import Priority
from headrace.store.mysql import tables
from headrace.store.mysql.connection import DbConnection
from headrace.store.mysql.groups import group_rows
from headrace.store.mysql.groups.group_rows import FREE
from headrace.store.mysql.stable_ids import Bounds
from headrace.store.topics.types import ConsumerSpec

_AT: Final = "CAST(UNIX_TIMESTAMP(created_at)*1000 AS SIGNED)"
# Times do not rise strictly with ids: statements that ran side by side may cross.
_CROSSING: Final = 2000


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


def seek_group(
    session: DbConnection, topic: str, reader: ConsumerSpec, positions: Mapping[Priority, int]
) -> None:
    """All that is out becomes void; in priorities that stay it is handed out again at once."""
    with session.transaction():
        group_rows.find_cursors(session, topic, reader, for_update=True)
        for priority, position in positions.items():
            session.run(
                f"UPDATE {tables.claims(topic)} SET {FREE} WHERE group_id=%s AND priority=%s",
                (reader.group, priority.label),
            )
            session.run(
                f"DELETE FROM {tables.retries(topic)} WHERE group_id=%s AND priority=%s "
                "AND (state='retry' OR msg_id>%s)",
                (reader.group, priority.label, position),
            )
            session.run(
                f"UPDATE {tables.cursors(topic)} SET `offset`=%s, claimed=%s "
                "WHERE group_key=%s AND token='' AND queue_id=0 AND priority=%s",
                (position, position, reader.group, priority.label),
            )
        session.run(
            f"UPDATE {tables.claims(topic)} SET epoch=epoch+1, lease_until_ms=0 "
            "WHERE group_id=%s AND end_id>0",
            (reader.group,),
        )
