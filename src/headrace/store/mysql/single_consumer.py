"""Consumers on their own: a position per lane, moved by commit and never backwards but by seek."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from headrace.errors import ClaimLost
from headrace.model.topics.message_priority import BY_URGENCY, Priority, lane_named, shares
from headrace.store.mysql import tables
from headrace.store.mysql.bodies import BodyReader
from headrace.store.mysql.connection import DbConnection
from headrace.store.mysql.groups import group_rows
from headrace.store.mysql.message_rows import message_of
from headrace.store.mysql.stable_ids import Bounds
from headrace.store.topics.types import ConsumerSpec, Taken

logger = logging.getLogger(__name__)

KIND: Final = "alone"


def read(
    session: DbConnection,
    topic: str,
    reader: ConsumerSpec,
    bounds: Mapping[Priority, Bounds],
    batch: int,
    bodies: BodyReader,
) -> Taken:
    """The next messages; the position stays until they are committed."""
    found = group_rows.find_or_make_cursors(session, topic, reader, bounds)
    positions = {
        lane: overtaken(topic, reader.token, lane, cursor.offset, bounds[lane])
        for lane, cursor in found.items()
    }
    late = {lane: at for lane, at in positions.items() if at > found[lane].offset}
    if late:  # told once, not with every read
        _move(session, topic, reader, late)
    rows = _fill(session, topic, positions, bounds, batch, reader.min_share, bodies)
    messages = tuple(message_of(row, lane, 1) for lane in BY_URGENCY for row in rows[lane])
    if not messages:
        return Taken()
    # Nothing but tombstones is left behind a lane's last message when there was room for more.
    ends = {
        lane: bounds[lane].stable
        if len(messages) < batch and not bodies.is_full
        else (its[-1][0] if its else positions[lane])
        for lane, its in rows.items()
    }
    moved = [
        [lane.label, end, found[lane].epoch]
        for lane, end in ends.items()
        if end > found[lane].offset
    ]
    return Taken(messages, (KIND, reader.token, moved))


def _fill(
    session: DbConnection,
    topic: str,
    positions: Mapping[Priority, int],
    bounds: Mapping[Priority, Bounds],
    room: int,
    min_share: int,
    bodies: BodyReader,
) -> dict[Priority, list[tuple[Any, ...]]]:
    """Rows of each lane. Tombstones make a lane seem fuller than it is: then others get more."""
    rows: dict[Priority, list[tuple[Any, ...]]] = {lane: [] for lane in BY_URGENCY}
    waiting = {lane: max(0, bounds[lane].stable - positions[lane]) for lane in BY_URGENCY}
    while True:
        wanted = shares(waiting, room, min_share)
        short = [lane for lane in BY_URGENCY if wanted[lane] > len(rows[lane])]
        if not short or bodies.is_full:
            return rows
        for lane in short:
            its = rows[lane]
            more = bodies.after(
                session,
                tables.messages(topic, lane),
                its[-1][0] if its else positions[lane],
                bounds[lane].stable,
                wanted[lane] - len(its),
            )
            its += more
            if len(its) < wanted[lane]:
                waiting[lane] = len(its)


def overtaken(topic: str, who: str, lane: Priority, position: int, bounds: Bounds) -> int:
    """The position, or where reading goes on when retention was faster."""
    if position >= bounds.low - 1:
        return position
    logger.warning(
        "topic %s, lane %s: %s had read up to %s, but everything before %s was removed by "
        "retention", topic, lane.label, who, position, bounds.low,
    )  # fmt: skip
    return bounds.low - 1


def _move(
    session: DbConnection, topic: str, reader: ConsumerSpec, positions: Mapping[Priority, int]
) -> None:
    """Forward only."""
    with session.transaction():
        for lane, position in positions.items():
            session.run(
                f"UPDATE {tables.cursors(topic)} SET `offset`=GREATEST(`offset`,%s) "
                "WHERE group_key='' AND token=%s AND queue_id=0 AND priority=%s",
                (position, reader.token, lane.label),
            )


def commit(
    session: DbConnection, topic: str, reader: ConsumerSpec, claim: Sequence[object]
) -> None:
    """All lanes in one statement of one transaction; a late commit lowers nothing."""
    moved = _parse(claim, reader)
    choices = " ".join(["WHEN %s THEN %s"] * len(moved))
    known = " OR ".join(["(priority=%s AND epoch=%s)"] * len(moved))
    values: list[object] = [value for label, end, _ in moved for value in (label, end)]
    values.append(reader.token)
    values += [value for label, _, epoch in moved for value in (label, epoch)]
    with session.transaction():
        count = session.run(
            f"UPDATE {tables.cursors(topic)} SET "
            f"`offset`=GREATEST(`offset`, CASE priority {choices} END) "
            f"WHERE group_key='' AND token=%s AND queue_id=0 AND ({known})",
            values,
        )
        if count != len(moved):
            raise _lost(topic, reader)


def renew(session: DbConnection, topic: str, reader: ConsumerSpec, claim: Sequence[object]) -> None:
    """Nobody takes anything away from a consumer on its own; ClaimLost as for commit."""
    found = {
        lane.label: one.epoch
        for lane, one in group_rows.find_cursors(session, topic, reader).items()
    }
    if any(found.get(label) != epoch for label, _, epoch in _parse(claim, reader)):
        raise _lost(topic, reader)


def _lost(topic: str, reader: ConsumerSpec) -> ClaimLost:
    return ClaimLost(
        f"the position of {reader.token!r} in topic {topic!r} was set anew since this was read; "
        "nothing was committed, read again"
    )


def _parse(claim: Sequence[object], reader: ConsumerSpec) -> list[tuple[str, int, int]]:
    match claim:
        case [kind, token, [_, *_] as moved] if kind == KIND and token == reader.token:
            return [_lane(one) for one in moved]
    raise ClaimLost(
        f"the claim is not one of {reader.token!r} reading alone; nothing was committed"
    )


def _lane(one: object) -> tuple[str, int, int]:
    match one:
        case [str(label), int(end), int(epoch)]:
            return lane_named(label).label, end, epoch
    raise ClaimLost("the claim is none that a read has given; nothing was committed")


def seek(
    session: DbConnection, topic: str, reader: ConsumerSpec, positions: Mapping[Priority, int]
) -> None:
    """Set the positions; claims read before do not fit any more."""
    with session.transaction():
        session.run(
            f"UPDATE {tables.cursors(topic)} SET epoch=epoch+1 "
            "WHERE group_key='' AND token=%s AND queue_id=0",
            (reader.token,),
        )
        for lane, position in positions.items():
            session.run(
                f"UPDATE {tables.cursors(topic)} SET `offset`=%s "
                "WHERE group_key='' AND token=%s AND queue_id=0 AND priority=%s",
                (position, reader.token, lane.label),
            )
