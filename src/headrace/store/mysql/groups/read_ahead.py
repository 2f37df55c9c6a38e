"""Ids claimed ahead: what a member that reads quickly reads next is its own already, for a moment.

Such a member claims the ids of several reads at once, in a second row of `msg_l` with a short
lease, and fetches their messages. Each read then commits the last batch and moves the next one
into the row that the member has for what is handed out, in one UPDATE: both rows or none.

1. Ids ahead are claimed as all others are, in the group's row. A read changes nothing but rows
   that are the member's own, and only if both still have the epochs it knows.
2. They are not handed out yet: their row counts no attempt.
3. While there are some, what others append with a higher priority, or make due again, is looked
   for every 50 ms; what this process does, with every read.
4. They are released when anything else is to be read, or the member closes. Their lease is not
   renewed: a member that becomes slow does not keep them from others for longer.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from headrace.cache import BoundedCache
from headrace.model.topics.claim_plan import ClaimRange
from headrace.model.topics.message_priority import BY_URGENCY, Priority
from headrace.store.mysql import tables
from headrace.store.mysql.groups.group_rows import (
    ClaimedRange,
    Group,
    Key,
    Member,
    ReaderRows,
    new_epoch,
)
from headrace.store.mysql.tables import NOW
from headrace.store.sql.connection import DbConnection, Row

LEASE_MS: Final = 200
MAX_BYTES: Final = 1 << 20
LOOK_S: Final = 0.05
_AHEAD_S: Final = 0.05  # how long the ids last
_QUICK_S: Final = 0.05  # from one read to the next
_QUICK_READS: Final = 8  # before ids are claimed ahead
_MAX_IDS: Final = 512
_SHARE: Final = 4  # one part of what is waiting, the rest is for other members
_REMEMBERED: Final = 10_000
_STATEMENTS: Final = 1000


@dataclass(slots=True)
class IdsAhead:
    """From ``start`` to ``end``, and the messages that are there."""

    key: Key
    priority: Priority
    start: int
    end: int
    rows: Sequence[Row]
    news: tuple[object, ...]
    looked_at: float
    claimed_at: float
    place: int = 0

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self.claimed_at + LEASE_MS / 1000


class ReadAhead:
    """What members in this process have claimed ahead. May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[Member, IdsAhead] = {}
        # How many quick reads, of how many messages, when the last was, and the time between them.
        self._paces = BoundedCache[Member, tuple[int, int, float, float]](_REMEMBERED)
        self.rows = BoundedCache[Member, int](_REMEMBERED)  # of `msg_l`, free or held
        self._turns = itertools.count(1)
        self._news = BoundedCache[tuple[str, object], int](_REMEMBERED)

    def take(self, member: Member) -> IdsAhead | None:
        """No other thread has them until they are given to keep()."""
        with self._lock:
            return self._held.pop(member, None)

    def keep(self, member: Member, ids: IdsAhead) -> bool:
        """False when another thread of the member has some: these are to be released."""
        with self._lock:
            for other in [one for one, its in self._held.items() if its.is_over]:
                del self._held[other]
            return self._held.setdefault(member, ids) is ids

    def members(self) -> list[Member]:
        with self._lock:
            return [member for member, its in self._held.items() if not its.is_over]

    # -- how quick a member is -------------------------------------------------------------------

    def has_read(self, member: Member, limit: int, now: float, *, is_full: bool) -> None:
        count, its_limit, last, pause = self._paces.get(member, (0, limit, now, _QUICK_S))
        between = now - last
        if not is_full or between > _QUICK_S or limit != its_limit:
            count, pause = 0, _QUICK_S
        self._paces.keep(member, (count + 1, limit, now, (3 * pause + between) / 4))

    def size(self, member: Member, limit: int, waiting: int, fitting: int) -> int:
        """How many ids to claim ahead, for several reads; 0 for none."""
        count, its_limit, last, pause = self._paces.get(member, (0, 0, 0.0, 1.0))
        if count < _QUICK_READS or its_limit != limit or time.monotonic() > last + _QUICK_S:
            return 0
        most = min(_MAX_IDS, fitting, waiting // _SHARE)
        reads = min(int(_AHEAD_S / max(pause, 1e-6)), most // limit)
        return limit * reads if reads > 1 else 0

    # -- what happens in this process ------------------------------------------------------------

    def note_append(self, topic: str, priorities: Iterable[Priority]) -> None:
        for priority in priorities:
            if priority is not Priority.LOW:  # nothing is below it
                self._news.keep((topic, priority), next(self._turns))

    def note_due(self, group: Group) -> None:
        self._news.keep(group, next(self._turns))

    def news(self, group: Group, priority: Priority) -> tuple[object, ...]:
        """Another one when something happened that may come before this priority's ids."""
        higher = BY_URGENCY[: BY_URGENCY.index(priority)]
        return (self._news.get(group), *(self._news.get((group[0], one)) for one in higher))


def hand_over(
    own: ReaderRows, ids: IdsAhead, row: int, acks: Sequence[Key], limit: int
) -> tuple[ClaimedRange, Sequence[Row]] | None:
    """The next messages, in a free row of the reader, or in that of the range in ``acks``, which is
    committed by it. None, and nothing is changed, when there are too few, or something is not as
    it was."""
    rows = ids.rows[ids.place : ids.place + limit]
    if len(rows) < limit or row == ids.key[0]:
        return None
    last = ids.end if ids.place + limit == len(ids.rows) else rows[-1][0]
    epoch = new_epoch()
    rest = (last + 1, ids.end) if last < ids.end else (0, 0)
    sql = _hand_over_sql(own.topic, ids.priority, bool(acks)).format(
        row=row, ahead=ids.key[0], known=ids.key[1], epoch=epoch, start=ids.start, last=last,
        rest=rest[0], end=rest[1], lease=own.reader.lease_ms, held=acks[0][1] if acks else 0,
    )  # fmt: skip
    if not own.session.run(sql, (own.reader.group, own.reader.token)):
        return None
    piece = ClaimRange(ids.priority, ids.start, last, 1)
    ids.key, ids.start = (ids.key[0], epoch), last + 1
    ids.place += limit
    return ClaimedRange(row, epoch, piece), rows


@lru_cache(_STATEMENTS)
def _hand_over_sql(topic: str, priority: Priority, is_commit: bool) -> str:
    table = tables.claims(topic)
    sql = (
        f"UPDATE {table} r STRAIGHT_JOIN {table} a "
        f"SET r.start_id={{start}},r.end_id={{last}},r.priority='{priority.label}',"
        f"r.epoch={{epoch}},r.attempts=1,r.lease_until_ms={NOW}+{{lease}},"
        "a.start_id={rest},a.end_id={end},a.epoch={epoch} "
        "WHERE r.id={row} AND r.group_id=%s AND r.token=%s AND r.nacked IS NULL "
        "AND a.id={ahead} AND a.epoch={known} AND a.end_id>0 AND "
    )
    if is_commit:
        return sql + f"r.epoch={{held}} AND r.end_id>0 AND r.lease_until_ms>={NOW}"
    return sql + "r.end_id=0"


def release(session: DbConnection, topic: str, ids: IdsAhead) -> None:
    """Any member may take them at once, unless one has them already."""
    session.run(
        f"UPDATE {tables.claims(topic)} SET token='', epoch=epoch+1, lease_until_ms=0 "
        "WHERE id=%s AND epoch=%s AND end_id>0",
        ids.key,
    )
