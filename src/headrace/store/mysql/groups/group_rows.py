"""Rows of `msg_l`, the ranges that are out: written, renewed and ended by their members.

A range that is done leaves its row behind, empty (``end_id`` 0), for the next one. Deleted rows
would stay in the way of every read while some old transaction is open on the server; and nothing
indexed ever changes.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.errors import ClaimLost
from headrace.model.topics.claim_plan import ClaimRange
from headrace.model.topics.message_priority import BY_URGENCY, Priority, priority_named
from headrace.store.mysql import tables
from headrace.store.mysql.stable_ids import Bounds, TopicBounds
from headrace.store.mysql.tables import NOW
from headrace.store.sql.connection import DbConnection, Row
from headrace.store.topics.types import LATEST, ConsumerSpec

logger = logging.getLogger(__name__)

KIND: Final = "group"
# Token and lease stay: they show recent members.
FREE: Final = "start_id=0, end_id=0, epoch=epoch+1, nacked=NULL"
_COLUMNS: Final = "group_id,priority,start_id,end_id,token,epoch,attempts,lease_until_ms,nacked"
_PLACES: Final = f"%s,%s,%s,%s,%s,%s,%s,{NOW}+%s,%s)"
_CHANGED: Final = ", ".join(f"{one}=VALUES({one})" for one in _COLUMNS.split(",")[1:])
_MANY: Final = 1000  # rows of a group
_UNUSED_MS: Final = 60_000
_OVER: Final = -1000  # a lease that ended a second ago
Key = tuple[int, int]
"""Id and epoch of a range."""
Group = tuple[str, str | None]
"""Topic and group."""
Member = tuple[str, str | None, str]
"""Topic, group and token."""


@dataclass(frozen=True, slots=True)
class ClaimedRange:
    """A range that belongs to this reader now."""

    id: int
    epoch: int
    piece: ClaimRange
    nacked: frozenset[int] = frozenset()


def parse(claim: Sequence[object], reader: ConsumerSpec) -> list[Key]:
    """Ids and epochs of the ranges; ClaimLost when it is no claim of this group."""
    match claim:
        case [kind, group, [*ranges]] if kind == KIND and group == reader.group:
            return sorted(_range(one) for one in ranges)
    raise ClaimLost(f"the claim is not one of group {reader.group!r}; nothing was changed")


def _range(one: object) -> Key:
    match one:
        case [int(number), int(epoch)]:
            return number, epoch
    raise ClaimLost("the claim was not returned by a read; nothing was changed")


@dataclass(frozen=True, slots=True)
class NewClaimRow:
    """A row to be written. Without a token it is anybody's at once."""

    priority: Priority
    start: int
    end: int
    attempts: int
    token: str = ""
    nacked: frozenset[int] = frozenset()


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


class ReaderRows:
    """What a reader, alone or in a group, has in the tables of a topic; in one session."""

    def __init__(self, session: DbConnection, topic: str, reader: ConsumerSpec) -> None:
        self.session, self.topic, self.reader = session, topic, reader
        self.cursors, self.claims = tables.cursors(topic), tables.claims(topic)
        self.retries = tables.retries(topic)
        self.group: Group = (topic, reader.group)
        self.member: Member = (topic, reader.group, reader.token)

    # -- ranges ----------------------------------------------------------------------------------

    def put(self, new: Sequence[NewClaimRow], free: list[int]) -> list[Key]:
        """Write ranges, into rows that are free as far as there are some."""
        epoch = new_epoch()
        seen = [free.pop() for _ in range(min(len(free), len(new)))]
        numbers = self._still_free(seen) if seen else []
        if numbers:
            self.session.run(
                f"INSERT INTO {self.claims} (id,{_COLUMNS}) VALUES "
                f"{','.join([f'(%s,{_PLACES}'] * len(numbers))} ON DUPLICATE KEY UPDATE {_CHANGED}",
                [value for number, one in zip(numbers, new, strict=False)
                 for value in (number, *self._values_of(one, epoch))],
            )  # fmt: skip
        if rest := new[len(numbers) :]:
            first = self.session.insert(
                f"INSERT INTO {self.claims} ({_COLUMNS}) VALUES "
                f"{','.join([f'({_PLACES}'] * len(rest))}",
                [value for one in rest for value in self._values_of(one, epoch)],
            )
            numbers += [first + at * int(self.session.id_step) for at in range(len(rest))]
        return [(number, epoch) for number in numbers]

    def _still_free(self, seen: Sequence[int]) -> list[int]:
        """Without rows that their members have taken into use, which they may do at any time."""
        rows = self.session.rows(
            f"SELECT id FROM {self.claims} FORCE INDEX (PRIMARY) "
            f"WHERE id IN ({','.join(['%s'] * len(seen))}) AND end_id=0 FOR UPDATE",
            seen,
        )
        return [number for (number,) in rows]

    def free_row(self, other: int) -> int:
        """A row that the reader may claim with, besides ``other``."""
        rows = self.session.rows(
            f"SELECT id FROM {self.claims} "
            "WHERE group_id=%s AND token=%s AND end_id=0 AND id<>%s LIMIT 1",
            (self.reader.group, self.reader.token, other),
        )
        if rows:
            return int(rows[0][0])
        return self.put([NewClaimRow(Priority.MIDDLE, 0, 0, 0, self.reader.token)], [])[0][0]

    def _values_of(self, one: NewClaimRow, epoch: int) -> list[object]:
        lease = self.reader.lease_ms if one.token else _OVER
        return [
            self.reader.group, one.priority.label, one.start, one.end, one.token, epoch,
            one.attempts, lease, join_ids(one.nacked),
        ]  # fmt: skip

    def commit(self, ranges: Sequence[Key]) -> None:
        if len(ranges) == 1:  # one row, one statement: it needs no transaction
            self.end(ranges)
            return
        with self.session.transaction():
            self.end(ranges)

    def end(self, ranges: Sequence[Key]) -> None:
        """All of them are done, or ClaimLost; in a transaction when there are several."""
        count = self.session.run(
            f"UPDATE {self.claims} FORCE INDEX (PRIMARY) SET {FREE} WHERE {_live(ranges)}",
            self._held_values(ranges),
        )
        if count != len(ranges):
            raise self.lost()

    def renew(self, ranges: Sequence[Key]) -> None:
        """Also of a lease that is over, while no other member has the messages."""
        with self.session.transaction():
            count = self.session.run(
                f"UPDATE {self.claims} FORCE INDEX (PRIMARY) SET lease_until_ms={NOW}+%s "
                f"WHERE {_held(ranges)}",
                (self.reader.lease_ms, *self._held_values(ranges)),
            )
            if count != len(ranges):
                raise self.lost()

    def locked(self, ranges: Sequence[Key]) -> list[Row]:
        """The rows of a claim, kept from others until the transaction ends; ClaimLost."""
        rows = self.session.rows(
            f"SELECT id,priority,start_id,end_id,attempts,nacked FROM {self.claims} "
            f"FORCE INDEX (PRIMARY) WHERE {_live(ranges)} FOR UPDATE",
            self._held_values(ranges),
        )
        if len(rows) != len(ranges):
            raise self.lost()
        return rows

    def _held_values(self, ranges: Sequence[Key]) -> list[object]:
        numbers = (number for one in ranges for number in one)
        return [self.reader.group, self.reader.token, *numbers]

    def lost(self) -> ClaimLost:
        return ClaimLost(
            f"the claim is not one of {self.reader.token!r} in group {self.reader.group!r} of "
            f"topic {self.topic!r} any more: its lease was over (then another member has its "
            "messages, or will get them), or it is another member's, or was committed before, or "
            "the group was set to another position; nothing was changed"
        )

    # -- cursors ---------------------------------------------------------------------------------

    def lock_group(self) -> int:
        """Begins whatever changes what a group has claimed. How many rows the group has: of a new
        one none, of one in tables of the original layout perhaps not those of all priorities.

        It writes: a lock (FOR UPDATE) is known to one node of a cluster only, while two
        transactions that write the same row are never both committed. It writes the rows of all
        priorities, because a steady read writes only that of its own.
        """
        return self.session.run(
            f"UPDATE {self.cursors} SET epoch=epoch+1 "
            "WHERE group_key=%s AND token='' AND queue_id=0",
            (self.reader.group,),
        )

    @property
    def _row_token(self) -> str:
        """A group has one row for all its members."""
        return "" if self.reader.group is not None else self.reader.token

    def find_cursors(self) -> dict[Priority, GroupCursor]:
        rows = self.session.rows(
            f"SELECT priority,`offset`,claimed,epoch FROM {self.cursors} "
            "WHERE group_key=%s AND token=%s AND queue_id=0 ORDER BY priority",
            (self.reader.group or "", self._row_token),
        )
        return {priority_named(label): GroupCursor(*numbers) for label, *numbers in rows}

    def make_cursors(self, bounds: TopicBounds) -> None:
        """The rows of a new reader; those that are there stay as they are."""
        values: list[object] = []
        for priority in BY_URGENCY:
            start = start_of(self.reader, bounds[priority])
            values += [self.reader.group, self._row_token, priority.label, start, start]
            values.append(new_epoch())
        self.session.run(
            f"INSERT IGNORE INTO {self.cursors} "
            "(group_id,token,priority,`offset`,claimed,epoch) VALUES "
            + ",".join(["(%s,%s,%s,%s,%s,%s)"] * len(BY_URGENCY)),
            values,
        )

    def find_or_make_cursors(self, bounds: TopicBounds) -> dict[Priority, GroupCursor]:
        found = self.find_cursors()
        if len(found) < len(BY_URGENCY):
            self.make_cursors(bounds)
            found = self.find_cursors()
        return found

    def move(self, positions: Mapping[Priority, int]) -> None:
        """Forward only: the last ids handed out to a group, or the position of another reader."""
        column = "`offset`" if self.reader.group is None else "claimed"
        self._set(positions, f"{column}=GREATEST({column},{{}})")

    def reset(self, positions: Mapping[Priority, int]) -> None:
        """Set both to these."""
        self._set(positions, "`offset`={}")
        self._set(positions, "claimed={}")

    def _set(self, positions: Mapping[Priority, int], change: str) -> None:
        if positions:
            values: list[object] = []
            for priority, position in positions.items():
                values += [priority.label, position]
            labels = [priority.label for priority in positions]
            case = f"CASE priority {' '.join(['WHEN %s THEN %s'] * len(labels))} END"
            self.session.run(
                f"UPDATE {self.cursors} SET {change.format(case)} "
                "WHERE group_key=%s AND token=%s AND queue_id=0 "
                f"AND priority IN ({','.join(['%s'] * len(labels))})",
                [*values, self.reader.group or "", self._row_token, *labels],
            )

    def overtaken(self, priority: Priority, position: int, bounds: Bounds) -> int:
        """The position, or where reading goes on when retention was faster."""
        if position >= bounds.low - 1:
            return position
        group = self.reader.group
        logger.warning(
            "topic %s, priority %s: %s had read up to %s, but everything before %s was removed by "
            "retention", self.topic, priority.label,
            self.reader.token if group is None else f"group {group}", position, bounds.low,
        )  # fmt: skip
        return bounds.low - 1

    def delete_cursors(self) -> None:
        """The reader's progress is gone, with all that is out; in a transaction."""
        group = self.reader.group
        if group is None:
            self.session.run(
                f"DELETE FROM {self.cursors} WHERE group_key='' AND token=%s", (self.reader.token,)
            )
            return
        self.lock_group()
        for table in (self.claims, self.retries):
            self.session.run(f"DELETE FROM {table} WHERE group_id=%s", (group,))
        self.session.run(f"DELETE FROM {self.cursors} WHERE group_key=%s", (group,))


def _held(ranges: Sequence[Key]) -> str:
    pairs = " OR ".join(["(id=%s AND epoch=%s)"] * len(ranges))
    return f"group_id=%s AND token=%s AND end_id>0 AND ({pairs or 'FALSE'})"


def _live(ranges: Sequence[Key]) -> str:
    return f"{_held(ranges)} AND lease_until_ms>={NOW}"


def split_ids(text: str | None) -> frozenset[int]:
    return frozenset(map(int, text.split(","))) if text else frozenset()


def join_ids(ids: Iterable[int]) -> str | None:
    return ",".join(map(str, sorted(ids))) or None


def trim(session: DbConnection, topic: str) -> None:
    """Remove rows that were needed once, by thousands of messages tried again one by one: every
    read of the group would scan them."""
    table = tables.claims(topic)
    for (group,) in session.rows(
        f"SELECT group_id FROM {table} GROUP BY group_id HAVING COUNT(*)>{_MANY}"
    ):
        session.run(
            f"DELETE FROM {table} WHERE group_id=%s AND end_id=0 AND lease_until_ms<{NOW}-%s "
            f"LIMIT {_MANY}",
            (group, _UNUSED_MS),
        )


def keep_offsets(session: DbConnection, topic: str, group: str | None = None) -> None:
    """Write the progress of a group, or of all, into `offset`, where other programs look for it:
    everything up to there is done. It only grows. The numbers are of one snapshot, in which a range
    is either not claimed yet or has its row."""
    which, values = ("AND c.group_key=%s", [group]) if group is not None else ("", [])
    rows = session.rows(
        "SELECT c.id,c.`offset` AS known,LEAST(c.claimed,"
        f"IFNULL((SELECT MIN(start_id) FROM {tables.claims(topic)} l WHERE l.group_id=c.group_id "
        "AND l.priority=c.priority AND l.end_id>0)-1,c.claimed),"
        f"IFNULL((SELECT MIN(msg_id) FROM {tables.retries(topic)} r WHERE r.group_id=c.group_id "
        "AND r.priority=c.priority AND r.state='retry')-1,c.claimed)) AS done "
        f"FROM {tables.cursors(topic)} c "
        f"WHERE c.group_id IS NOT NULL AND c.token='' AND c.queue_id=0 {which} "
        "HAVING done>known",
        values,
    )
    for number, _, done in rows:
        session.run(
            f"UPDATE {tables.cursors(topic)} SET `offset`=GREATEST(`offset`,%s) "
            "WHERE id=%s AND claimed>=%s",  # not after a reset in between
            (done, number, done),
        )
