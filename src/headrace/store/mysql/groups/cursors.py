"""Rows of `msg_c`: how far a consumer on its own, a group or an outside reader has come."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.model.topics.message_priority import BY_URGENCY, Priority, lane_named
from headrace.store.mysql import tables
from headrace.store.mysql.connection import DbConnection
from headrace.store.mysql.stable_ids import Bounds
from headrace.store.topics.engine import LATEST, ConsumerSpec


@dataclass(frozen=True, slots=True)
class GroupCursor:
    """``claimed`` is the last id handed out to a group, and of no use for a single consumer."""

    offset: int
    claimed: int
    epoch: int


def new_epoch() -> int:
    """Not from one: a claim of a deleted topic must not fit one of its successor."""
    return random.randrange(1, 1 << 40)


def start_of(reader: ConsumerSpec, bounds: Bounds) -> int:
    """The position of a reader that is new."""
    return bounds.stable if reader.start == LATEST else bounds.low - 1


def row_token(reader: ConsumerSpec) -> str:
    """A group has one row for all its members."""
    return "" if reader.group is not None else reader.token


def find(
    session: DbConnection, topic: str, reader: ConsumerSpec, *, for_update: bool = False
) -> dict[Priority, GroupCursor]:
    rows = session.rows(
        f"SELECT priority,`offset`,claimed,epoch FROM {tables.cursors(topic)} "
        "WHERE group_key=%s AND token=%s AND queue_id=0 ORDER BY priority"
        + (" FOR UPDATE" if for_update else ""),
        (reader.group or "", row_token(reader)),
    )
    return {lane_named(label): GroupCursor(*numbers) for label, *numbers in rows}


def make(
    session: DbConnection, topic: str, reader: ConsumerSpec, bounds: Mapping[Priority, Bounds]
) -> None:
    """The rows of a new reader; those that are there stay as they are."""
    values: list[object] = []
    for lane in BY_URGENCY:
        start = start_of(reader, bounds[lane])
        values += [reader.group, row_token(reader), lane.label, start, start, new_epoch()]
    session.run(
        f"INSERT IGNORE INTO {tables.cursors(topic)} "
        "(group_id,token,priority,`offset`,claimed,epoch) VALUES "
        + ",".join(["(%s,%s,%s,%s,%s,%s)"] * len(BY_URGENCY)),
        values,
    )


def find_or_make(
    session: DbConnection, topic: str, reader: ConsumerSpec, bounds: Mapping[Priority, Bounds]
) -> dict[Priority, GroupCursor]:
    found = find(session, topic, reader)
    if len(found) < len(BY_URGENCY):
        make(session, topic, reader, bounds)
        found = find(session, topic, reader)
    return found


def forget(session: DbConnection, topic: str, reader: ConsumerSpec) -> None:
    """The reader's progress is gone, with all that is out; in a transaction."""
    if reader.group is None:
        session.run(
            f"DELETE FROM {tables.cursors(topic)} WHERE group_key='' AND token=%s", (reader.token,)
        )
        return
    find(session, topic, reader, for_update=True)
    for table in (tables.claims(topic), tables.retries(topic)):
        session.run(f"DELETE FROM {table} WHERE group_id=%s", (reader.group,))
    session.run(f"DELETE FROM {tables.cursors(topic)} WHERE group_key=%s", (reader.group,))
