"""How far readers are behind, and who they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headrace.model.topics.lanes import BY_URGENCY, Lane, lane_named
from headrace.store.mysql import cursors, schema
from headrace.store.mysql.advance import Bounds
from headrace.store.mysql.driver import Session
from headrace.store.mysql.schema import NOW
from headrace.store.topics import GroupInfo, Lag, Reader

EXACT: Final = 100_000  # messages up to which a lag is counted; beyond, dead ids count as well


def lag(session: Session, topic: str, reader: Reader, bounds: Mapping[Lane, Bounds]) -> list[Lag]:
    """One per lane, high first."""
    found = cursors.find(session, topic, reader)
    out = _outstanding(session, topic, reader.group) if reader.group is not None else {}
    return [
        _lane_lag(session, topic, lane, reader, found.get(lane), out.get(lane, {}), bounds[lane])
        for lane in BY_URGENCY
    ]


def _lane_lag(
    session: Session,
    topic: str,
    lane: Lane,
    reader: Reader,
    cursor: cursors.Cursor | None,
    out: Mapping[str, Any],
    bounds: Bounds,
) -> Lag:
    start = cursors.start_of(reader, bounds)
    if cursor is not None:
        start = cursor.offset if reader.group is None else cursor.claimed
    head = max(start, bounds.low - 1)
    position = min(head, out.get("claimed_from", head + 1) - 1, out.get("retry_from", head + 1) - 1)
    unread = _count(session, topic, lane, head, bounds.stable)
    claimed = _claimed(session, topic, lane, reader.group) if "claimed_from" in out else 0
    retrying = int(out.get("retrying", 0))
    behind = unread + claimed + retrying
    return Lag(
        lane,
        position,
        bounds.stable + 1,
        behind,
        claimed,
        retrying,
        int(out.get("dead", 0)),
        time_after(session, topic, lane, position, bounds.stable) if behind else None,
    )


def _outstanding(session: Session, topic: str, group: str) -> dict[Lane, dict[str, Any]]:
    found: dict[Lane, dict[str, Any]] = {}
    for label, first in session.rows(
        f"SELECT priority,MIN(start_id) FROM {schema.claims(topic)} WHERE group_id=%s "
        "AND end_id>0 GROUP BY priority",
        (group,),
    ):
        found.setdefault(lane_named(label), {})["claimed_from"] = first
    for label, state, count, first in session.rows(
        f"SELECT priority,state,COUNT(*),MIN(msg_id) FROM {schema.retries(topic)} "
        "WHERE group_id=%s GROUP BY priority,state",
        (group,),
    ):
        its = found.setdefault(lane_named(label), {})
        if state == "retry":
            its |= {"retrying": count, "retry_from": first}
        else:
            its["dead"] = count
    return found


def _claimed(session: Session, topic: str, lane: Lane, group: str | None) -> int:
    """Messages in the group's claims, without those set aside by nack."""
    rows = session.rows(
        f"SELECT l.nacked,COUNT(m.id) FROM {schema.claims(topic)} l "
        f"LEFT JOIN {schema.messages(topic, lane)} m ON m.id BETWEEN l.start_id AND l.end_id "
        "AND m.flags=0 WHERE l.group_id=%s AND l.priority=%s AND l.end_id>0 "
        "GROUP BY l.id,l.nacked",
        (group, lane.label),
    )
    return sum(int(count) - (len(nacked.split(",")) if nacked else 0) for nacked, count in rows)


def _count(session: Session, topic: str, lane: Lane, position: int, end: int) -> int:
    if end - position > EXACT or end <= position:
        return max(0, end - position)
    [(count,)] = session.rows(
        f"SELECT COUNT(*) FROM {schema.messages(topic, lane)} WHERE id>%s AND id<=%s AND flags=0",
        (position, end),
    )
    return int(count)


def time_after(session: Session, topic: str, lane: Lane, position: int, end: int) -> int | None:
    """When the first message behind the position was stored."""
    rows = session.rows(
        f"SELECT CAST(UNIX_TIMESTAMP(created_at)*1000 AS SIGNED) FROM "
        f"{schema.messages(topic, lane)} WHERE id>%s AND id<=%s AND flags=0 ORDER BY id LIMIT 1",
        (position, end),
    )
    return int(rows[0][0]) if rows else None


def last_time(session: Session, topic: str, lane: Lane, bounds: Bounds) -> int | None:
    rows = session.rows(
        f"SELECT CAST(UNIX_TIMESTAMP(created_at)*1000 AS SIGNED) FROM "
        f"{schema.messages(topic, lane)} WHERE id>=%s AND id<=%s AND flags=0 "
        "ORDER BY id DESC LIMIT 1",
        (bounds.low, bounds.stable),
    )
    return int(rows[0][0]) if rows else None


def groups(session: Session, topic: str, bounds: Mapping[Lane, Bounds]) -> list[GroupInfo]:
    """Groups, consumers on their own (no group), and outside readers (a group of one token)."""
    rows = session.rows(
        f"SELECT DISTINCT group_id,token FROM {schema.cursors(topic)} WHERE queue_id=0 "
        "AND token<>'#q' ORDER BY group_key,token"
    )
    holders = session.rows(
        f"SELECT DISTINCT group_id,token FROM {schema.claims(topic)} "
        f"WHERE token<>'' AND lease_until_ms>={NOW} ORDER BY 1,2"
    )
    found = []
    for group, token in rows:
        members = tuple(holder for its, holder in holders if its == group)
        found.append(
            GroupInfo(
                group or "",
                token if group is None else "",
                members if not token else (token,),
                tuple(_group_lag(session, topic, group, token, bounds)),
            )
        )
    return found


def _group_lag(
    session: Session, topic: str, group: str | None, token: str, bounds: Mapping[Lane, Bounds]
) -> list[Lag]:
    if group is None or not token:
        return lag(session, topic, Reader(token, group), bounds)
    rows = session.rows(
        f"SELECT priority,`offset` FROM {schema.cursors(topic)} WHERE group_key=%s AND token=%s "
        "AND queue_id=0",
        (group, token),
    )
    found = {lane_named(label): int(offset) for label, offset in rows}
    lags = []
    for lane in BY_URGENCY:
        position = max(found.get(lane, 0), bounds[lane].low - 1)
        count = _count(session, topic, lane, position, bounds[lane].stable)
        oldest = time_after(session, topic, lane, position, bounds[lane].stable)
        lags.append(Lag(lane, position, bounds[lane].stable + 1, count, oldest_time=oldest))
    return lags
