"""The usual read of a group, in three round trips: look, claim, bodies.

`claims` can hand out everything: expired ranges, messages to be tried again, ids of several
priorities, ids that are not stable yet. Most reads need nothing of that, only the next ids of one
priority. For those:

1. One SELECT shows whether it is such a read. It locks nothing and decides nothing.
2. One UPDATE moves the group's position and writes the range, both or nothing. No lock is held
   while anything travels. It checks again under its locks what must not have changed, and writes
   the group's row of the priority, as every other claim does (`group_rows.lock_group`).
3. A range that is committed by the read gives its row to the new one in the same UPDATE: when it
   is not the reader's any more, nothing is changed, and `claims` finds out why.

Statements have few columns and parameters, because PyMySQL takes longer for each than the server.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from headrace.model.topics.claim_plan import ClaimRange
from headrace.model.topics.message_priority import BY_URGENCY, Priority
from headrace.store.mysql import tables
from headrace.store.mysql.groups.group_rows import ClaimedRange, Key, ReaderRows
from headrace.store.mysql.tables import NOW

_STATEMENTS: Final = 1000  # kept as text
_IS_DUE: Final = (
    "EXISTS(SELECT 1 FROM {claims} l WHERE l.group_id=%s AND l.priority=c.priority "
    f"AND l.end_id>0 AND l.lease_until_ms<{NOW}) "
    "OR EXISTS(SELECT 1 FROM {retries} r WHERE r.group_id=%s AND r.priority=c.priority "
    f"AND r.state='retry' AND r.due_ms<={NOW})"
)


class NextIds(NamedTuple):
    """The next ids of a group are ``size`` of this priority, all stable."""

    priority: Priority
    size: int
    low: int
    stable: int
    waiting: int
    is_all: bool


def look(own: ReaderRows, limit: int, *, for_due: bool) -> NextIds | int | None:
    """What to claim; 0 when there is nothing, None when it is not as simple as that. Looks for
    ranges and messages that are due again only if it should, or when there is nothing new."""
    rows = _look(own, for_due=for_due)
    if len(rows) < len(BY_URGENCY):
        return None
    next_ids = _choose(rows, limit)
    if next_ids == 0 and not for_due:
        return look(own, limit, for_due=True)
    return next_ids


def _look(own: ReaderRows, *, for_due: bool) -> list[list[int]]:
    group = own.reader.group
    values = [*[group] * (2 * for_due), own.topic, group]
    [(found,)] = own.session.rows(_look_sql(own.topic, for_due), values)
    return sorted([*map(int, one.split(","))] for one in (found or "").split(";") if one)


def comes_first(own: ReaderRows, priority: Priority) -> bool:
    """Whether something is to be read before ids of this priority that are claimed."""
    rows = _look(own, for_due=True)
    return len(rows) < len(BY_URGENCY) or any(
        is_due or (_PRIORITIES[number] is not priority and max(stable, last) > claimed)
        for number, claimed, stable, _, last, is_due in rows
        if BY_URGENCY.index(_PRIORITIES[number]) <= BY_URGENCY.index(priority)
    )


def _choose(rows: Sequence[Sequence[int]], limit: int) -> NextIds | int | None:
    chosen: NextIds | None = None
    for number, claimed, stable, low, last, is_due in reversed(rows):
        if is_due or claimed < low - 1:
            return None
        waiting = stable - claimed
        if chosen is not None:
            if waiting > 0 or last > stable:
                return None  # a batch of several priorities
        elif waiting >= limit:
            return NextIds(_PRIORITIES[number], limit, low, stable, waiting, is_all=False)
        elif last > stable:
            return None  # ids behind the stable one
        elif waiting > 0:
            chosen = NextIds(_PRIORITIES[number], waiting, low, stable, waiting, is_all=True)
    return chosen or 0


_PRIORITIES: Final = {1: Priority.LOW, 2: Priority.MIDDLE, 3: Priority.HIGH}  # in the ENUM


@lru_cache(_STATEMENTS)
def _look_sql(topic: str, for_due: bool) -> str:
    """One text of all priorities: number, claimed, stable, low, last id, whether more is due."""
    lasts = " ".join(
        f"WHEN '{one.label}' THEN (SELECT MAX(id) FROM {tables.messages(topic, one)})"
        for one in BY_URGENCY
    )
    due = _IS_DUE.format(claims=tables.claims(topic), retries=tables.retries(topic))
    return (
        "SELECT GROUP_CONCAT(c.priority+0,',',c.claimed,',',s.stable_id,',',s.low_id,',',"
        f"IFNULL(CASE c.priority {lasts} END,0),',',{due if for_due else 0} SEPARATOR ';') "
        f"FROM {tables.cursors(topic)} c JOIN `msg_readable` s "
        "ON s.topic=%s AND s.priority=c.priority "
        "WHERE c.group_key=%s AND c.token='' AND c.queue_id=0"
    )


def claim(
    own: ReaderRows, next_ids: NextIds, row: int, acks: Sequence[Key], *, ahead_ms: int = 0
) -> ClaimedRange | None:
    """Claim the ids with a free row of the reader, or that of the range in ``acks``, which is
    committed by it. None, and nothing is changed, when something is not as it was.
    ``ahead_ms``: the lease of ids that are not handed out yet."""
    priority, size, reader = next_ids.priority, next_ids.size, own.reader
    epoch = random.getrandbits(62)
    sql = _claim_sql(own.topic, priority, bool(acks)).format(
        epoch=epoch, size=size, low=next_ids.low - 1, high=next_ids.stable - size, row=row,
        lease=ahead_ms or reader.lease_ms, attempts=0 if ahead_ms else 1,
        held=acks[0][1] if acks else 0,
    )  # fmt: skip
    found, start = own.session.change(sql, [reader.token, reader.group, reader.group, reader.token])
    if not found:
        return None
    own.session.commits += 1
    if not start:
        sql = f"SELECT start_id FROM {own.claims} WHERE id=%s"
        [(start,)] = own.session.rows(sql, (row,))
    return ClaimedRange(row, epoch, ClaimRange(priority, start, start + size - 1, 1))


@lru_cache(_STATEMENTS)
def _claim_sql(topic: str, priority: Priority, is_commit: bool) -> str:
    """Numbers are left to format(), texts to the driver."""
    # The position may be read before or after it is moved (the order in an UPDATE of several
    # tables is the server's): the epoch, used once, shows which.
    moved = "(c.epoch={epoch})*{size}"
    sql = (
        f"UPDATE {tables.cursors(topic)} c STRAIGHT_JOIN {tables.claims(topic)} l "
        f"SET l.start_id=LAST_INSERT_ID(c.claimed+1-{moved}),l.end_id=c.claimed+{{size}}-{moved},"
        f"l.priority='{priority.label}',l.token=%s,l.epoch={{epoch}},l.attempts={{attempts}},"
        f"l.lease_until_ms={NOW}+{{lease}},c.claimed=c.claimed+{{size}},c.epoch={{epoch}} "
        f"WHERE c.group_key=%s AND c.token='' AND c.queue_id=0 AND c.priority='{priority.label}' "
        "AND c.claimed BETWEEN {low} AND {high} "
        # A text that is set, even to NULL, makes the server keep the new values in a file.
        "AND l.id={row} AND l.group_id=%s AND l.token=%s AND l.nacked IS NULL AND "
    )
    if is_commit:
        return sql + f"l.epoch={{held}} AND l.end_id>0 AND l.lease_until_ms>={NOW}"
    return sql + "l.end_id=0"
