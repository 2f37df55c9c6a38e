"""How far readers are behind, and who they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Final

from headrace.model.topics.message_priority import BY_URGENCY, Priority, priority_named
from headrace.store.mysql import tables
from headrace.store.mysql.groups import group_rows
from headrace.store.mysql.groups.group_rows import ReaderRows
from headrace.store.mysql.stable_ids import TopicBounds
from headrace.store.mysql.tables import NOW
from headrace.store.sql.connection import DbConnection
from headrace.store.topics.types import GroupInfo, PriorityLag

EXACT: Final = 100_000  # messages up to which a lag is counted; beyond, dead ids count as well
_SPANS: Final = 200  # ranges counted by one statement


@dataclass(slots=True)
class _GroupBacklog:
    """What a group has of a priority besides what is unread."""

    first: int | None = None  # the lowest id that is claimed or to be tried again
    claimed: int = 0
    retrying: int = 0
    dead: int = 0

    def begins(self, number: int) -> None:
        self.first = number if self.first is None else min(self.first, number)


_Outs = Mapping[tuple[str, Priority], _GroupBacklog]  # by group


def lag(own: ReaderRows, bounds: TopicBounds) -> list[PriorityLag]:
    """One per priority, high first."""
    found, group = own.find_cursors(), own.reader.group
    heads = {}
    for priority in BY_URGENCY:
        cursor = found.get(priority)
        if cursor is None:
            heads[priority] = group_rows.start_of(own.reader, bounds[priority])
        else:
            heads[priority] = cursor.offset if group is None else cursor.claimed
    outs = {} if group is None else _outstanding(own.session, own.topic, group)
    return _lags(own.session, own.topic, bounds, [(group, heads)], outs)[0]


def groups(session: DbConnection, topic: str, bounds: TopicBounds) -> list[GroupInfo]:
    """Groups, consumers on their own (no group), and outside readers (a group of one token)."""
    heads: dict[tuple[str | None, str], dict[Priority, int]] = {}
    for group, token, label, offset, claimed in session.rows(
        f"SELECT group_id,token,priority,`offset`,claimed FROM {tables.cursors(topic)} "
        "WHERE queue_id=0 AND token<>'#q' ORDER BY group_key,token"
    ):
        is_group = group is not None and not token
        heads.setdefault((group, token), {})[priority_named(label)] = (
            claimed if is_group else offset
        )
    members = defaultdict(list)
    for group, token in session.rows(
        f"SELECT DISTINCT group_id,token FROM {tables.claims(topic)} "
        f"WHERE token<>'' AND lease_until_ms>={NOW} ORDER BY 1,2"
    ):
        members[group].append(token)
    readers = [(None if token else group, its) for (group, token), its in heads.items()]
    lags = _lags(session, topic, bounds, readers, _outstanding(session, topic))
    return [
        GroupInfo(
            group or "",
            token if group is None else "",
            (token,) if token else tuple(members.get(group, ())),
            tuple(its),
        )
        for (group, token), its in zip(heads, lags, strict=True)
    ]


def _lags(
    session: DbConnection,
    topic: str,
    bounds: TopicBounds,
    readers: Sequence[tuple[str | None, Mapping[Priority, int]]],
    outs: _Outs,
) -> list[list[PriorityLag]]:
    """Of readers (a group or none) that are at these positions. Many may be at the same one, or a
    little apart: nothing is counted twice."""
    heads = [
        {one: max(its.get(one, 0), bounds[one].low - 1) for one in BY_URGENCY} for _, its in readers
    ]
    unread = {
        one: _unread(session, topic, one, {its[one] for its in heads}, bounds[one].stable)
        for one in BY_URGENCY
    }

    @cache
    def oldest(priority: Priority, position: int) -> int | None:
        return time_after(session, topic, priority, position, bounds[priority].stable)

    def lag_of(group: str | None, priority: Priority, head: int) -> PriorityLag:
        out = outs.get((group or "", priority), _GroupBacklog())
        position = head if out.first is None else min(head, out.first - 1)
        behind = unread[priority][head] + out.claimed + out.retrying
        return PriorityLag(
            priority, position, bounds[priority].stable + 1, behind, out.claimed, out.retrying,
            out.dead, oldest(priority, position) if behind else None,
        )  # fmt: skip

    return [
        [lag_of(group, one, its[one]) for one in BY_URGENCY]
        for (group, _), its in zip(readers, heads, strict=True)
    ]


def _unread(
    session: DbConnection, topic: str, priority: Priority, positions: Iterable[int], end: int
) -> dict[int, int]:
    """How many messages are behind each position, up to ``end``."""
    found = {position: max(0, end - position) for position in positions}
    near = sorted((one for one, behind in found.items() if 0 < behind <= EXACT), reverse=True)
    # From each of them to the next higher one.
    spans = [(one + 1, above) for one, above in zip(near, [end, *near], strict=False)]
    counts = _counts(session, topic, priority, spans)
    return found | dict(zip(near, accumulate(counts), strict=True))


def _outstanding(session: DbConnection, topic: str, group: str | None = None) -> _Outs:
    """Of one group, or of all."""
    found: defaultdict[tuple[str, Priority], _GroupBacklog] = defaultdict(_GroupBacklog)
    which, values = ("AND group_id=%s", (group,)) if group is not None else ("", ())
    rows = session.rows(
        f"SELECT group_id,priority,start_id,end_id,nacked FROM {tables.claims(topic)} "
        f"WHERE end_id>0 {which}",
        values,
    )
    for priority in BY_URGENCY:
        claims = [row for row in rows if priority_named(row[1]) is priority]
        counts = _counts(session, topic, priority, [(row[2], row[3]) for row in claims])
        for (its, _, start, end, nacked), count in zip(claims, counts, strict=True):
            out = found[its, priority]
            out.begins(start)
            aside = sum(start <= number <= end for number in group_rows.split_ids(nacked))
            out.claimed += count - aside
    for its, label, state, count, first in session.rows(
        f"SELECT group_id,priority,state,COUNT(*),MIN(msg_id) FROM {tables.retries(topic)} "
        f"WHERE 1=1 {which} GROUP BY group_id,priority,state",
        values,
    ):
        out = found[its, priority_named(label)]
        if state == "retry":
            out.retrying = count
            out.begins(first)
        else:
            out.dead = count
    return found


def _counts(
    session: DbConnection, topic: str, priority: Priority, spans: Sequence[tuple[int, int]]
) -> list[int]:
    """Messages of each range of ids. The ranges stand in the statement: joined from their table,
    the server looks at the whole topic for each of them."""
    counts = [0] * len(spans)
    for at in range(0, len(spans), _SPANS):
        portion = spans[at : at + _SPANS]
        one = f"SELECT %s,COUNT(*) FROM {tables.messages(topic, priority)} "
        one += "WHERE id BETWEEN %s AND %s AND flags=0"
        values = [value for number, span in enumerate(portion, at) for value in (number, *span)]
        for number, count in session.rows(" UNION ALL ".join([one] * len(portion)), values):
            counts[number] = int(count)
    return counts


def _count(session: DbConnection, topic: str, priority: Priority, position: int, end: int) -> int:
    [(count,)] = session.rows(
        f"SELECT COUNT(*) FROM {tables.messages(topic, priority)} "
        "WHERE id>%s AND id<=%s AND flags=0",
        (position, end),
    )
    return int(count)


def counts(session: DbConnection, topic: str) -> dict[Priority, int]:
    """All messages of each priority, tombstones not counted."""
    return {one: _count(session, topic, one, 0, (1 << 63) - 1) for one in BY_URGENCY}


def time_after(
    session: DbConnection, topic: str, priority: Priority, position: int, end: int, order: str = ""
) -> int | None:
    """When the first message behind the position was stored; with the order DESC, the last."""
    rows = session.rows(
        f"SELECT CAST(UNIX_TIMESTAMP(created_at)*1000 AS SIGNED) FROM "
        f"{tables.messages(topic, priority)} WHERE id>%s AND id<=%s AND flags=0 "
        f"ORDER BY id {order} LIMIT 1",
        (position, end),
    )
    return int(rows[0][0]) if rows else None
