"""Single consumers: a position per priority, moved by commit; only a reset moves it back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from headrace.errors import ClaimLost
from headrace.model.topics.message_priority import BY_URGENCY, Priority, priority_named, shares
from headrace.store.mysql import tables
from headrace.store.mysql.context import COMMITTED, HANDED_OUT, MySqlContext
from headrace.store.mysql.groups.group_rows import ReaderRows
from headrace.store.mysql.message_rows import BodyReader, message_of
from headrace.store.mysql.stable_ids import TopicBounds
from headrace.store.sql.connection import DbConnection, Row
from headrace.store.topics.types import ConsumerSpec, ReadResult

KIND: Final = "alone"


class SingleReads:
    """Reads of consumers without a group."""

    def __init__(self, context: MySqlContext) -> None:
        self._context = context

    def read(
        self, topic: str, reader: ConsumerSpec, limit: int, claim: Sequence[object] | None
    ) -> ReadResult:
        """Commits the claim before, if there is one."""
        if claim:
            self.commit(topic, reader, claim)

        def work(session: DbConnection, bounds: TopicBounds) -> ReadResult:
            own = ReaderRows(session, topic, reader)
            return read(own, bounds, limit, BodyReader(self._context.body_sizes))

        return self._context.read(topic, work, unknown=HANDED_OUT, repeatable=False)

    def commit(self, topic: str, reader: ConsumerSpec, claim: Sequence[object]) -> None:
        """All priorities in one statement of one transaction; a late commit lowers nothing."""
        moved = _parse(claim, reader)
        choices = " ".join(["WHEN %s THEN %s"] * len(moved))
        known = " OR ".join(["(priority=%s AND epoch=%s)"] * len(moved))
        values: list[object] = [value for label, end, _ in moved for value in (label, end)]
        values.append(reader.token)
        values += [value for label, _, epoch in moved for value in (label, epoch)]

        def work(session: DbConnection) -> None:
            with session.transaction():
                count = session.run(
                    f"UPDATE {tables.cursors(topic)} SET "
                    f"`offset`=GREATEST(`offset`, CASE priority {choices} END) "
                    f"WHERE group_key='' AND token=%s AND queue_id=0 AND ({known})",
                    values,
                )
                if count != len(moved):
                    raise _lost(topic, reader)

        self._context.run(topic, work, unknown=COMMITTED)

    def renew(self, topic: str, reader: ConsumerSpec, claim: Sequence[object]) -> None:
        """A consumer without a group cannot lose messages to others; ClaimLost as for commit."""
        cursors = self._context.run(topic, lambda it: ReaderRows(it, topic, reader).find_cursors())
        found = {one.label: its.epoch for one, its in cursors.items()}
        if any(found.get(label) != epoch for label, _, epoch in _parse(claim, reader)):
            raise _lost(topic, reader)


def read(own: ReaderRows, bounds: TopicBounds, batch: int, bodies: BodyReader) -> ReadResult:
    """The next messages; the position stays until they are committed."""
    found = own.find_or_make_cursors(bounds)
    positions = {
        priority: own.overtaken(priority, cursor.offset, bounds[priority])
        for priority, cursor in found.items()
    }
    late = {priority: at for priority, at in positions.items() if at > found[priority].offset}
    if late:  # logged once, not with every read
        own.move(late)
    rows = _fill(own, positions, bounds, batch, bodies)
    messages = tuple(
        message_of(row, priority, 1) for priority in BY_URGENCY for row in rows[priority]
    )
    if not messages:
        return ReadResult()
    # Nothing but tombstones is left behind a lane's last message when there was room for more.
    ends = {
        priority: bounds[priority].stable
        if len(messages) < batch and not bodies.is_full
        else (its[-1][0] if its else positions[priority])
        for priority, its in rows.items()
    }
    moved = [
        [priority.label, end, found[priority].epoch]
        for priority, end in ends.items()
        if end > found[priority].offset
    ]
    return ReadResult(messages, (KIND, own.reader.token, moved))


def _fill(
    own: ReaderRows,
    positions: Mapping[Priority, int],
    bounds: TopicBounds,
    room: int,
    bodies: BodyReader,
) -> dict[Priority, list[Row]]:
    """Rows of each priority. One with tombstones has fewer than it seems: others get more then."""
    rows: dict[Priority, list[Row]] = {priority: [] for priority in BY_URGENCY}
    waiting = {
        priority: max(0, bounds[priority].stable - positions[priority]) for priority in BY_URGENCY
    }
    while True:
        wanted = shares(waiting, room, own.reader.min_share)
        short = [priority for priority in BY_URGENCY if wanted[priority] > len(rows[priority])]
        if not short or bodies.is_full:
            return rows
        for priority in short:
            its = rows[priority]
            more = bodies.after(
                own.session,
                tables.messages(own.topic, priority),
                its[-1][0] if its else positions[priority],
                bounds[priority].stable,
                wanted[priority] - len(its),
            )
            its += more
            if len(its) < wanted[priority]:
                waiting[priority] = len(its)


def _lost(topic: str, reader: ConsumerSpec) -> ClaimLost:
    return ClaimLost(
        f"the position of {reader.token!r} in topic {topic!r} was reset since this was read; "
        "nothing was committed, read again"
    )


def _parse(claim: Sequence[object], reader: ConsumerSpec) -> list[tuple[str, int, int]]:
    match claim:
        case [kind, token, [_, *_] as moved] if kind == KIND and token == reader.token:
            return [_priority(one) for one in moved]
    raise ClaimLost(
        f"the claim is not one of {reader.token!r} reading alone; nothing was committed"
    )


def _priority(one: object) -> tuple[str, int, int]:
    match one:
        case [str(label), int(end), int(epoch)]:
            return priority_named(label).label, end, epoch
    raise ClaimLost("the claim was not returned by a read; nothing was committed")


def reset(own: ReaderRows, positions: Mapping[Priority, int]) -> None:
    """Set the positions; claims read before do not fit any more."""
    with own.session.transaction():
        own.session.run(
            f"UPDATE {own.cursors} SET epoch=epoch+1 "
            "WHERE group_key='' AND token=%s AND queue_id=0",
            (own.reader.token,),
        )
        own.reset(positions)
